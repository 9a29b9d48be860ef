import { createHmac, type KeyObject, timingSafeEqual } from "node:crypto";
import { formatAddress, type IpAddress, parseAddress } from "@fairlead/base/netaddr/address.ts";

/**
 * Control datagrams between gateways and relays (registration) and between gateways (probes). They share UDP ports with
 * WireGuard, whose datagrams begin with 1 to 4. All have one length, so that no answer is longer than what it answers:
 *
 * | bytes | field |
 * | --- | --- |
 * | 0 | kind |
 * | 1 | version: 1 |
 * | 2-3 | index of the gateway that asks (also in the answer) |
 * | 4-5 | index of the other gateway of the pair |
 * | 6-7 | zero |
 * | 8-11 | epoch of the keys |
 * | 12-27 | nonce of the request, repeated in its answer |
 * | 28-51 | by kind: the cookie (16), or the observed address (16), port (2), zero (2) and lifetime in seconds (4) |
 * | 52-67 | HMAC-SHA256 of all before, its first 16 bytes |
 *
 * Numbers are in network byte order.
 */
export const CONTROL_BYTES = 68;
export const COOKIE_BYTES = 16;
export const NONCE_BYTES = 16;
const MAC_BYTES = 16;
const VERSION = 1;
const AT = { from: 2, to: 4, epoch: 8, nonce: 12, body: 28, port: 44, lifetime: 48, mac: 52 } as const;

export const KIND_BYTES = {
  register: 0xf1,
  challenge: 0xf2,
  registered: 0xf3,
  probe: 0xf5,
  "probe-reply": 0xf6,
} as const;

export type ControlKind = keyof typeof KIND_BYTES;

const KINDS: ReadonlyMap<number, ControlKind> = new Map(
  Object.entries(KIND_BYTES).map(([kind, byte]) => [byte, kind as ControlKind]),
);

/** Address and port of a datagram's source or destination. The address is in canonical text, never IPv4-mapped. */
export interface UdpEndpoint {
  readonly address: string;
  readonly port: number;
}

/** What every datagram has. */
export interface ControlHead {
  /** Index of the gateway that asks. */
  readonly from: number;
  /** Index of the other gateway of the pair. */
  readonly to: number;
  /** Epoch of the keys of both gateways. */
  readonly epoch: number;
}

export type ControlDatagram = ControlHead & { readonly nonce: Uint8Array } & (
    | { readonly kind: "register" | "challenge"; readonly cookie: Uint8Array }
    | { readonly kind: "registered"; readonly observed: UdpEndpoint; readonly lifetimeSeconds: number }
    | { readonly kind: "probe" }
    | { readonly kind: "probe-reply"; readonly observed: UdpEndpoint }
  );

/** No cookie yet. */
export const NO_COOKIE: Uint8Array = new Uint8Array(COOKIE_BYTES);

/** The datagram with its authentication. */
export function encodeControl(datagram: ControlDatagram, key: KeyObject): Buffer {
  const bytes = Buffer.alloc(CONTROL_BYTES);
  bytes[0] = KIND_BYTES[datagram.kind];
  bytes[1] = VERSION;
  bytes.writeUInt16BE(datagram.from, AT.from);
  bytes.writeUInt16BE(datagram.to, AT.to);
  bytes.writeUInt32BE(datagram.epoch, AT.epoch);
  bytes.set(datagram.nonce.subarray(0, NONCE_BYTES), AT.nonce);
  if ("cookie" in datagram) bytes.set(datagram.cookie.subarray(0, COOKIE_BYTES), AT.body);
  if ("observed" in datagram) {
    writeAddress(bytes, AT.body, parseAddress(datagram.observed.address));
    bytes.writeUInt16BE(datagram.observed.port, AT.port);
  }
  if ("lifetimeSeconds" in datagram) bytes.writeUInt32BE(datagram.lifetimeSeconds, AT.lifetime);
  bytes.set(macOf(bytes, key), AT.mac);
  return bytes;
}

/**
 * Reads the claimed head of a datagram that is not authenticated yet, for the choice of the key; undefined if it is not a
 * control datagram. Costs no cryptography.
 */
export function headOf(bytes: Uint8Array): (ControlHead & { readonly kind: ControlKind }) | undefined {
  if (bytes.length !== CONTROL_BYTES || bytes[1] !== VERSION) return undefined;
  const kind = KINDS.get(bytes[0] ?? 0);
  if (kind === undefined) return undefined;
  const view = viewOf(bytes);
  return {
    kind,
    from: view.readUInt16BE(AT.from),
    to: view.readUInt16BE(AT.to),
    epoch: view.readUInt32BE(AT.epoch),
  };
}

/** The datagram, if it was made with `key`. */
export function openControl(bytes: Uint8Array, key: KeyObject): ControlDatagram | undefined {
  const head = headOf(bytes);
  if (head === undefined) return undefined;
  const view = viewOf(bytes);
  if (!timingSafeEqual(macOf(view, key), view.subarray(AT.mac))) return undefined;
  const base = { ...head, nonce: new Uint8Array(view.subarray(AT.nonce, AT.nonce + NONCE_BYTES)) };
  switch (head.kind) {
    case "register":
    case "challenge": {
      const cookie = new Uint8Array(view.subarray(AT.body, AT.body + COOKIE_BYTES));
      return { ...base, kind: head.kind, cookie };
    }
    case "registered": {
      const lifetimeSeconds = view.readUInt32BE(AT.lifetime);
      return { ...base, kind: head.kind, observed: readEndpoint(view), lifetimeSeconds };
    }
    case "probe":
      return { ...base, kind: head.kind };
    case "probe-reply":
      return { ...base, kind: head.kind, observed: readEndpoint(view) };
    default:
      return head.kind satisfies never;
  }
}

/** The first 16 bytes of the HMAC of all before it. */
function macOf(bytes: Buffer, key: KeyObject): Buffer {
  return createHmac("sha256", key).update(bytes.subarray(0, AT.mac)).digest().subarray(0, MAC_BYTES);
}

function viewOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** `::ffff:0:0/96`, in which IPv4 addresses travel (RFC 4291, section 2.5.5.2). */
const MAPPED = 0xffffn;

function writeAddress(bytes: Buffer, at: number, address: IpAddress): void {
  const value = typeof address === "number" ? (MAPPED << 32n) | BigInt(address) : address;
  bytes.writeBigUInt64BE(value >> 64n, at);
  bytes.writeBigUInt64BE(value & 0xffff_ffff_ffff_ffffn, at + 8);
}

function readEndpoint(view: Buffer): UdpEndpoint {
  const value = (view.readBigUInt64BE(AT.body) << 64n) | view.readBigUInt64BE(AT.body + 8);
  const address = value >> 32n === MAPPED ? Number(value & 0xffff_ffffn) : value;
  return { address: formatAddress(address), port: view.readUInt16BE(AT.port) };
}
