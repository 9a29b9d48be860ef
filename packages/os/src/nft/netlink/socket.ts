import { closeSync } from "node:fs";
import type { FleetError } from "@fairlead/base/errors.ts";
import {
  callError,
  EAGAIN,
  EINTR,
  inNamespace,
  type LibC,
  MSG_DONTWAIT,
  SOCK_CLOEXEC,
  SOCK_RAW,
} from "#libc/libc.ts";
import { writeU16, writeU32 } from "./message.ts";

/** A netlink socket to netfilter, through the C library, because Node has no netlink sockets. */
export interface NetlinkSocket extends Disposable {
  /** Sends one datagram and returns what the kernel answered while it processed it. */
  transact(request: Uint8Array): readonly Uint8Array[];
}

const AF_NETLINK = 16;
const NETLINK_NETFILTER = 12;
const SOL_SOCKET = 1;
const SO_SNDBUFFORCE = 32;
const SO_RCVBUFFORCE = 33;

/** Room for acknowledgements; an error repeats its message, and there may be many. Unit: bytes. */
const RECEIVE_BUFFER = 4 * 1024 * 1024;
/** Send buffers grow in these steps: the kernel takes a batch as one datagram. Unit: bytes. */
const SEND_STEP = 1024 * 1024;

/**
 * Opens a socket in the network namespace at `netns`, or in that of this process.
 *
 * @throws {FleetError} `NFT_FAILED`
 */
export function openNetlinkSocket(libc: LibC, netns: string | undefined): NetlinkSocket {
  const fd =
    netns === undefined ? openSocket(libc) : inNamespace(libc, netns, () => openSocket(libc), "NFT_FAILED");
  setBuffer(libc, fd, SO_RCVBUFFORCE, RECEIVE_BUFFER);
  const received = Buffer.alloc(256 * 1024);
  let room = 0;
  return {
    transact(request) {
      if (request.length > room) {
        room = Math.ceil((request.length + 1) / SEND_STEP) * SEND_STEP;
        setBuffer(libc, fd, SO_SNDBUFFORCE, room);
      }
      drain(libc, fd, received);
      if (libc.send(fd, request, request.length, 0) < 0) throw failed(libc, "send to nf_tables");
      // The kernel works a batch off inside `send`: all answers are there when it returns.
      return drain(libc, fd, received);
    },
    [Symbol.dispose]() {
      closeSync(fd);
    },
  };
}

/** NFNLGRP_NFTABLES, as a bit. */
const REPORTS_OF_NFTABLES = 1 << (7 - 1);
/** sockaddr_nl. Unit: bytes. */
const ADDRESS_BYTES = 12;

/**
 * Opens a socket that receives what changes in nftables there. The caller closes it.
 *
 * @throws {FleetError} `NFT_FAILED`
 */
export function openReports(libc: LibC, netns: string | undefined): number {
  const fd =
    netns === undefined ? openSocket(libc) : inNamespace(libc, netns, () => openSocket(libc), "NFT_FAILED");
  try {
    setBuffer(libc, fd, SO_RCVBUFFORCE, RECEIVE_BUFFER);
    const address = Buffer.alloc(ADDRESS_BYTES);
    writeU16(address, AF_NETLINK, 0);
    writeU32(address, REPORTS_OF_NFTABLES, 8);
    if (libc.bind(fd, address, address.length) !== 0) throw failed(libc, "listen to nf_tables");
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Takes all that has arrived. */
function drain(libc: LibC, fd: number, buffer: Buffer): readonly Uint8Array[] {
  const datagrams: Uint8Array[] = [];
  for (;;) {
    const length = libc.recv(fd, buffer, buffer.length, MSG_DONTWAIT);
    if (length > 0) datagrams.push(Buffer.from(buffer.subarray(0, length)));
    else if (length === 0 || libc.errno() === EAGAIN) return datagrams;
    else if (libc.errno() !== EINTR) throw failed(libc, "receive from nf_tables");
  }
}

function openSocket(libc: LibC): number {
  const fd = libc.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
  if (fd < 0) throw failed(libc, "open a netlink socket");
  return fd;
}

function setBuffer(libc: LibC, fd: number, option: number, size: number): void {
  if (libc.setOption(fd, SOL_SOCKET, option, size) !== 0) throw failed(libc, "set a netlink buffer");
}

function failed(libc: LibC, what: string): FleetError {
  return callError(libc, what, "NFT_FAILED");
}
