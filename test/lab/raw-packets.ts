/** Packets as bytes, between any two addresses. */

import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { Traffic } from "@fairlead/fleet/policy/enforced.ts";
import { FRAME_OFFSET } from "@fairlead/os/packet/socket.ts";

export interface RawPacket {
  readonly source: IpAddress;
  readonly destination: IpAddress;
  readonly traffic: Traffic;
  /** At the end of the packet; from 1. */
  readonly mark: number;
}

const TRANSPORTS = { TCP: 6, UDP: 17, SCTP: 132 } as const;
const ETHERNET_BYTES = 14;
const SYN = 2;

/**
 * A frame for a packet socket. Checksums of transports are not filled in: the receiver must not look at them.
 *
 * @param payload - Of UDP, in place of the mark.
 */
export function frameOf(packet: RawPacket, to: Buffer, payload?: Buffer): Buffer {
  const ethernet = Buffer.alloc(ETHERNET_BYTES);
  to.copy(ethernet);
  ethernet.writeUInt16BE(typeof packet.source === "number" ? 0x0800 : 0x86dd, 12);
  return Buffer.concat([Buffer.alloc(FRAME_OFFSET), ethernet, packetOf(packet, payload)]);
}

/** The packet with its header of IP. */
export function packetOf(packet: RawPacket, payload?: Buffer): Buffer {
  const body = payload === undefined ? bodyOf(packet) : datagramOf(packet, payload);
  const header = typeof packet.source === "number" ? header4(packet, body) : header6(packet, body);
  return Buffer.concat([header, body]);
}

function protocolOf({ traffic, source }: RawPacket): number {
  if (traffic.kind === "transport") return TRANSPORTS[traffic.protocol];
  if (traffic.kind === "protocol") return traffic.number;
  return typeof source === "number" ? 1 : 58;
}

/** Where nftables finds the mark: behind so many bits of the packet without its header of IP. */
export const MARK_WORD = "@th,160,32";

/** The sender's port, or the identifier of an echo request, differs from packet to packet: each is a flow of its own. */
function bodyOf({ traffic, mark }: RawPacket): Buffer {
  const own = 1024 + (mark % 60_000);
  const tail = Buffer.alloc(4);
  tail.writeUInt32BE(mark);
  const head = Buffer.alloc(20);
  if (traffic.kind === "icmp") {
    head[0] = traffic.type;
    head.writeUInt16BE(own, 4);
  }
  if (traffic.kind === "transport") {
    head.writeUInt16BE(own, 0);
    head.writeUInt16BE(traffic.port, 2);
    if (traffic.protocol === "TCP") {
      head[12] = 0x50;
      head[13] = SYN;
    } else if (traffic.protocol === "UDP") head.writeUInt16BE(24, 4);
    else {
      // An INIT chunk begins an association.
      head[12] = 1;
      head.writeUInt16BE(12, 14);
    }
  }
  return Buffer.concat([head, tail]);
}

function datagramOf(packet: RawPacket, payload: Buffer): Buffer {
  const head = bodyOf(packet).subarray(0, 8);
  head.writeUInt16BE(head.length + payload.length, 4);
  return Buffer.concat([head, payload]);
}

function header4({ source, destination, ...packet }: RawPacket, body: Buffer): Buffer {
  const header = Buffer.alloc(20);
  header[0] = 0x45;
  header.writeUInt16BE(header.length + body.length, 2);
  header[8] = 64;
  header[9] = protocolOf({ source, destination, ...packet });
  header.writeUInt32BE(Number(source), 12);
  header.writeUInt32BE(Number(destination), 16);
  let sum = 0;
  for (let at = 0; at < header.length; at += 2) sum += header.readUInt16BE(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  header.writeUInt16BE(~sum & 0xffff, 10);
  return header;
}

function header6({ source, destination, ...packet }: RawPacket, body: Buffer): Buffer {
  const header = Buffer.alloc(40);
  header[0] = 0x60;
  header.writeUInt16BE(body.length, 4);
  header[6] = protocolOf({ source, destination, ...packet });
  header[7] = 64;
  for (const [at, address] of [
    [8, BigInt(source)],
    [24, BigInt(destination)],
  ] as const) {
    header.writeBigUInt64BE(address >> 64n, at);
    header.writeBigUInt64BE(address & 0xffff_ffff_ffff_ffffn, at + 8);
  }
  return header;
}
