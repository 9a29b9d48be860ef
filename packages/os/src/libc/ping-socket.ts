import { closeSync } from "node:fs";
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { FleetError } from "@fairlead/base/errors.ts";
import { canonicalAddress } from "@fairlead/base/netaddr/address.ts";
import { callError, inNamespace, type LibC, SOCK_CLOEXEC } from "./libc.ts";

const AF_INET = 2;
const SOCK_DGRAM = 2;
const SOCK_NONBLOCK = 0o4000;
const IPPROTO_ICMP = 1;
const SOL_SOCKET = 1;
const SO_BINDTOIFINDEX = 62;
const IPPROTO_IP = 0;
const IP_MTU_DISCOVER = 10;
const IP_PMTUDISC_PROBE = 3;
const SOCKADDR_IN_BYTES = 16;
const ECHO_REQUEST = 8;
const ECHO_REPLY = 0;
const HEADER_BYTES = 8;

export interface PingSocketOptions {
  /** File of the network namespace. Its `net.ipv4.ping_group_range` has to include the group of this process. */
  readonly netns: string;
  /** Packets leave and arrive by this device alone, whatever the routes say (socket(7)). */
  readonly device: string;
  /** IPv4 address of the namespace that requests come from. */
  readonly address: string;
}

/**
 * A socket for ICMP echo requests over IPv4 in another network namespace (icmp(7)): the kernel of the other side answers, whatever
 * runs there. The kernel fills in the identifier and the checksum.
 *
 * @throws {FleetError} `EXEC_FAILED`
 */
export async function openPingSocket(libc: LibC, options: PingSocketOptions): Promise<Socket> {
  const { netns, device, address } = options;
  const { fd, index } = inNamespace(libc, netns, () => ({
    index: libc.deviceIndex(device),
    fd: libc.socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_ICMP),
  }));
  if (fd < 0) throw callError(libc, "open a socket for echo requests");
  try {
    // Index 0 would bind it to no device: it would send by the routes, and not fail when the device comes.
    if (index === 0) throw new FleetError("EXEC_FAILED", `the namespace ${netns} has no device ${device}`);
    if (libc.setOption(fd, SOL_SOCKET, SO_BINDTOIFINDEX, index) !== 0)
      throw callError(libc, `bind a socket to ${device}`);
    // Requests up to the MTU of the device are sent whole, whatever MTU a route or a message has (ip(7)).
    if (libc.setOption(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE) !== 0)
      throw callError(libc, "forbid fragments of echo requests");
    const name = Buffer.alloc(SOCKADDR_IN_BYTES);
    name.writeUInt16LE(AF_INET, 0);
    name.set(canonicalAddress(address).split(".").map(Number), 4);
    if (libc.bind(fd, name, name.length) !== 0) throw callError(libc, `bind a socket to ${address}`);
    const socket = createSocket("udp4");
    const listening = once(socket, "listening");
    socket.bind({ fd });
    await listening;
    return socket;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** An echo request (RFC 792) of `bytes`, at least 8. */
export function echoRequest(sequence: number, bytes = HEADER_BYTES): Buffer {
  const request = Buffer.alloc(Math.max(HEADER_BYTES, bytes));
  request[0] = ECHO_REQUEST;
  request.writeUInt16BE(sequence & 0xffff, 6);
  return request;
}

/** The sequence number of an echo reply; undefined for other messages. */
export function echoSequence(message: Buffer): number | undefined {
  return message.length >= HEADER_BYTES && message[0] === ECHO_REPLY ? message.readUInt16BE(6) : undefined;
}
