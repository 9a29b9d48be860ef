import { connect } from "node:http2";
import type { Probe } from "@fairlead/kube/api/core/v1/types.ts";
import type { ProbeOutcome } from "./attempt.ts";

/** The health check of gRPC (grpc.health.v1.Health/Check), without transport security, as the kubelet asks for it. */

type Grpc = NonNullable<Probe["grpc"]>;

/** HealthCheckResponse.ServingStatus. */
const STATUS = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"] as const;

export async function checkGrpc(grpc: Grpc, host: string, timeoutMs: number): Promise<ProbeOutcome> {
  const { port, service = "" } = grpc;
  const address = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  try {
    const { status, body } = await call(address, encodeRequest(service), timeoutMs);
    if (status === "12")
      return {
        ok: false,
        message: `error: this server does not implement the grpc health protocol (grpc.health.v1.Health)`,
      };
    if (status !== "0") return { ok: false, message: `error: health rpc failed: code ${status}` };
    const serving = STATUS[decodeStatus(body)] ?? "UNKNOWN";
    return serving === "SERVING"
      ? { ok: true, message: "" }
      : { ok: false, message: `service unhealthy (responded with "${serving}")` };
  } catch (error) {
    const why = Error.isError(error) ? error.message : String(error);
    const message =
      why === TIMED_OUT
        ? `timeout: failed to connect service "${address}" within ${timeoutMs / 1000}s`
        : `failed to connect service "${address}": ${why}`;
    return { ok: false, message };
  }
}

const TIMED_OUT = "timed out";

interface Answer {
  readonly status: string;
  readonly body: Buffer;
}

function call(address: string, message: Buffer, timeoutMs: number): Promise<Answer> {
  const session = connect(`http://${address}`);
  const answer = new Promise<Answer>((resolve, reject) => {
    const timer = AbortSignal.timeout(timeoutMs);
    timer.addEventListener("abort", () => reject(new Error(TIMED_OUT)), { once: true });
    session.once("error", reject);
    const stream = session.request({
      ":method": "POST",
      ":path": "/grpc.health.v1.Health/Check",
      "content-type": "application/grpc",
      "user-agent": "kube-probe/1.36",
      te: "trailers",
    });
    const chunks: Buffer[] = [];
    let status = "";
    const note = (headers: Readonly<Record<string, unknown>>): void => {
      const said = headers["grpc-status"];
      if (typeof said === "string") status = said;
    };
    stream.on("response", note).on("trailers", note);
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.once("error", reject);
    stream.once("close", () => resolve({ status, body: Buffer.concat(chunks) }));
    stream.end(message);
  });
  return answer.finally(() => session.destroy());
}

/** HealthCheckRequest { string service = 1 }, behind the five bytes of a gRPC message that is not compressed. */
function encodeRequest(service: string): Buffer {
  const name = Buffer.from(service);
  const body =
    name.length === 0 ? Buffer.alloc(0) : Buffer.concat([Buffer.from([0x0a, ...varint(name.length)]), name]);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

function varint(value: number): readonly number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >> 7)];
}

/** HealthCheckResponse { ServingStatus status = 1 }; a field of its default value is not sent. */
function decodeStatus(answer: Buffer): number {
  return answer[5] === 0x08 ? (answer[6] ?? 0) : 0;
}
