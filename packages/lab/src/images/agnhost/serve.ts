import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { createServer as createHttpServer, type RequestListener, type Server } from "node:http";
import { createServer, isIPv4, type Server as TcpServer } from "node:net";
import { plainAddress } from "../echo/answer.ts";

/** Serves one port until it is disposed of. */
export type Serving = AsyncDisposable;

/** The sender of a request, as the server sees it. */
export interface Sender {
  readonly address: string;
  readonly port: number;
}

/** Sends a text to each client, and closes. */
export async function serveTcp(port: number, text: string): Promise<Serving> {
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.resume();
    socket.end(text);
  });
  await listen(server, port);
  return closing(server);
}

/**
 * Answers each packet; undefined: with nothing.
 *
 * @param address - Where packets are received. Default: at every address of both families.
 */
export async function serveUdp(
  port: number,
  answer: (text: string, from: Sender) => string | undefined,
  address = "::",
): Promise<Serving> {
  const socket: UdpSocket = createSocket(isIPv4(address) ? "udp4" : "udp6");
  socket.on("message", (data, from) => {
    const text = answer(data.toString("utf8"), { address: plainAddress(from.address), port: from.port });
    // The client may be gone.
    if (text !== undefined) socket.send(text, from.port, from.address, () => {});
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("error", reject);
    socket.bind(port, address, resolve);
  });
  return { [Symbol.asyncDispose]: () => new Promise((resolve) => socket.close(() => resolve())) };
}

export async function serveHttp(port: number, listener: RequestListener): Promise<Serving> {
  const server = createHttpServer(listener);
  await listen(server, port);
  return closing(server);
}

function listen(server: Server | TcpServer, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port }, () => resolve());
  });
}

function closing(server: Server | TcpServer): Serving {
  return {
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        if ("closeAllConnections" in server) server.closeAllConnections();
      }),
  };
}
