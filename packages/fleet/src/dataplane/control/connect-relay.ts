import { connect, type TLSSocket } from "node:tls";

/** Longest that a connection and its handshake may take. Unit: milliseconds. */
const CONNECT_MS = 10_000;

/**
 * A TLS connection to a relay. Its certificate is not looked at: the registration that follows proves both ends, by keys
 * that are tied to this very connection (`boundKey`).
 */
export function connectRelay(host: string, port: number, signal: AbortSignal): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, rejectUnauthorized: false, minVersion: "TLSv1.3" });
    const fail = (error: Error): void => {
      socket.destroy();
      reject(error);
    };
    const onAbort = (): void => fail(new Error("cancelled"));
    const onTimeout = (): void => fail(new Error(`no answer from ${host} port ${port}`));
    socket.setTimeout(CONNECT_MS, onTimeout);
    socket.once("error", fail);
    signal.addEventListener("abort", onAbort, { once: true });
    socket.once("close", () => signal.removeEventListener("abort", onAbort));
    socket.once("secureConnect", () => {
      socket.off("error", fail);
      socket.off("timeout", onTimeout);
      socket.setTimeout(0);
      socket.setNoDelay(true);
      socket.setKeepAlive(true, 15_000);
      resolve(socket);
    });
    if (signal.aborted) onAbort();
  });
}
