import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { connect } from "node:net";
import type { Container, Probe } from "#api/core/v1/types.ts";
import type { Clock } from "#base/clock.ts";
import { messageOf } from "#base/errors.ts";
import { collectExec } from "../container/exec.ts";
import type { ContainerView } from "../container/runtime.ts";

/** One attempt of a probe, as the kubelet makes it: from the node, or by a program in the container. */

export interface ProbeOutcome {
  readonly ok: boolean;
  /** What an event says of a failure. */
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
      if (probe.exec !== undefined) {
        const { code, output } = await collectExec(target.run, probe.exec.command ?? [], {
          timeoutMs,
          clock,
        });
        return {
          ok: code === 0,
          message: code === "timeout" ? `command timed out after ${timeoutMs} ms` : output,
        };
      }
      return { ok: false, message: "nodes of the lab make httpGet, tcpSocket and exec probes only" };
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

/** As much of an answer as goes into an event. Unit: bytes. */
const MAX_BODY = 10_240;

function httpGet(get: HttpGet, target: ProbeTarget, timeoutMs: number): Promise<ProbeOutcome> {
  const isHttps = get.scheme === "HTTPS";
  const own = Object.fromEntries((get.httpHeaders ?? []).map((it) => [it.name, it.value]));
  const options = {
    host: get.host ?? target.podIP,
    port: resolvePort(get.port, target.container),
    path: get.path ?? "/",
    headers: { "user-agent": "kube-probe/1.36", accept: "*/*", ...own },
    agent: false,
    timeout: timeoutMs,
    signal: AbortSignal.timeout(timeoutMs),
    // As upstream: a probe asks whether the program answers, not who it is.
    rejectUnauthorized: false,
  } as const;
  return new Promise((resolve) => {
    const request = (isHttps ? httpsRequest : httpRequest)(options, (response) => {
      const code = response.statusCode ?? 0;
      const ok = code >= 200 && code < 400;
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (text: string) => {
        body = (body + text).slice(0, MAX_BODY);
      });
      response.on("error", () => {});
      response.once("close", () =>
        resolve({
          ok,
          message: ok ? "" : `HTTP probe failed with statuscode: ${code}${body === "" ? "" : `; ${body}`}`,
        }),
      );
    });
    request.once("error", (error) =>
      resolve({ ok: false, message: `Get "${get.path ?? "/"}": ${error.message}` }),
    );
    request.end();
  });
}

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
      resolve({ ok: false, message: `dial tcp ${host}:${port}: ${error.message}` }),
    );
  });
}
