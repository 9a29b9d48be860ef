import { closeSync } from "node:fs";
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

/**
 * A packet socket (packet(7)) on one device: reads the frames that arrive there, and sends frames as they are. Frames have the
 * kernel's header for offloads in front (`virtio_net_hdr`, 10 bytes): what was read can be sent, even if it is longer than a
 * packet may be, or its checksum is not yet there.
 */
export interface PacketSocket extends Disposable {
  readonly fd: number;
  /** The next frame that has arrived, valid until the next call; undefined: none. */
  receive(): Uint8Array | undefined;
  /** Sends a frame, around the queues of the device. A frame that the device does not take at the moment is lost. */
  send(frame: Uint8Array): void;
}

/** Where the Ethernet header of a frame begins. Unit: bytes. */
export const FRAME_OFFSET = 10;

const AF_PACKET = 17;
const ETH_P_ALL = 3;
const SOL_SOCKET = 1;
const SO_RCVBUF = 8;
const SO_RCVBUFFORCE = 33;
const SOL_PACKET = 263;
const PACKET_VNET_HDR = 15;
const PACKET_QDISC_BYPASS = 20;
const PACKET_IGNORE_OUTGOING = 23;
const ENXIO = 6;
const ENODEV = 19;
const ENETDOWN = 100;

/** Room for the frames of some milliseconds. Unit: bytes. */
const RECEIVE_BUFFER = 32 * 1024 * 1024;
/** More than the longest frame that a device with offloads gives. Unit: bytes. */
const LONGEST_FRAME = 256 * 1024;

export interface PacketPlace {
  /** File of the network namespace. */
  readonly netns: string;
  readonly device: string;
}

/** @throws {FleetError} `EXEC_FAILED` */
export function openPacketSocket(libc: LibC, place: PacketPlace): PacketSocket {
  const index = indexOf(libc, place);
  // Protocol 0: nothing arrives before `bind` says from which device.
  const fd = inNamespace(libc, place.netns, () => libc.socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (fd < 0) throw callError(libc, "open a packet socket");
  // In a user namespace only up to the machine's net.core.rmem_max, which the other option quietly keeps to.
  if (libc.setOption(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER) !== 0)
    libc.setOption(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER);
  for (const option of [PACKET_VNET_HDR, PACKET_QDISC_BYPASS, PACKET_IGNORE_OUTGOING]) {
    if (libc.setOption(fd, SOL_PACKET, option, 1) !== 0)
      throw callError(libc, `set option ${option} of a packet socket`);
  }
  const address = socketAddress(index);
  if (libc.bind(fd, address, address.length) !== 0) throw callError(libc, `bind to device ${place.device}`);
  const buffer = Buffer.alloc(LONGEST_FRAME);
  /** A device that is down says so once; one that is gone never comes back. */
  const checkDevice = (): void => {
    if (indexOf(libc, place) !== index)
      throw callError(libc, `use device ${place.device}, which was replaced`);
  };
  return {
    fd,
    receive() {
      for (;;) {
        const length = libc.recv(fd, buffer, buffer.length, MSG_DONTWAIT);
        if (length >= 0) return buffer.subarray(0, length);
        const errno = libc.errno();
        if (errno === EAGAIN) return undefined;
        if (errno === ENETDOWN) checkDevice();
        else if (errno !== EINTR) throw callError(libc, `receive from device ${place.device}`);
      }
    },
    send(frame) {
      if (libc.send(fd, frame, frame.length, MSG_DONTWAIT) >= 0) return;
      const errno = libc.errno();
      if (errno === ENXIO || errno === ENODEV) throw callError(libc, `send by device ${place.device}`);
    },
    [Symbol.dispose]: () => closeSync(fd),
  };
}

function indexOf(libc: LibC, { netns, device }: PacketPlace): number {
  const index = inNamespace(libc, netns, () => libc.deviceIndex(device));
  if (index === 0) throw callError(libc, `find device ${device}`);
  return index;
}

/** `struct sockaddr_ll` of linux/if_packet.h. */
function socketAddress(index: number): Buffer {
  const address = Buffer.alloc(20);
  address.writeUInt16LE(AF_PACKET, 0);
  address.writeUInt16BE(ETH_P_ALL, 2);
  address.writeInt32LE(index, 4);
  return address;
}

const POLLIN = 1;

/** Waits until one of the sockets has a frame, or the time is over. Blocks this thread. Unit: milliseconds. */
export function awaitFrames(libc: LibC, sockets: readonly PacketSocket[], timeoutMs: number): void {
  const fds = Buffer.alloc(8 * sockets.length);
  for (const [at, { fd }] of sockets.entries()) {
    fds.writeInt32LE(fd, 8 * at);
    fds.writeInt16LE(POLLIN, 8 * at + 4);
  }
  if (libc.poll(fds, sockets.length, timeoutMs) < 0 && libc.errno() !== EINTR)
    throw callError(libc, "wait for frames");
}
