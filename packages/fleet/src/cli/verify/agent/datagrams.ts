import { randomBytes } from "node:crypto";
import type { Clock } from "@fairlead/base/clock.ts";
import { familyOf, parseAddress } from "@fairlead/base/netaddr/address.ts";
import {
  type DatagramPeer,
  type DatagramSocket,
  type Exchanged,
  openDatagramSocket,
} from "@fairlead/os/datagram/socket.ts";
import type { LibC } from "@fairlead/os/libc/libc.ts";
import { SERVER_PORT } from "../probes.ts";
import { largestPassing, MTU_RANGE } from "./mtu.ts";
import { echoRequest, isAnswerTo, isEchoReply, NONCE_BYTES, UDP_OVERHEAD } from "./protocol.ts";

export interface DatagramDeps {
  readonly libc: LibC;
  readonly clock: Clock;
}

const UDP_BYTES = 64;
/**
 * Of the first try of one size, at least; each further one waits twice as long, because a busy machine answers late. A size that does not
 * pass costs all of them. Unit: milliseconds.
 */
const SIZE_TIMEOUT_MS = 250;
/** As many round trips are waited for an answer. */
const ROUND_TRIPS = 4;
const SIZE_TRIES = 3;

/** One datagram and its answer. */
export async function askByUdp(
  address: string,
  timeoutMs: number,
  { libc, clock }: DatagramDeps,
  signal: AbortSignal,
): Promise<void> {
  using socket = openDatagramSocket(libc, peerAt(address, "udp"), clock);
  expectAnswer(await exchangeUdp(socket, UDP_BYTES, timeoutMs, signal), timeoutMs);
}

/** One ICMP echo request and its reply. */
export async function ping(
  address: string,
  timeoutMs: number,
  { libc, clock }: DatagramDeps,
  signal: AbortSignal,
): Promise<void> {
  const peer = peerAt(address, "icmp");
  using socket = openDatagramSocket(libc, peer, clock);
  const nonce = randomBytes(NONCE_BYTES);
  const isAnswer = (answer: Uint8Array): boolean => isEchoReply(nonce, answer);
  const bytes = echoRequest(familyOf(peer.address), nonce);
  expectAnswer(await socket.exchange(bytes, { timeoutMs, isAnswer }, signal), timeoutMs);
}

/**
 * The largest IP packet that reaches the other pod without being fragmented; undefined if not even the least does.
 *
 * @throws {Error} if a small datagram gets no answer within `timeoutMs`.
 */
export async function findMtu(
  address: string,
  timeoutMs: number,
  { libc, clock }: DatagramDeps,
  signal: AbortSignal,
): Promise<number | undefined> {
  const peer = peerAt(address, "udp");
  const overhead = UDP_OVERHEAD[familyOf(peer.address)];
  using socket = openDatagramSocket(libc, peer, clock);
  const startedMs = clock.monotonic();
  expectAnswer(await exchangeUdp(socket, UDP_BYTES, timeoutMs, signal), timeoutMs);
  const sizeTimeoutMs = Math.max(SIZE_TIMEOUT_MS, ROUND_TRIPS * (clock.monotonic() - startedMs));
  return await largestPassing(MTU_RANGE, async (size) => {
    for (let tries = 0; tries < SIZE_TRIES; tries++) {
      const { kind } = await exchangeUdp(socket, size - overhead, sizeTimeoutMs * 2 ** tries, signal);
      if (kind === "answer") return true;
    }
    return false;
  });
}

function peerAt(address: string, protocol: DatagramPeer["protocol"]): DatagramPeer {
  return { protocol, address: parseAddress(address), port: SERVER_PORT };
}

function exchangeUdp(
  socket: DatagramSocket,
  size: number,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Exchanged> {
  const bytes = Buffer.alloc(size);
  bytes.set(randomBytes(NONCE_BYTES));
  return socket.exchange(bytes, { timeoutMs, isAnswer: (answer) => isAnswerTo(bytes, answer) }, signal);
}

function expectAnswer(found: Exchanged, timeoutMs: number): void {
  if (found.kind === "answer") return;
  if (found.kind === "lost") throw new Error(`no answer within ${timeoutMs} ms`);
  if (found.kind === "too big") throw new Error("refused as too big");
  throw new Error(`cannot send: errno ${found.errno}`);
}
