import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { bearerTokenOf } from "#auth/authenticate.ts";
import { ConnectionLimit, networkOf, peerOf } from "@fairlead/base/connection-limit.ts";

/**
 * More than the clients of one machine open at once, and few enough for the descriptors of a process. Connections of known
 * clients, such as thousands of watches, do not count. Unit: connections.
 */
const STRANGERS = { perGroup: 1024, all: 2048 };

/**
 * Connections on which no client has proven its identity, and that wait for a request. Beyond a limit the oldest one is
 * closed, so that hosts that reach the port cannot take all descriptors of the process.
 */
export class Strangers {
  readonly #waiting = new ConnectionLimit(STRANGERS);

  /** A new connection, below TLS. */
  add(socket: Socket): void {
    const peer = peerOf(socket);
    socket.once("close", () => this.#waiting.delete(peer));
    this.#wait(socket);
  }

  /** A client has come this far: it has a certificate, or is being answered. */
  remove(socket: Socket): void {
    this.#waiting.delete(peerOf(socket));
  }

  /** A connection is idle again: it belongs to a stranger unless its last request has proven an identity. */
  answered({ socket, headersDistinct }: IncomingMessage, { statusCode }: ServerResponse): void {
    // Other credentials than tokens are ignored: such a client is anonymous.
    const isKnown =
      isAuthorized(socket) || (bearerTokenOf(headersDistinct) !== undefined && statusCode !== 401);
    if (!isKnown && !socket.destroyed) this.#wait(socket);
  }

  #wait(socket: Socket): void {
    this.#waiting.add(peerOf(socket), networkOf(socket), () => socket.destroy());
  }
}

/** Whether the client has a certificate of an authority that the server knows. */
export function isAuthorized(socket: Socket): boolean {
  return (socket as Partial<TLSSocket>).authorized === true;
}
