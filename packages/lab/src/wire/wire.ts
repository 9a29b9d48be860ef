/**
 * A wire with a delay, for kernels without netem. The two devices are the ends of a veth pair, which stays as it is: the nft
 * table of each end drops the frames of the other (link/plan.ts), the wire reads them before that, and sends them again when
 * their time has come, marked by their source address.
 */

import { readFileSync } from "node:fs";
import type { Clock } from "@fairlead/base/clock.ts";
import { nextTurn } from "@fairlead/base/turn.ts";
import type { LibC } from "@fairlead/os/libc/libc.ts";
import {
  awaitFrames,
  FRAME_OFFSET,
  openPacketSocket,
  type PacketPlace,
  type PacketSocket,
} from "@fairlead/os/packet/socket.ts";
import { DelayQueue } from "./queue.ts";

export interface WireOptions {
  readonly ends: readonly [PacketPlace, PacketPlace];
  /** Holds the delay of each direction as a number, in milliseconds. It may change. */
  readonly delayFile: string;
}

/** Source of the frames that a wire sends: 02:66:6c:00:00:01, as in the table that lets them in (link/plan.ts). */
const MARK = Buffer.from("02666c000001", "hex");

/** What waits in one direction: 100 ms of 1 Gbit/s, and more in small packets. */
const LIMITS = { frames: 20_000, bytes: 64 * 1024 * 1024 };
/** Frames that are read in a row before those that are due leave. */
const BATCH = 64;
/** Longest wait, so that the wire follows its file and its signals. Unit: milliseconds. */
const LONGEST_WAIT_MS = 50;

const ETHER_TYPES: ReadonlySet<number> = new Set([0x0800, 0x86dd]);

interface Direction {
  readonly from: PacketSocket;
  readonly to: PacketSocket;
  readonly queue: DelayQueue;
}

export interface WireDeps {
  readonly libc: LibC;
  readonly clock: Clock;
  /** Called once, when the wire carries frames. */
  readonly ready: () => void;
}

/** Carries frames until `signal` aborts. Blocks this thread while nothing happens: it is the only work of its process. */
export async function runWire(
  options: WireOptions,
  { libc, clock, ready }: WireDeps,
  signal: AbortSignal,
): Promise<void> {
  using stack = new DisposableStack();
  const [a, b] = options.ends.map((it) => stack.use(openPacketSocket(libc, it))) as [
    PacketSocket,
    PacketSocket,
  ];
  // What arrives at one end was sent by the other, and is sent by it again.
  const directions: readonly Direction[] = [
    { from: a, to: b, queue: new DelayQueue(LIMITS) },
    { from: b, to: a, queue: new DelayQueue(LIMITS) },
  ];
  ready();
  let delayMs = 0;
  let lookAtMs = 0;
  while (!signal.aborted) {
    const nowMs = clock.monotonic();
    if (nowMs >= lookAtMs) {
      delayMs = Number(readFileSync(options.delayFile, "utf8"));
      lookAtMs = nowMs + LONGEST_WAIT_MS;
    }
    const dueMs = Math.min(lookAtMs, ...directions.map((it) => it.queue.nextDueMs ?? Infinity));
    awaitFrames(libc, [a, b], Math.max(0, Math.ceil(dueMs - nowMs)));
    for (const direction of directions) carry(direction, delayMs, clock);
    await nextTurn();
  }
}

function carry({ from, to, queue }: Direction, delayMs: number, clock: Clock): void {
  const nowMs = clock.monotonic();
  for (let count = 0; count < BATCH; count += 1) {
    const frame = from.receive();
    if (frame === undefined) break;
    if (isForWire(frame)) queue.push(marked(frame), nowMs + delayMs);
  }
  for (let frame = queue.take(nowMs); frame !== undefined; frame = queue.take(nowMs)) to.send(frame);
}

/** The table drops IP alone, so the rest, ARP above all, needs no wire; and what a wire sent has had its delay. */
function isForWire(frame: Uint8Array): boolean {
  const view = Buffer.from(frame.buffer, frame.byteOffset + FRAME_OFFSET, frame.length - FRAME_OFFSET);
  return view.length >= 14 && ETHER_TYPES.has(view.readUInt16BE(12)) && !view.subarray(6, 12).equals(MARK);
}

/** A copy, since the frame is read into the same buffer as the next one. */
function marked(frame: Uint8Array): Uint8Array {
  const copy = Buffer.from(frame);
  MARK.copy(copy, FRAME_OFFSET + 6);
  return copy;
}
