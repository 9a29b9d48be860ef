import { get } from "node:http";
import type { Clock } from "@fairlead/base/clock.ts";
import type { FlowProbe } from "./flow-probes.ts";
import type { Probe } from "./tcp.ts";

/** A client would have given up by then. Unit: milliseconds. */
const ANSWER_TIMEOUT_MS = 2000;
/** Servers have trouble from this status on. */
const SERVER_ERROR = 500;

/** Connects, and asks by HTTP where the target says so: for the status only. */
export function flowProbe(tcp: Probe, clock: Clock): FlowProbe {
  return async ({ address, port, http }, signal) => {
    if (http !== undefined) return askHttp({ address, port, ...http }, clock, signal);
    return (await tcp(address, port, signal)) === "connected" ? undefined : "no connection";
  };
}

interface HttpTarget {
  readonly address: string;
  readonly port: number;
  readonly host: string;
  readonly path: string;
}

function askHttp(
  { address, port, host, path }: HttpTarget,
  clock: Clock,
  signal: AbortSignal,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const headers = { host, "user-agent": "fairlead-probe", connection: "close" };
    const request = get({ host: address, port, path, headers, agent: false });
    const finish = (problem: string | undefined): void => {
      timer[Symbol.dispose]();
      signal.removeEventListener("abort", onAbort);
      request.destroy();
      resolve(problem);
    };
    const onAbort = (): void => finish("aborted");
    const timer = clock.after(ANSWER_TIMEOUT_MS, () => finish("no answer within 2 s"));
    signal.addEventListener("abort", onAbort, { once: true });
    // The body is never read. Headers are limited by Node, to 16 KiB.
    request.once("response", ({ statusCode = 0 }) =>
      finish(statusCode >= SERVER_ERROR ? `HTTP ${statusCode}` : undefined),
    );
    request.on("error", (error: NodeJS.ErrnoException) => finish(error.code ?? "no answer"));
  });
}
