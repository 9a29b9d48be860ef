import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { connect } from "node:net";
import type { Container, Probe } from "@fairlead/kube/api/core/v1/types.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { collectExec } from "../container/exec.ts";
import type { ContainerView } from "../container/runtime.ts";
import { checkGrpc } from "./grpc.ts";

/** One attempt of a probe, as the kubelet makes it: from the node, or by a program in the container. */

export interface ProbeOutcome {
  readonly ok: boolean;
  /** The message of the event of a failure. */
  readonly message: string;
}

export interface ProbeTarget {
  readonly container: Container;
  readonly run: ContainerView;
  /** Where to connect when the probe names no host. */
  readonly podIP: string;
}

export type Attempt = (
  probe: Pick<Probe, "httpGet" | "tcpSocket" | "exec" | "grpc">,
  target: ProbeTarget,
  timeoutMs: number,
) => Promise<ProbeOutcome>;

export function probeAttempts(clock: Clock): Attempt {
  return async (probe, target, timeoutMs) => {
    try {
      if (probe.httpGet !== undefined) return await httpGet(probe.httpGet, target, timeoutMs);
      if (probe.tcpSocket !== undefined) return await tcpConnect(probe.tcpSocket, target, timeoutMs);
      if (probe.grpc !== undefined) return await checkGrpc(probe.grpc, target.podIP, timeoutMs);
      const command = probe.exec?.command ?? [];
      const { code, output } = await collectExec(target.run, command, { timeoutMs, clock });
      const timedOut = `command timed out: "${command.join(" ")}" timed out after ${timeoutMs / 1000}s`;
      return { ok: code === 0, message: code === "timeout" ? timedOut : output };
    } catch (error) {
      return { ok: false, message: messageOf(error) };
    }
  };
}

/** A port by number, or by the name that the container gives it. */
function resolvePort(port: number | string, container: Container): number {
  const named = container.ports?.find((it) => it.name === port)?.containerPort;
  const number = named ?? Number(port);
  if (Number.isInteger(number) && number > 0 && number < 65_536) return number;
  throw new Error(`the container has no port ${JSON.stringify(port)}`);
}

type HttpGet = NonNullable<Probe["httpGet"]>;

/** As upstream, a probe follows redirects of one host only, and no more than this many. */
const MAX_REDIRECTS = 10;

async function httpGet(get: HttpGet, target: ProbeTarget, timeoutMs: number): Promise<ProbeOutcome> {
  let url = urlOf(get, target);
  const signal = AbortSignal.timeout(timeoutMs);
  for (let hops = 0; ; hops++) {
    const answer = await getOnce(url, headersOf(get), signal);
    if ("error" in answer) return { ok: false, message: `Get "${url.href}": ${answer.error}` };
    const { code, location } = answer;
    const next = location === undefined ? undefined : new URL(location, url);
    if (next?.hostname !== url.hostname) return judge(code);
    if (hops === MAX_REDIRECTS)
      return { ok: false, message: `Get "${next.href}": stopped after ${MAX_REDIRECTS} redirects` };
    url = next;
  }
}

function judge(code: number): ProbeOutcome {
  const ok = code >= 200 && code < 400;
  return { ok, message: ok ? "" : `HTTP probe failed with statuscode: ${code}` };
}

function urlOf(get: HttpGet, { podIP, container }: ProbeTarget): URL {
  const host = get.host ?? podIP;
  const authority = `${host.includes(":") ? `[${host}]` : host}:${resolvePort(get.port, container)}`;
  const { pathname, search } = new URL(get.path ?? "/", "http://probe");
  return new URL(`${get.scheme === "HTTPS" ? "https" : "http"}://${authority}${pathname}${search}`);
}

function headersOf({ httpHeaders = [] }: HttpGet): Readonly<Record<string, string | string[]>> {
  const headers: Record<string, string | string[]> = { "user-agent": "kube-probe/1.36", accept: "*/*" };
  for (const name of new Set(httpHeaders.map((it) => it.name.toLowerCase()))) {
    const values = httpHeaders.filter((it) => it.name.toLowerCase() === name).map((it) => it.value);
    // A header that is set to nothing is not sent.
    if (values.every((it) => it === "")) delete headers[name];
    else headers[name] = values.length === 1 ? (values[0] ?? "") : values;
  }
  return headers;
}

type HttpAnswer =
  | { readonly code: number; readonly location: string | undefined }
  | { readonly error: string };

function getOnce(
  url: URL,
  headers: Readonly<Record<string, string | string[]>>,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  // As upstream: a probe asks whether the program answers, not who it is.
  const options = { headers, agent: false, signal, rejectUnauthorized: false } as const;
  return new Promise((resolve) => {
    const request = (url.protocol === "https:" ? httpsRequest : httpRequest)(url, options, (response) => {
      response.on("error", () => {});
      response.resume();
      const code = response.statusCode ?? 0;
      const location = code >= 300 && code < 400 ? response.headers.location : undefined;
      response.once("close", () => resolve({ code, location }));
    });
    request.once("error", (error) => resolve({ error: asGoSays(error, url.host) }));
    request.end();
  });
}

/** A failed connection in the words that a kubelet has for it. */
function asGoSays(error: Error, address: string): string {
  if (error.name === "AbortError" || error.name === "TimeoutError")
    return "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
  return `dial tcp ${address}: ${connectError(error)}`;
}

function connectError(error: Error): string {
  const code = "code" in error ? error.code : undefined;
  if (error.name === "AbortError" || error.name === "TimeoutError") return "i/o timeout";
  return (typeof code === "string" ? CONNECT_ERRORS[code] : undefined) ?? error.message;
}

const CONNECT_ERRORS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connect: connection refused",
  EHOSTUNREACH: "connect: no route to host",
  ENETUNREACH: "connect: network is unreachable",
  ETIMEDOUT: "i/o timeout",
};

function tcpConnect(
  tcp: NonNullable<Probe["tcpSocket"]>,
  target: ProbeTarget,
  timeoutMs: number,
): Promise<ProbeOutcome> {
  const host = tcp.host ?? target.podIP;
  const port = resolvePort(tcp.port, target.container);
  return new Promise((resolve) => {
    const socket = connect({ host, port, signal: AbortSignal.timeout(timeoutMs) });
    socket.once("connect", () => {
      socket.destroy();
      resolve({ ok: true, message: "" });
    });
    socket.once("error", (error) =>
      resolve({ ok: false, message: `dial tcp ${host}:${port}: ${connectError(error)}` }),
    );
  });
}
