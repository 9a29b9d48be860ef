import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { WebSocketServer } from "ws";
import type { Clock } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import type { Logger } from "@fairlead/base/log.ts";
import type { ContainerView } from "../container/runtime.ts";
import { readWish, type StreamWish } from "./channels.ts";
import { readLog, readLogWish } from "./logs.ts";
import {
  PORT_FORWARD_PROTOCOL,
  servePortForward,
  servePortForwardChannels,
  servePortForwardTunnel,
  TUNNEL_PROTOCOL,
} from "./port-forward.ts";
import { serveAttach, serveExec } from "./remote-command.ts";
import { parseKubeletPath, type KubeletCall } from "./routes.ts";
import { chooseSpdyProtocol, spdyChannels } from "./spdy-channels.ts";
import { CHANNEL_PROTOCOLS, webSocketChannels } from "./websocket-channels.ts";

/** What the server has to know of the node's pods. */
export interface PodAccess {
  /** Undefined for a pod that is not on this node. */
  netnsOf(namespace: string, pod: string): { readonly netns: string | undefined } | undefined;
  /** The newest run of a container, or an earlier one; undefined if absent. */
  runOf(namespace: string, pod: string, container: string, back: number): ContainerView | undefined;
  /** Resolves with the exit code once the run has ended. */
  endOf(run: ContainerView): Promise<number>;
}

export interface KubeletServerOptions {
  readonly port: number;
  /** PEM. */
  readonly cert: string;
  readonly key: string;
  /** PEM of the authority of clients. */
  readonly clientCa: string;
  readonly pods: PodAccess;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The group of the cluster's API server; no other client is allowed. */
const ALLOWED_GROUP = "system:masters";

/** The kubelet's HTTPS server: logs, exec, attach and port-forward, for the API server. */
export class KubeletServer implements Component {
  readonly #options: KubeletServerOptions;
  readonly #server: Server;
  readonly #sockets = new WebSocketServer({
    noServer: true,
    handleProtocols: chooseProtocol,
    perMessageDeflate: false,
  });
  readonly #open = new Set<Duplex>();

  constructor(options: KubeletServerOptions) {
    this.#options = options;
    const { cert, key, clientCa: ca } = options;
    this.#server = createServer(
      { cert, key, ca, requestCert: true, rejectUnauthorized: true },
      (request, response) => {
        this.#serve(request, response).catch((error: unknown) => refuse(response, 500, messageOf(error)));
      },
    );
    this.#server.on("upgrade", (request, socket, head) => {
      this.#upgrade(request, socket, head).catch((error: unknown) =>
        refuseUpgrade(socket, 500, messageOf(error)),
      );
    });
    this.#server.on("secureConnection", (socket) => {
      this.#open.add(socket);
      socket.once("close", () => this.#open.delete(socket));
    });
  }

  start(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(this.#options.port, () => resolve());
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#open) socket.destroy();
    await closed;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "https://kubelet");
    if (!isAllowed(request)) return refuse(response, 403, "Forbidden");
    if (url.pathname === "/healthz") return void response.end("ok");
    const call = parseKubeletPath(url.pathname);
    if (call?.verb !== "containerLogs")
      return refuse(
        response,
        call === undefined ? 404 : 400,
        call === undefined ? "404 page not found" : "Upgrade request required",
      );
    return this.#serveLogs(call, url.searchParams, response);
  }

  async #serveLogs(call: KubeletCall, query: URLSearchParams, response: ServerResponse): Promise<void> {
    const { pods, clock } = this.#options;
    const wish = readLogWish(query, clock.now());
    if (typeof wish === "string") return refuse(response, 400, wish);
    const { namespace, pod, container } = call;
    if (pods.netnsOf(namespace, pod) === undefined) return refuse(response, 404, `pod "${pod}" not found`);
    const isPrevious = ["1", "true"].includes(query.get("previous") ?? "");
    const run = pods.runOf(namespace, pod, container, isPrevious ? 1 : 0);
    if (run === undefined) {
      const why = isPrevious
        ? `previous terminated container "${container}" in pod "${pod}" not found`
        : `container "${container}" in pod "${pod}" is waiting to start`;
      return refuse(response, 400, why);
    }
    const ended = new AbortController();
    void pods.endOf(run).then(() => ended.abort());
    response.once("close", () => ended.abort());
    response.writeHead(200, { "content-type": "text/plain" });
    response.flushHeaders();
    for await (const chunk of readLog(run.folder, wish, ended.signal)) {
      if (response.destroyed) return undefined;
      if (!response.write(chunk)) await drained(response);
    }
    response.end();
    return undefined;
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on("error", () => {});
    const url = new URL(request.url ?? "/", "https://kubelet");
    const call = parseKubeletPath(url.pathname);
    if (!isAllowed(request)) return refuseUpgrade(socket, 403, "Forbidden");
    if (call === undefined) return refuseUpgrade(socket, 404, "404 page not found");
    const place = this.#options.pods.netnsOf(call.namespace, call.pod);
    if (place === undefined) return refuseUpgrade(socket, 404, `pod "${call.pod}" not found`);
    const isSpdy = request.headers.upgrade?.toLowerCase() === "spdy/3.1";
    const client = { request, socket, head };
    if (call.verb === "portForward") {
      const ports = url.searchParams.getAll("port").map(Number);
      return isSpdy ? this.#forwardSpdy(client, place) : this.#forwardWebSocket(client, place, ports);
    }
    const run = this.#options.pods.runOf(call.namespace, call.pod, call.container, 0);
    if (run === undefined || run.exit !== undefined)
      return refuseUpgrade(socket, 404, `container "${call.container}" in pod "${call.pod}" is not running`);
    const session = {
      run,
      call,
      wish: readWish(url.searchParams),
      command: url.searchParams.getAll("command"),
    };
    return isSpdy ? this.#streamSpdy(client, session) : this.#streamWebSocket(client, session);
  }

  #streamWebSocket(client: Client, session: Session): void {
    this.#sockets.handleUpgrade(client.request, client.socket, client.head, (socket) => {
      const channels = webSocketChannels(socket, session.wish);
      void this.#run(session, channels);
    });
  }

  async #streamSpdy(client: Client, session: Session): Promise<void> {
    const offered = (client.request.headersDistinct["x-stream-protocol-version"] ?? []).flatMap((it) =>
      it.split(",").map((name) => name.trim()),
    );
    const protocol = chooseSpdyProtocol(offered);
    if (protocol === undefined)
      return refuseUpgrade(
        client.socket,
        403,
        `unable to upgrade: unsupported protocols: ${offered.join(", ")}`,
      );
    acceptSpdy(client.socket, protocol);
    const channels = await spdyChannels(client.socket, client.head, { wish: session.wish, protocol });
    if (channels !== undefined) await this.#run(session, channels);
    return undefined;
  }

  #run(session: Session, channels: Parameters<typeof serveAttach>[1]): Promise<void> {
    const { run, call, wish, command } = session;
    if (call.verb === "attach") return serveAttach(run, channels, this.#options.pods.endOf(run));
    return serveExec(run, command, { wish, channels });
  }

  #forwardSpdy(client: Client, place: { readonly netns: string | undefined }): Promise<void> {
    acceptSpdy(client.socket, PORT_FORWARD_PROTOCOL);
    return servePortForward(client.socket, client.head, place);
  }

  #forwardWebSocket(
    client: Client,
    place: { readonly netns: string | undefined },
    ports: readonly number[],
  ): void {
    this.#sockets.handleUpgrade(client.request, client.socket, client.head, (socket) => {
      if (socket.protocol === TUNNEL_PROTOCOL) void servePortForwardTunnel(socket, place);
      else servePortForwardChannels(socket, ports, place);
    });
  }
}

