import { connect, createServer, type Socket } from "node:net";
import { once } from "node:events";

/** Between a program and a server: how many bytes each of its connections carried. Encrypted ones count as what they are on the wire. */
export interface ByteRelay extends AsyncDisposable {
  readonly port: number;
  /**
   * Begins to count. @returns The bytes that came since on the connection that brought most, of those on which nothing was asked: the watch of
   * what changed.
   */
  watched(): () => number;
}

export async function startByteRelay(to: number): Promise<ByteRelay> {
  const received = new Map<number, number>();
  const sent = new Map<number, number>();
  const sockets = new Set<Socket>();
  const count = (counts: Map<number, number>, from: number, socket: Socket, other: Socket): void => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("data", (bytes) => {
      counts.set(from, (counts.get(from) ?? 0) + bytes.length);
      other.write(bytes);
    });
    socket.on("error", () => other.destroy());
    socket.on("close", () => {
      sockets.delete(socket);
      other.destroy();
    });
  };
  let connections = 0;
  const server = createServer((socket) => {
    const id = connections++;
    const upstream = connect(to, "127.0.0.1");
    count(sent, id, socket, upstream);
    count(received, id, upstream, socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    watched() {
      const before = new Map(received);
      const asked = new Map(sent);
      return () =>
        Math.max(
          ...[...received]
            .filter(([id]) => sent.get(id) === asked.get(id))
            .map(([id, bytes]) => bytes - (before.get(id) ?? 0)),
        );
    },
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      for (const it of sockets) it.destroy();
      await closed;
    },
  };
}
