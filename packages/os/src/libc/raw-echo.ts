import { closeSync } from "node:fs";
import { type AddressFamily, formatAddress, parseAddress } from "@fairlead/base/netaddr/address.ts";
import { callError, inNamespace, type LibC, MSG_DONTWAIT, SOCK_CLOEXEC, SOCK_RAW } from "./libc.ts";

/**
 * A raw socket for echo requests and replies in any network namespace, without the limits of ping sockets: it also sees the requests
 * that arrive there, which the kernel answers (raw(7)).
 *
 * Source: RFC 792, RFC 4443.
 */
export interface EchoSocket extends Disposable {
  /** @returns False if the kernel refused to send it: no route, or a rule. */
  send(request: Buffer): boolean;
  /** All that has arrived. */
  receive(): readonly EchoMessage[];
}

export interface EchoMessage {
  readonly kind: "request" | "reply";
  /** Known for IPv4. */
  readonly source: string | undefined;
  readonly payload: Buffer;
}

const PROTOCOLS = {
  IPv4: { domain: 2, protocol: 1, request: 8, reply: 0 },
  IPv6: { domain: 10, protocol: 58, request: 128, reply: 129 },
} as const;
const HEADER_BYTES = 8;
const LONGEST_BYTES = 2048;

/**
 * @param netns - File of the namespace; undefined: that of this process.
 * @param to - The address that requests go to, and that replies are received from; undefined: it receives only.
 * @throws {FleetError} `EXEC_FAILED`
 */
export function openRawEcho(
  libc: LibC,
  {
    netns,
    family,
    to,
  }: { readonly netns: string | undefined; readonly family: AddressFamily; readonly to?: string },
): EchoSocket {
  const { domain, protocol, request } = PROTOCOLS[family];
  const open = (): number => libc.socket(domain, SOCK_RAW | SOCK_CLOEXEC, protocol);
  const fd = netns === undefined ? open() : inNamespace(libc, netns, open);
  if (fd < 0) throw callError(libc, "open a raw socket");
  const buffer = Buffer.alloc(LONGEST_BYTES);
  let isConnected = false;
  if (to !== undefined) {
    const address = socketAddress(domain, to);
    isConnected = libc.connect(fd, address, address.length) === 0;
  }
  return {
    send(payload) {
      const message = Buffer.concat([Buffer.from([request, 0, 0, 0, 0, 0, 0, 0]), payload]);
      if (family === "IPv4") message.writeUInt16BE(checksum(message), 2);
      return isConnected && libc.send(fd, message, message.length, MSG_DONTWAIT) === message.length;
    },
    receive() {
      const found: EchoMessage[] = [];
      for (;;) {
        const length = libc.recv(fd, buffer, buffer.length, MSG_DONTWAIT);
        if (length <= 0) return found;
        found.push(...parseEcho(family, buffer.subarray(0, length)));
      }
    },
    [Symbol.dispose]: () => closeSync(fd),
  };
}

/** @param packet - As a raw socket delivers it: for IPv4 with its header. */
export function parseEcho(family: AddressFamily, packet: Buffer): readonly EchoMessage[] {
  const { request, reply } = PROTOCOLS[family];
  const at = family === "IPv4" ? ((packet[0] ?? 0) & 0xf) * 4 : 0;
  const type = packet[at];
  if (packet.length < at + HEADER_BYTES || (type !== request && type !== reply)) return [];
  return [
    {
      kind: type === request ? "request" : "reply",
      source: family === "IPv4" ? formatAddress(packet.readUInt32BE(12)) : undefined,
      payload: Buffer.from(packet.subarray(at + HEADER_BYTES)),
    },
  ];
}

/** `sockaddr_in` or `sockaddr_in6`, with port 0. */
function socketAddress(domain: number, text: string): Buffer {
  const address = parseAddress(text);
  const bytes = Buffer.alloc(typeof address === "number" ? 16 : 28);
  bytes.writeUInt16LE(domain, 0);
  if (typeof address === "number") bytes.writeUInt32BE(address, 4);
  else bytes.write(address.toString(16).padStart(32, "0"), 8, "hex");
  return bytes;
}

/** Of the Internet (RFC 1071). */
function checksum(bytes: Buffer): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += (bytes[at] ?? 0) * 256 + (bytes[at + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}
