import type { ServerResponse } from "node:http";
import type { WatchSink } from "#watch/watcher.ts";
import type { Outlet } from "./outlet.ts";

/**
 * Frames of the chunked coding (RFC 9112, 7.1), each built once for all watchers that receive the same pieces in
 * sequence. Node's response would build three pieces per chunk and watcher.
 */
export class ChunkFrames {
  #last: { readonly pieces: readonly Buffer[]; readonly frame: Buffer } | undefined;

  of(pieces: readonly Buffer[]): Buffer {
    if (this.#last === undefined || !areSame(this.#last.pieces, pieces)) {
      const head = Buffer.from(`${lengthOf(pieces).toString(16)}\r\n`, "latin1");
      this.#last = { pieces, frame: Buffer.concat([head, ...pieces, CRLF]) };
    }
    return this.#last.frame;
  }
}

function areSame(one: readonly Buffer[], other: readonly Buffer[]): boolean {
  return one.length === other.length && one.every((piece, at) => piece === other[at]);
}

function lengthOf(pieces: readonly Buffer[]): number {
  let bytes = 0;
  for (const it of pieces) bytes += it.length;
  return bytes;
}

const CRLF = Buffer.from("\r\n", "latin1");

export function sinkOf(response: ServerResponse, outlet: Outlet, frames: ChunkFrames): WatchSink {
  const { socket } = response;
  const end = (): void => void response.end();
  // A response that waits behind another one of its connection has no socket yet.
  const sink =
    socket === null || !response.chunkedEncoding
      ? new PacedSink(
          { write: (pieces) => response.write(Buffer.concat(pieces)), end },
          outlet,
          response.req.socket,
        )
      : new PacedSink({ write: (pieces) => socket.write(frames.of(pieces)), end }, outlet, socket);
  const emitter = socket === null || !response.chunkedEncoding ? response : socket;
  const onDrain = (): void => sink.onWritten();
  emitter.on("drain", onDrain);
  response.once("close", () => {
    emitter.off("drain", onDrain);
    sink[Symbol.dispose]();
  });
  return sink;
}

interface Pipe {
  /** False: more than the socket takes at once. */
  write(pieces: readonly Buffer[]): boolean;
  end(): void;
}

/**
 * Hands pieces to a socket. What the socket did not take counts for its user. Where the user has no more room, they
 * wait here, which costs nothing while all watchers of an event share its bytes. A client that takes nothing in time
 * is cut off.
 */
class PacedSink implements WatchSink, Disposable {
  readonly #pipe: Pipe;
  readonly #outlet: Outlet;
  readonly #socket: { destroy(): unknown };
  /** The pieces that the socket has not accepted yet, and their deadline. */
  #unsent: Disposable | undefined;
  #waiting: Disposable | undefined;
  #drained = (): void => {};

  constructor(pipe: Pipe, outlet: Outlet, socket: { destroy(): unknown }) {
    this.#pipe = pipe;
    this.#outlet = outlet;
    this.#socket = socket;
  }

  onDrain(drained: () => void): void {
    this.#drained = drained;
  }

  write(pieces: readonly Buffer[]): boolean {
    const bytes = lengthOf(pieces);
    if (this.#waiting !== undefined || !this.#outlet.hasRoom(bytes)) {
      // The final frames of a stalled watch are dropped, like the events that it missed.
      this.#waiting ??= this.#outlet.onceGivenBack(() => this.#retry(pieces));
      return false;
    }
    if (this.#pipe.write(pieces)) return true;
    this.#unsent ??= this.#untilTaken(bytes);
    return false;
  }

  #untilTaken(bytes: number): Disposable {
    const stack = new DisposableStack();
    stack.use(this.#outlet.limitTaking(this.#socket, bytes));
    stack.use(this.#outlet.hold(bytes));
    return stack;
  }

  #retry(pieces: readonly Buffer[]): boolean {
    if (!this.#outlet.hasRoom(lengthOf(pieces))) return false;
    this.#waiting = undefined;
    if (this.write(pieces)) this.#drained();
    return true;
  }

  onWritten(): void {
    const unsent = this.#unsent;
    this.#unsent = undefined;
    unsent?.[Symbol.dispose]();
    if (this.#waiting === undefined) this.#drained();
  }

  end(): void {
    this.#waiting?.[Symbol.dispose]();
    this.#waiting = undefined;
    this.#pipe.end();
  }

  [Symbol.dispose](): void {
    this.#waiting?.[Symbol.dispose]();
    this.#unsent?.[Symbol.dispose]();
    this.#unsent = undefined;
  }
}
