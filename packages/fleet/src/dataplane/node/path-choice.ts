import type { UdpEndpoint } from "../control/datagram.ts";

/** Which way the datagrams of a tunnel take. Pure. */

/**
 * Probes of a path in use: so often, and so long after the first of three without an answer it is dead. The third one has the round trip and half an
 * interval, so that the next turn finds it: packets are lost for 0.8 s at most, of which the first interval is that before the first probe. Unit: milliseconds.
 */
export const PROBE_MS = 200;
export const DEAD_MS = 2.5 * PROBE_MS;
/** A slow path makes its failure known later, by so much at most. Unit: milliseconds. */
const LONGEST_RTT_MS = 2000;
/** A direct path is used after so many answers in a row, and not within so long after it failed. */
export const STABLE_ANSWERS = 3;
export const HOLD_OFF_MS = 30_000;

/** A direct path as its probes show it. */
export interface DirectPath {
  readonly endpoint: UdpEndpoint;
  /** When the first probe was sent after which no answer has come; undefined after an answer. */
  readonly silentSinceMs: number | undefined;
  /** Answers in a row. */
  readonly answers: number;
  /** When it last ceased to answer. */
  readonly failedAtMs?: number;
  /** Round trip, smoothed. Unit: milliseconds. */
  readonly rttMs: number;
}

export interface PathView {
  readonly nowMs: number;
  readonly direct: readonly DirectPath[];
  readonly relay: UdpEndpoint | undefined;
  /** The local end of a TLS connection to a relay. */
  readonly tcp: UdpEndpoint | undefined;
  /** What is in use. */
  readonly current: UdpEndpoint | undefined;
}

export interface ChosenPath {
  readonly kind: "direct" | "relay" | "tcp";
  readonly endpoint: UdpEndpoint;
}

/**
 * The path that the gateway of the lower cluster name chooses; the other gateway follows, because WireGuard answers where the last
 * datagram came from. Were both to choose, two living paths would alternate.
 */
export function choosePath({ nowMs, direct, relay, tcp, current }: PathView): ChosenPath | undefined {
  const living = direct.filter((it) => isLivingPath(it, nowMs));
  const used = living.find((it) => isSameEndpoint(it.endpoint, current));
  if (used !== undefined) return { kind: "direct", endpoint: used.endpoint };
  const [best] = living
    .filter((it) => it.answers >= STABLE_ANSWERS && nowMs - (it.failedAtMs ?? -HOLD_OFF_MS) >= HOLD_OFF_MS)
    .toSorted((a, b) => a.rttMs - b.rttMs);
  if (best !== undefined) return { kind: "direct", endpoint: best.endpoint };
  if (relay !== undefined) return { kind: "relay", endpoint: relay };
  return tcp === undefined ? undefined : { kind: "tcp", endpoint: tcp };
}

export function isLivingPath({ silentSinceMs, rttMs }: DirectPath, nowMs: number): boolean {
  if (silentSinceMs === undefined) return true;
  const slowMs = Math.max(0, Math.min(rttMs, LONGEST_RTT_MS) - PROBE_MS / 2);
  return nowMs - silentSinceMs < DEAD_MS + slowMs;
}

export function isSameEndpoint(a: UdpEndpoint | undefined, b: UdpEndpoint | undefined): boolean {
  return a?.address === b?.address && a?.port === b?.port;
}

/** As WireGuard has it. */
export function endpointText({ address, port }: UdpEndpoint): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}