interface Client {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
}

interface Session {
  readonly run: ContainerView;
  readonly call: KubeletCall;
  readonly wish: StreamWish;
  readonly command: readonly string[];
}

/** TLS has checked the certificate; here it is asked which program it names. */
function isAllowed(request: IncomingMessage): boolean {
  const groups: unknown = (request.socket as TLSSocket).getPeerCertificate().subject?.O;
  return [groups].flat().includes(ALLOWED_GROUP);
}

function chooseProtocol(offered: ReadonlySet<string>): string | false {
  return [...CHANNEL_PROTOCOLS, TUNNEL_PROTOCOL].find((it) => offered.has(it)) ?? false;
}

function acceptSpdy(socket: Duplex, protocol: string): void {
  const lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: SPDY/3.1"];
  if (protocol !== "") lines.push(`X-Stream-Protocol-Version: ${protocol}`);
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
}

function refuse(response: ServerResponse, code: number, why: string): void {
  if (response.headersSent) response.destroy();
  else response.writeHead(code, { "content-type": "text/plain" }).end(`${why}\n`);
}

const REASONS: Readonly<Record<number, string>> = { 400: "Bad Request", 403: "Forbidden", 404: "Not Found" };

function refuseUpgrade(socket: Duplex, code: number, why: string): void {
  const body = `${why}\n`;
  const head = `HTTP/1.1 ${code} ${REASONS[code] ?? "Internal Server Error"}\r\nContent-Type: text/plain\r\nConnection: close\r\n`;
  socket.end(`${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    response.once("drain", () => resolve());
    response.once("close", () => resolve());
  });
}
