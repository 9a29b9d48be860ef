import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "@fairlead/base/clock.ts";
import type { ServerMeters } from "./meters.ts";
import type { Holding, Room } from "./room.ts";
import { tooMany, transferMs } from "./transfer.ts";

/** Answers up to this size fit a socket, and are not counted. Unit: bytes. */
const SMALL_BYTES = 64 * 1024;
/** A larger answer is handed over in pieces of this size: what TLS has encrypted ahead is memory too. Unit: bytes. */
const PIECE_BYTES = 256 * 1024;

export interface OutletOptions {
  /** Bytes that were not taken yet, of all users. */
  readonly room: Room;
  readonly user: string;
  readonly isExempt: boolean;
  readonly clock: Clock;
  readonly meters: ServerMeters;
}

/** Where answers and events of one user go: bounded in bytes that the user has not taken, and in time. */
export class Outlet {
  readonly #options: OutletOptions;

  constructor(options: OutletOptions) {
    this.#options = options;
  }

  get isFull(): boolean {
    return !this.hasRoom(1);
  }

  hasRoom(bytes: number): boolean {
    const { room, user, isExempt } = this.#options;
    return isExempt || room.hasRoom(user, bytes);
  }

  /** @param retry - Says whether it has got what it waits for. */
  onceGivenBack(retry: () => boolean): Disposable {
    return this.#options.room.onceGivenBack(this.#options.user, retry);
  }

  /** Bytes that wait for the client, until what is returned is disposed of. */
  hold(bytes: number): Holding | undefined {
    const { room, user, isExempt } = this.#options;
    const holding = room.hold(user, isExempt);
    return holding.tryTake(bytes) ? holding : undefined;
  }

  /**
   * Makes sure that there is room for an answer, until it was taken.
   *
   * @throws {StatusError} 429 while earlier ones of this user wait.
   */
  reserve(response: ServerResponse, bytes: number): void {
    if (bytes <= SMALL_BYTES) return;
    const holding = this.hold(bytes);
    if (holding === undefined) throw tooMany();
    onceClosed(response, () => holding[Symbol.dispose]());
  }

  /** Closes the connection of a client that does not take so many bytes in time, unless what is returned is disposed of. */
  limitTaking(socket: { destroy(): unknown }, bytes: number): Disposable {
    const { clock, meters } = this.#options;
    return clock.after(transferMs(bytes), () => {
      meters.rejected.add({ reason: "unread" });
      socket.destroy();
    });
  }
}

/** Ends `response` with `bytes`, as fast as the client takes them. */
export function endWith(response: ServerResponse, bytes: Buffer): void {
  let at = 0;
  const goOn = (): void => {
    while (bytes.length - at > PIECE_BYTES) {
      const piece = bytes.subarray(at, at + PIECE_BYTES);
      at += PIECE_BYTES;
      if (response.write(piece)) continue;
      response.once("drain", goOn);
      return;
    }
    response.end(bytes.subarray(at));
  };
  goOn();
}

/** Calls `then` once the response is sent or the client has disconnected. */
export function onceClosed(response: ServerResponse, then: () => void): void {
  if (response.closed) then();
  else response.once("close", then);
}

/** An answer may take as long as its size allows; watches and followed logs mind themselves. */
export function limitAnswer(outlet: Outlet, request: IncomingMessage, response: ServerResponse): void {
  if (response.closed) return;
  const bytes = Number(response.getHeader("content-length") ?? 0);
  const timer = outlet.limitTaking(request.socket, bytes);
  onceClosed(response, () => timer[Symbol.dispose]());
}
