import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTcpServer, type Server as TcpServer, type Socket } from "node:net";
import { delay, type Clock } from "@fairlead/base/clock.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import { type EchoAnswer, type EchoIdentity, plainAddress, readWish, renderText } from "./answer.ts";

export interface EchoOptions {
  readonly identity: EchoIdentity;
  /** Of the HTTP server. 0 means any. */
  readonly port: number;
  /** Of the server that sends back every byte. 0 means none. */
  readonly tcpPort: number;
  /** Of the server that answers each packet with a line of JSON: its identity and the client's address. 0 means none. */
  readonly udpPort: number;
  /** How long after the start `/readyz` says no. Unit: milliseconds. */
  readonly readyDelayMs: number;
  readonly clock: Clock;
}

/**
 * The program of the image `fairlead.dev/echo`: answers every request with its identity and the client's address.
 *
 * `GET /readyz` is 200 when ready, 503 otherwise; `PUT /readyz/on` and `/readyz/off` switch it. `?delay=MS` and
 * `?status=CODE` shape any answer.
 */
export class EchoServer implements Component {
  readonly #options: EchoOptions;
  readonly #http: Server;
  readonly #tcp: TcpServer;
  readonly #udp: UdpSocket;
  readonly #stop = new AbortController();
  #isReady = false;

  constructor(options: EchoOptions) {
    this.#options = options;
    this.#http = createServer((request, response) => {
      // A client that went away has no use for an answer.
      this.#handle(request, response).catch(() => response.destroy());
    });
    this.#http.keepAliveTimeout = 5000;
    this.#tcp = createTcpServer({ allowHalfOpen: true }, echoBytes);
    this.#udp = createSocket("udp6");
    this.#udp.on("message", (_, { address, port }) => {
      const answer = { ...options.identity, clientAddress: plainAddress(address), clientPort: port };
      // The client may be gone.
      this.#udp.send(`${JSON.stringify(answer)}\n`, port, address, () => {});
    });
  }

  async start(): Promise<void> {
    const { port, tcpPort, udpPort, readyDelayMs, clock } = this.#options;
    await listen(this.#http, port);
    if (tcpPort > 0) await listen(this.#tcp, tcpPort);
    if (udpPort > 0) await bind(this.#udp, udpPort);
    if (readyDelayMs === 0) this.#isReady = true;
    else clock.after(readyDelayMs, () => (this.#isReady = true));
  }

  /** The port of the HTTP server. */
  get port(): number {
    const address = this.#http.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  }

  /** Takes no new connections, lets requests that run come to their end, and closes. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    const closed = [this.#http, this.#tcp].map(
      (server) => new Promise<void>((resolve) => server.close(() => resolve())),
    );
    this.#udp.close();
    this.#http.closeIdleConnections();
    await Promise.all(closed);
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://echo");
    request.resume();
    if (url.pathname.startsWith("/readyz")) {
      this.#readiness(request.method ?? "GET", url.pathname, response);
      return;
    }
    const wish = readWish(url.searchParams, request.headers.accept);
    if (wish.delayMs > 0) await delay(this.#options.clock, wish.delayMs, this.#stop.signal);
    const answer: EchoAnswer = {
      ...this.#options.identity,
      method: request.method ?? "GET",
      path: url.pathname,
      host: request.headers.host ?? "",
      clientAddress: plainAddress(request.socket.remoteAddress),
      clientPort: request.socket.remotePort ?? 0,
      serverAddress: plainAddress(request.socket.localAddress),
    };
    const text = wish.json ? `${JSON.stringify(answer)}\n` : renderText(answer);
    const type = wish.json ? "application/json" : "text/plain; charset=utf-8";
    response.writeHead(wish.status, { "content-type": type, "content-length": Buffer.byteLength(text) });
    response.end(text);
  }

  #readiness(method: string, path: string, response: ServerResponse): void {
    if (method === "PUT" || method === "POST") this.#isReady = path !== "/readyz/off";
    const isSwitch = method !== "GET";
    response.writeHead(this.#isReady || isSwitch ? 200 : 503, { "content-type": "text/plain" });
    response.end(this.#isReady ? "ready\n" : "not ready\n");
  }
}

function echoBytes(socket: Socket): void {
  socket.on("error", () => socket.destroy());
  socket.pipe(socket);
}

function listen(server: Server | TcpServer, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    // "::" takes IPv4 too; where the kernel has no IPv6, the unspecified address falls back by itself.
    server.listen({ port }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

function bind(socket: UdpSocket, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once("error", reject);
    socket.bind(port, () => {
      socket.off("error", reject);
      resolve();
    });
  });
}
