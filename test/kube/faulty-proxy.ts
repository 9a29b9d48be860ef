import { connect as connectTcp, createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

/** A TCP proxy before an API server, which breaks connections as networks do. The data stays encrypted. */
export interface FaultyProxy extends AsyncDisposable {
  readonly port: number;
  /** Drops all further bytes of the connections that are open now, both ways, without a notice to either end. */
  forget(): void;
  /** Bytes of new connections vanish, too, until `heal`. */
  silence(): void;
  heal(): void;
  /** Ends every connection with a reset. */
  reset(): void;
  /** Answers take this much longer. Unit: milliseconds. */
  delayMs: number;
}

export async function startFaultyProxy(targetPort: number): Promise<FaultyProxy> {
  interface Pair {
    readonly ends: readonly [Socket, Socket];
    isForgotten: boolean;
  }
  const pairs = new Set<Pair>();
  let isSilent = false;
  const server = createServer((client) => {
    const upstream = connectTcp(targetPort, "127.0.0.1");
    const pair: Pair = { ends: [client, upstream], isForgotten: isSilent };
    pairs.add(pair);
    const relay = (from: Socket, to: Socket, delay: () => number): void => {
      from.on("data", (chunk) => {
        if (pair.isForgotten) return;
        if (delay() === 0) to.write(chunk);
        else setTimeout(() => void (pair.isForgotten || to.write(chunk)), delay());
      });
      from.on("error", () => {});
      from.on("close", () => {
        // A network that forgets packets forgets the last ones, too.
        if (!pair.isForgotten) to.destroy();
        pairs.delete(pair);
      });
    };
    relay(client, upstream, () => 0);
    relay(upstream, client, () => proxy.delayMs);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const proxy: FaultyProxy = {
    port: (server.address() as AddressInfo).port,
    delayMs: 0,
    forget() {
      for (const pair of pairs) pair.isForgotten = true;
    },
    silence() {
      isSilent = true;
      proxy.forget();
    },
    heal() {
      isSilent = false;
    },
    reset() {
      for (const { ends } of pairs) for (const end of ends) end.resetAndDestroy();
    },
    async [Symbol.asyncDispose]() {
      for (const { ends } of pairs) for (const end of ends) end.destroy();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
    },
  };
  return proxy;
}
