import { FleetError } from "@fairlead/base/errors.ts";
import { canonicalAddress, familyOfText } from "@fairlead/base/netaddr/address.ts";
import { splitHostPort } from "@fairlead/base/netaddr/host-port.ts";
import { formatPrefix, parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
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

/**
 * The device in canonical text.
 *
 * @throws {FleetError} `OPTION_INVALID` or `ADDRESS_INVALID`, which names the field, when WireGuard could not have it so.
 */
export function normalizeDevice(device: WireguardDevice): WireguardDevice {
  const own = publicKeyOf(device.privateKey);
  const peers = device.peers.map((it, at) => normalizePeer(it, `peers[${at}]`));
  const owners = new Map<string, string>();
  const keys = new Set([own]);
  for (const [at, { publicKey, allowedIPs }] of peers.entries()) {
    if (publicKey === own) throw invalid(`peers[${at}].publicKey is that of the device itself`);
    if (keys.has(publicKey)) throw invalid(`peers[${at}].publicKey ${publicKey} is that of another peer too`);
    keys.add(publicKey);
    for (const prefix of allowedIPs) {
      const other = owners.get(prefix);
      if (other !== undefined) throw invalid(`peers[${at}].allowedIPs has ${prefix}, as has peer ${other}`);
      owners.set(prefix, publicKey);
    }
  }
  return {
    name: deviceWord(device.name),
    privateKey: clampedPrivateKey(device.privateKey),
    listenPort: inRange(device.listenPort, "listenPort", [1, 65_535]),
    fwmark: inRange(device.fwmark ?? 0, "fwmark", [0, 0xffff_ffff]),
    mtu: inRange(device.mtu, "mtu", [1280, 65_535]),
    peers,
  };
}

function normalizePeer(peer: WireguardPeer, at: string): WireguardPeer {
  keyBytes(peer.publicKey, `${at}.publicKey`);
  if (peer.presharedKey !== undefined) keyBytes(peer.presharedKey, `${at}.presharedKey`);
  const seconds = peer.persistentKeepaliveSeconds ?? 0;
  return {
    publicKey: peer.publicKey,
    ...defined({
      presharedKey: peer.presharedKey,
      endpoint: peer.endpoint === undefined ? undefined : canonicalEndpoint(peer.endpoint, `${at}.endpoint`),
    }),
    allowedIPs: [...new Set(peer.allowedIPs.map((it) => formatPrefix(parsePrefix(it))))],
    persistentKeepaliveSeconds: inRange(seconds, `${at}.persistentKeepaliveSeconds`, [0, 65_535]),
  };
}

/** `10.0.0.1:31820` or `[fd00::1]:31820`. Not a name: WireGuard would look it up once and never again. */
export function canonicalEndpoint(text: string, what: string): string {
  const parts = splitHostPort(text);
  if (parts === undefined || parts.port === 0)
    throw invalid(
      `${what} ${JSON.stringify(text.slice(0, 100))} is not an address and a port, as 10.0.0.1:31820`,
    );
  const address = canonicalAddress(parts.host);
  return familyOfText(address) === "IPv6" ? `[${address}]:${parts.port}` : `${address}:${parts.port}`;
}

function inRange(value: number, what: string, [min, max]: readonly [number, number]): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw invalid(`${what} must be a whole number from ${min} to ${max}, got ${value}`);
}

function invalid(message: string): FleetError {
  return new FleetError("OPTION_INVALID", `WireGuard device: ${message}`);
}
