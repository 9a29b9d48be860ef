import { defined } from "@fairlead/base/defined.ts";
import type { ActualDevice, ActualPeer, WireguardDevice, WireguardPeer } from "./state.ts";

/** A change of a device. Back ends carry it out in this order: peers, released prefixes, removed peers. */
export interface WireguardChange {
  readonly privateKey?: string;
  readonly listenPort?: number;
  readonly fwmark?: number;
  readonly peers: readonly PeerChange[];
  /** Prefixes that peers lose, and that no other peer gets. */
  readonly releasedIPs: readonly string[];
  /** Public keys. */
  readonly removedPeers: readonly string[];
}

export interface PeerChange {
  readonly publicKey: string;
  readonly isNew: boolean;
  /** "": no preshared key. */
  readonly presharedKey?: string;
  readonly endpoint?: string;
  readonly persistentKeepaliveSeconds?: number;
  readonly addedIPs: readonly string[];
  /** All prefixes that the peer has after the change. */
  readonly allowedIPs: readonly string[];
}

/** Endpoints of the state that was applied last, by public key. */
export type SetEndpoints = ReadonlyMap<string, string>;

/**
 * The smallest change that turns `actual` into `desired`, which is normalized; undefined if nothing is to be changed. Pure.
 *
 * Peers are never replaced, so that sessions and learned endpoints stay. A prefix that moves from one peer to another is only
 * added to the other, which takes it without a gap.
 */
export function diffDevice(
  actual: ActualDevice,
  desired: WireguardDevice,
  endpoints: SetEndpoints,
): WireguardChange | undefined {
  const have = new Map(actual.peers.map((it) => [it.publicKey, it]));
  const want = new Set(desired.peers.map((it) => it.publicKey));
  const wanted = new Set(desired.peers.flatMap((it) => it.allowedIPs));
  const settings = defined({
    privateKey: changed(actual.privateKey, desired.privateKey),
    listenPort: changed(actual.listenPort, desired.listenPort),
    fwmark: changed(actual.fwmark ?? 0, desired.fwmark ?? 0),
  });
  const peers = desired.peers
    .map((it) => diffPeer(have.get(it.publicKey), it, endpoints.get(it.publicKey)))
    .filter((it) => it !== undefined);
  const releasedIPs = actual.peers
    .filter((it) => want.has(it.publicKey))
    .flatMap((it) => it.allowedIPs.filter((prefix) => !wanted.has(prefix)));
  const removedPeers = actual.peers.map((it) => it.publicKey).filter((it) => !want.has(it));
  const isEmpty =
    Object.keys(settings).length + peers.length + releasedIPs.length + removedPeers.length === 0;
  return isEmpty ? undefined : { ...settings, peers, releasedIPs, removedPeers };
}

function diffPeer(
  actual: ActualPeer | undefined,
  desired: WireguardPeer,
  lastSet: string | undefined,
): PeerChange | undefined {
  const { publicKey, allowedIPs } = desired;
  const seconds = desired.persistentKeepaliveSeconds ?? 0;
  const addedIPs = allowedIPs.filter((it) => actual?.allowedIPs.includes(it) !== true);
  const settings = defined({
    presharedKey: changed(actual?.presharedKey ?? "", desired.presharedKey ?? ""),
    endpoint: endpointToSet(actual, desired, lastSet),
    persistentKeepaliveSeconds: changed(actual?.persistentKeepaliveSeconds ?? 0, seconds),
  });
  const isNew = actual === undefined;
  if (!isNew && addedIPs.length === 0 && Object.keys(settings).length === 0) return undefined;
  return { publicKey, isNew, ...settings, addedIPs, allowedIPs };
}

function endpointToSet(
  actual: ActualPeer | undefined,
  desired: WireguardPeer,
  lastSet: string | undefined,
): string | undefined {
  if (actual === undefined) return desired.endpoint;
  const isDue = desired.isHeld === true || desired.endpoint !== lastSet;
  return isDue && desired.endpoint !== actual.endpoint ? desired.endpoint : undefined;
}

/** What to record once `desired` is applied. A peer without endpoint is forgotten, so that naming its endpoint again moves it. */
export function endpointsOf(desired: Pick<WireguardDevice, "peers">): SetEndpoints {
  return new Map(
    desired.peers.flatMap((it) => (it.endpoint === undefined ? [] : [[it.publicKey, it.endpoint]])),
  );
}

function changed<T>(actual: T | undefined, desired: T): T | undefined {
  return actual === desired ? undefined : desired;
}
