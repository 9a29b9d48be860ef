import type { Server as HttpServer, IncomingMessage, ServerResponse } from "node:http";
import type { Server as HttpsServer } from "node:https";
import type { Socket } from "node:net";
import { tryParseAddress } from "#netaddr/address.ts";

/** Bounds connections that any client can open, so that idle ones of one keep no other client out. */

export interface ConnectionLimits {
  /** Connections of one group, such as a client's address. */
  readonly perGroup: number;
  readonly all: number;
}

interface Held {
  readonly group: string;
  readonly close: () => void;
}

/** Connections in the order in which they came or were last used: beyond a limit, the first one is closed. */
export class ConnectionLimit {
  readonly #limits: ConnectionLimits;
  readonly #held = new Map<string, Held>();
  readonly #groups = new Map<string, Set<string>>();

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#held.size;
  }

  /** Adds a connection, or makes it the newest of its group. */
  add(key: string, group: string, close: () => void): void {
    this.delete(key);
    const [oldestOfGroup = ""] = this.#groups.get(group) ?? [];
    if (this.#sizeOf(group) >= this.#limits.perGroup) this.#close(oldestOfGroup);
    const [oldest = ""] = this.#held.keys();
    if (this.#held.size >= this.#limits.all) this.#close(oldest);
    const keys = this.#groups.get(group) ?? new Set();
    this.#groups.set(group, keys.add(key));
    this.#held.set(key, { group, close });
  }

  delete(key: string): void {
    const held = this.#held.get(key);
    if (held === undefined) return;
    this.#held.delete(key);
    const keys = this.#groups.get(held.group);
    keys?.delete(key);
    if (keys?.size === 0) this.#groups.delete(held.group);
  }

  closeAll(): void {
    for (const key of this.#held.keys()) this.#close(key);
  }

  #sizeOf(group: string): number {
    return this.#groups.get(group)?.size ?? 0;
  }

  #close(key: string): void {
    const held = this.#held.get(key);
    this.delete(key);
    held?.close();
  }
}

/** The address and port of the other end: the same for a TLS connection and what is below it. */
export function peerOf({ remoteAddress = "", remotePort = 0 }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** The address of the other end, or its /64: one host has all of that. */
export function networkOf({ remoteAddress = "" }: Socket): string {
  const address = tryParseAddress(remoteAddress.replace(/^::ffff:/, ""));
  return typeof address === "bigint" ? String(address >> 64n) : String(address);
}

/** A client has this long for a TLS handshake, and for a request. Unit: milliseconds. */
const HANDSHAKE_MS = 5000;
/** How often unfinished requests are looked at. Unit: milliseconds. */
const LOOK_MS = 1000;
/** Waiting for a request; those that are answered count apart. */
const WAITING: ConnectionLimits = { perGroup: 64, all: 256 };
const MAX_CONNECTIONS = 1024;

/** Options of HTTP servers whose connections `limitConnections` bounds. */
export const HTTP_LIMITS = {
  handshakeTimeout: HANDSHAKE_MS,
  headersTimeout: HANDSHAKE_MS,
  requestTimeout: HANDSHAKE_MS,
  connectionsCheckingInterval: LOOK_MS,
} as const;

/**
 * Closes the oldest connection that waits for a request, where there are too many of one address or of all.
 *
 * @returns To be called when a request has arrived whole: until it is answered, its connection stays.
 */
export function limitConnections(
  server: HttpServer | HttpsServer,
): (request: IncomingMessage, response: ServerResponse) => void {
  const waiting = new ConnectionLimit(WAITING);
  const wait = (socket: Socket): void =>
    waiting.add(peerOf(socket), networkOf(socket), () => socket.destroy());
  server.maxConnections = MAX_CONNECTIONS;
  server.on("connection", (socket: Socket) => {
    const peer = peerOf(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => waiting.delete(peer));
    wait(socket);
  });
  return ({ socket }, response) => {
    waiting.delete(peerOf(socket));
    response.once("finish", () => {
      if (!socket.destroyed) wait(socket);
    });
  };
}
