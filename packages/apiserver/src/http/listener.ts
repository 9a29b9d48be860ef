import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import { type AddressInfo, isIPv6, type Socket } from "node:net";
import type { Clock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import type { CertificatePair } from "@fairlead/base/pki/keys.ts";
import { isStream, type RequestHandler } from "./handler.ts";
import { answerTo, type ParserError } from "./malformed.ts";
import type { ServerMeters } from "./meters.ts";
import { parsePath } from "./path.ts";
import { isAuthorized, Strangers } from "./strangers.ts";

/** Time for requests in flight to finish once the server stops. Unit: milliseconds. */
const DRAIN_MS = 2000;

/** Longest that a client may take to open a TLS session, as Go's server has it for headers. Unit: milliseconds. */
const HANDSHAKE_MS = 10_000;

/**
 * How long a connection stays open after the response to an unreadable request: closing it with unread bytes of the
 * client would reset it, and the response would be lost. Unit: milliseconds.
 */
const LINGER_MS = 500;

/** Slot, deadline, sink, stream and audit each wait for the end of a response; Node warns from 11 on. */
const MAX_LISTENERS = 20;
/** Silence on a connection after which the peer is asked whether it is there. Unit: milliseconds. */
const KEEP_ALIVE_MS = 15_000;

const LISTEN_ERRORS: ReadonlyMap<string, string> = new Map([
  ["EADDRINUSE", "another program listens there"],
  ["EADDRNOTAVAIL", "this machine has no such address"],
  ["ENOTFOUND", "there is no such address"],
  ["EACCES", "this needs more rights"],
]);

export interface ListenerOptions {
  readonly certificate: CertificatePair;
  /** PEM of each authority that signs client certificates. */
  readonly clientCa: readonly string[];
  readonly handler: RequestHandler;
  readonly port: number;
  readonly host: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly meters: ServerMeters;
}

/** The HTTPS socket: HTTP/1.1, as docs/adr/0002-http1.md says. */
export class Listener implements AsyncDisposable {
  readonly #server: Server;
  readonly #options: ListenerOptions;
  #closed: Promise<void> | undefined;
  /** Connections below TLS: the HTTP server does not know of those whose client went away during the handshake. */
  readonly #sockets = new Set<Socket>();
  readonly #strangers = new Strangers();
  /** The last answer that is under way on each connection: nothing else may be written in the middle of it. */
  readonly #answering = new WeakMap<Socket, ServerResponse>();

  constructor(options: ListenerOptions) {
    const { certificate, clientCa, handler } = options;
    this.#options = options;
    this.#server = createServer({
      cert: certificate.cert,
      key: certificate.key,
      ca: [...clientCa],
      // A client without a certificate may have a token; a certificate of another authority is ignored.
      requestCert: true,
      rejectUnauthorized: false,
      minVersion: "TLSv1.2",
      // In an upgraded stream one direction may end before the other.
      allowHalfOpen: true,
      // Idle connections are the client's to close: closing them here races with its next request.
      keepAliveTimeout: 0,
      requestTimeout: 60_000,
      headersTimeout: 20_000,
      handshakeTimeout: HANDSHAKE_MS,
      noDelay: true,
      // Detects clients that disappeared without closing the connection: a watch may be idle for long.
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
      shouldUpgradeCallback: isStreamRequest,
    });
    this.#server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      this.#strangers.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    this.#server.on("request", (request, response) => {
      const { socket } = request;
      this.#answering.set(socket, response);
      this.#strangers.remove(socket);
      response.setMaxListeners(MAX_LISTENERS);
      response.once("close", () => {
        if (this.#answering.get(socket) === response) this.#answering.delete(socket);
      });
      // When the server stops, a connection whose last answer has ended is of no use any more.
      response.once("finish", () => {
        if (this.#answering.get(socket) === response) this.#strangers.answered(request, response);
        if (this.#closed !== undefined) socket.end();
      });
      void handler.handle(request, response);
    });
    this.#server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
      this.#strangers.remove(socket);
      void handler.handleUpgrade(request, socket, head);
    });
    this.#server.on("secureConnection", (socket: Socket) => {
      if (isAuthorized(socket)) this.#strangers.remove(socket);
      readByStream(socket);
    });
    this.#server.on("tlsClientError", (_error, socket) => socket.destroy());
    this.#server.on("clientError", (error: ParserError, socket) => this.#refuse(error, socket as Socket));
  }

  /** A malformed request is answered unless another answer is in progress, and the connection is closed. */
  #refuse(error: ParserError, socket: Socket): void {
    // The rest of what was refused.
    if (socket.writableEnded) return;
    this.#noteClientError(error, socket);
    const answer = answerTo(error);
    if (answer === undefined || !socket.writable || this.#answering.has(socket)) {
      socket.destroy();
      return;
    }
    socket.end(answer);
    const end = this.#options.clock.after(LINGER_MS, () => socket.destroy());
    socket.once("close", () => end[Symbol.dispose]());
  }

  #noteClientError({ code = "unknown", message }: NodeJS.ErrnoException, socket: Socket): void {
    const { log, meters } = this.#options;
    meters.clientErrors.add({ code });
    log.debug("closing a connection in the middle of a request", {
      code,
      error: message,
      client: socket.remoteAddress,
    });
  }

  /**
   * @returns The port that is listened on.
   * @throws {FleetError} `OPTION_INVALID` if the address or the port is not available.
   */
  listen(): Promise<number> {
    const { port, host } = this.#options;
    return new Promise((resolve, reject) => {
      const onError = (error: NodeJS.ErrnoException): void => {
        const why = LISTEN_ERRORS.get(error.code ?? "") ?? error.message;
        const message = `cannot listen on ${isIPv6(host) ? `[${host}]` : host}:${port}: ${why}`;
        reject(new FleetError("OPTION_INVALID", message, { cause: error }));
      };
      this.#server.once("error", onError);
      this.#server.listen({ port, host, backlog: 1024 }, () => {
        this.#server.off("error", onError);
        resolve((this.#server.address() as AddressInfo).port);
      });
    });
  }

  /** Takes no more connections; those that are open may end what they are at. */
  stop(): void {
    if (!this.#server.listening || this.#closed !== undefined) return;
    this.#closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    this.#server.closeIdleConnections();
  }

  /** Takes no more connections, lets answers that are under way end, and closes the rest. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    if (this.#closed === undefined) return;
    using _force = this.#options.clock.after(DRAIN_MS, () => {
      this.#server.closeAllConnections();
      for (const socket of this.#sockets) socket.destroy();
    });
    await this.#closed;
  }
}

/**
 * Has the parser fed by the socket's stream, and not by its handle. While an earlier answer is not written yet, Node
 * pauses socket and parser. A TLS handle that is paused still hands on the records that it has decrypted, and the paused
 * parser refuses them (HPE_PAUSED), which ends the connection. A stream keeps them until it is resumed.
 *
 * Source: node `lib/_http_server.js` (`unconsume`: a listener of "data" is enough), `src/crypto/crypto_tls.cc` (`ClearOut`).
 */
function readByStream(socket: Socket): void {
  const listener = (): void => {};
  socket.on("data", listener);
  socket.off("data", listener);
}

/** Any other request with an `Upgrade` header is answered as if it had none. */
function isStreamRequest(request: IncomingMessage): boolean {
  const target = parsePath((request.url ?? "/").split("?", 1)[0] ?? "/");
  return target.kind === "resource" && isStream(target.subresource);
}
