import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { canonicalAddress, familyOfText } from "@fairlead/base/netaddr/address.ts";
import { splitHostPort } from "@fairlead/base/netaddr/host-port.ts";
import { formatPrefix, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { defined } from "@fairlead/base/defined.ts";
import { deviceWord } from "#iproute/words.ts";
import { clampedPrivateKey, keyBytes, publicKeyOf } from "./keys.ts";

/** A WireGuard device as it is wanted. Keys are base64. */
export interface WireguardDevice {
  /** At most 15 characters. */
  readonly name: string;
  readonly privateKey: string;
  /** UDP port of the socket, in the namespace in which the device is made. */
  readonly listenPort: number;
  /** Mark of the encrypted packets. Default: 0, none. */
  readonly fwmark?: number;
  /** Unit: bytes. Range: 1280 to 65535. A multiple of 16 is best: WireGuard pads to that. */
  readonly mtu: number;
  readonly peers: readonly WireguardPeer[];
}

export interface WireguardPeer {
  readonly publicKey: string;
  readonly presharedKey?: string;
  /**
   * `address:port`: move the peer there, once. It is set if it differs from that of the state that was applied last, and
   * not when WireGuard has learned another since. Absent: keep the endpoint that WireGuard has.
   */
  readonly endpoint?: string;
  /**
   * Move the peer back to `endpoint` when WireGuard has another: it learns the source of each datagram, and so returns to a path
   * that was left when a late one comes by it.
   */
  readonly isHeld?: boolean;
  /** Prefixes; a prefix belongs to one peer of a device. */
  readonly allowedIPs: readonly string[];
  /** Default: 0, never. */
  readonly persistentKeepaliveSeconds?: number;
}

/** A WireGuard device as it is. */
export interface ActualDevice extends Omit<WireguardDevice, "privateKey"> {
  /** Absent until one is set. */
  readonly privateKey?: string;
  readonly isUp: boolean;
  readonly peers: readonly ActualPeer[];
}

export interface ActualPeer extends WireguardPeer {
  /** Unit: milliseconds since the Unix epoch. Absent before the first handshake. */
  readonly latestHandshakeMs?: number;
  readonly rxBytes: number;
  readonly txBytes: number;
}

/** A peer that a device does not get. */
export interface RefusedPeer {
  readonly publicKey: string;
  /** Names the field. */
  readonly reason: string;
}

/**
 * The device in canonical text, and the peers that WireGuard could not have: malformed ones, and those whose key or prefix an
 * earlier peer has. The others are not held up by them, because each comes from another cluster.
 *
 * @throws {FleetError} `OPTION_INVALID`, which names the field, when the device itself is at fault.
 */
export function normalizeDevice(device: WireguardDevice): {
  readonly desired: WireguardDevice;
  readonly refused: readonly RefusedPeer[];
} {
  const privateKey = clampedPrivateKey(device.privateKey);
  const taken: Taken = { keys: new Set([publicKeyOf(privateKey)]), owners: new Map() };
  const peers: WireguardPeer[] = [];
  const refused: RefusedPeer[] = [];
  for (const [at, peer] of device.peers.entries()) {
    try {
      peers.push(normalizePeer(peer, { at: `peers[${at}]`, taken }));
    } catch (error) {
      if (!hasCode(error, "OPTION_INVALID", "ADDRESS_INVALID")) throw error;
      refused.push({ publicKey: peer.publicKey, reason: error.message });
    }
  }
  const desired = {
    name: deviceWord(device.name),
    privateKey,
    listenPort: inRange(device.listenPort, "listenPort", [1, 65_535]),
    fwmark: inRange(device.fwmark ?? 0, "fwmark", [0, 0xffff_ffff]),
    mtu: inRange(device.mtu, "mtu", [1280, 65_535]),
    peers,
  };
  return { desired, refused };
}

/** What earlier peers have, and the device itself. */
interface Taken {
  readonly keys: Set<string>;
  readonly owners: Map<string, string>;
}

function normalizePeer(
  peer: WireguardPeer,
  { at, taken }: { readonly at: string; readonly taken: Taken },
): WireguardPeer {
  const { publicKey, presharedKey, endpoint, isHeld, persistentKeepaliveSeconds: seconds = 0 } = peer;
  keyBytes(publicKey, `${at}.publicKey`);
  if (presharedKey !== undefined) keyBytes(presharedKey, `${at}.presharedKey`);
  const normal = {
    publicKey,
    ...defined({
      presharedKey,
      endpoint: endpoint === undefined ? undefined : canonicalEndpoint(endpoint, `${at}.endpoint`),
      isHeld,
    }),
    allowedIPs: [...new Set(peer.allowedIPs.map((it) => allowedIP(it, at)))],
    persistentKeepaliveSeconds: inRange(seconds, `${at}.persistentKeepaliveSeconds`, [0, 65_535]),
  };
  if (taken.keys.has(publicKey))
    throw invalid(`${at}.publicKey is that of the device itself or of an earlier peer`);
  const shared = normal.allowedIPs.find((it) => taken.owners.has(it));
  if (shared !== undefined)
    throw invalid(`${at}.allowedIPs has ${shared}, as has peer ${taken.owners.get(shared)}`);
  taken.keys.add(publicKey);
  for (const it of normal.allowedIPs) taken.owners.set(it, publicKey);
  return normal;
}

function allowedIP(text: string, at: string): string {
  const prefix = tryParsePrefix(text);
  if (prefix !== undefined) return formatPrefix(prefix);
  throw invalid(
    `${at}.allowedIPs has ${JSON.stringify(text.slice(0, 64))}, which is not a prefix such as 10.0.0.0/8 without bits behind its length`,
  );
}

/** `10.0.0.1:31820` or `[fd00::1]:31820`. Not a name: WireGuard would look it up once and never again. */
export function canonicalEndpoint(text: string, what: string): string {
  const parts = splitHostPort(text);
  if (parts === undefined || parts.port === 0)
    throw invalid(
      `${what} ${JSON.stringify(text.slice(0, 100))} is not an address and a port, as 10.0.0.1:31820`,
    );
  const family = familyOfText(parts.host);
  if (family === undefined)
    throw invalid(`${what} ${JSON.stringify(text.slice(0, 100))} does not begin with an address`);
  const address = canonicalAddress(parts.host);
  return family === "IPv6" ? `[${address}]:${parts.port}` : `${address}:${parts.port}`;
}

function inRange(value: number, what: string, [min, max]: readonly [number, number]): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw invalid(`${what} must be a whole number from ${min} to ${max}, got ${value}`);
}

function invalid(message: string): FleetError {
  return new FleetError("OPTION_INVALID", `WireGuard device: ${message}`);
}
