import { connect } from "node:net";
import type { Clock } from "@fairlead/base/clock.ts";

/** "refused": the endpoint is there, and does not listen. "silent": no connection in time, or no route. */
export type ProbeAnswer = "connected" | "refused" | "silent";

/** Makes a TCP connection to an endpoint. Never throws. */
export type Probe = (address: string, port: number, signal: AbortSignal) => Promise<ProbeAnswer>;

/** Long enough for one lost SYN: Linux sends the second after 1 s (RFC 6298). Unit: milliseconds. */
const CONNECT_TIMEOUT_MS = 1500;

function hasErrno(error: object, code: string): boolean {
  return "code" in error && error.code === code;
}

/** Opens a connection, sends nothing, and closes it as a kubelet's tcpSocket probe does: servers are used to that. */
export function tcpProbe(clock: Clock): Probe {
  return (address, port, signal) =>
    new Promise((resolve) => {
      const socket = connect({ host: address, port });
      const finish = (answer: ProbeAnswer): void => {
        timer[Symbol.dispose]();
        signal.removeEventListener("abort", onAbort);
        socket.destroy();
        resolve(answer);
      };
      const onAbort = (): void => finish("silent");
      const timer = clock.after(CONNECT_TIMEOUT_MS, () => finish("silent"));
      if (signal.aborted) onAbort();
      signal.addEventListener("abort", onAbort, { once: true });
      socket.once("connect", () => finish("connected"));
      socket.once("error", (error) => finish(hasErrno(error, "ECONNREFUSED") ? "refused" : "silent"));
    });
}
