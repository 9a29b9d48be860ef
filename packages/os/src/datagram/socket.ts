import { closeSync } from "node:fs";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { familyOf, type IpAddress } from "@fairlead/base/netaddr/address.ts";
import { EAGAIN, EINTR, type LibC, MSG_DONTWAIT, SOCK_CLOEXEC } from "#libc/libc.ts";

const AF_INET = 2;
const AF_INET6 = 10;
const SOCK_DGRAM = 2;
const IPPROTO = { udp: { IPv4: 17, IPv6: 17 }, icmp: { IPv4: 1, IPv6: 58 } } as const;
const SOL_IP = 0;
const SOL_IPV6 = 41;
const IP_MTU_DISCOVER = 10;
const IPV6_MTU_DISCOVER = 23;
const IPV6_DONTFRAG = 62;
/** Sets DF, whatever path MTU the kernel remembers (ip(7), ipv6(7)). */
const PMTUDISC_PROBE = 3;
const EACCES = 13;
const EMSGSIZE = 90;

/** Between two looks for an answer. Unit: milliseconds. */
const LOOK_EVERY_MS = 2;

export interface DatagramPeer {
  readonly protocol: "udp" | "icmp";
  readonly address: IpAddress;
  /** Of UDP. */
  readonly port: number;
}

/** "too big": the kernel or a router refused the size. "lost": no answer in time. */
export type Exchanged =
  | { readonly kind: "answer"; readonly bytes: Uint8Array }
  | { readonly kind: "too big" }
  | { readonly kind: "lost" }
  | { readonly kind: "error"; readonly errno: number };

export interface DatagramSocket extends Disposable {
  /** Sends `bytes` with DF set and waits for the next datagram of the peer that `isAnswer`. */
  exchange(
    bytes: Uint8Array,
    of: { readonly timeoutMs: number; readonly isAnswer: (answer: Uint8Array) => boolean },
    signal: AbortSignal,
  ): Promise<Exchanged>;
}

/** @throws {FleetError} `EXEC_FAILED`; see `isForbidden` for a missing permission. */
export function openDatagramSocket(libc: LibC, peer: DatagramPeer, clock: Clock): DatagramSocket {
  const family = familyOf(peer.address);
  const fd = libc.socket(
    family === "IPv4" ? AF_INET : AF_INET6,
    SOCK_DGRAM | SOCK_CLOEXEC,
    IPPROTO[peer.protocol][family],
  );
  if (fd < 0) throw failed(libc, `open a socket for ${peer.protocol} over ${family}`);
  const close = (): void => closeSync(fd);
  const options =
    family === "IPv4"
      ? [{ level: SOL_IP, option: IP_MTU_DISCOVER, value: PMTUDISC_PROBE }]
      : [
          { level: SOL_IPV6, option: IPV6_MTU_DISCOVER, value: PMTUDISC_PROBE },
          { level: SOL_IPV6, option: IPV6_DONTFRAG, value: 1 },
        ];
  const address = sockaddr(peer);
  const isSet = options.every(({ level, option, value }) => libc.setOption(fd, level, option, value) === 0);
  if (!isSet || libc.connect(fd, address, address.length) !== 0) {
    const error = failed(libc, `connect a socket for ${peer.protocol} over ${family}`);
    close();
    throw error;
  }
  const received = Buffer.alloc(65_536);
  return {
    async exchange(bytes, { timeoutMs, isAnswer }, signal) {
      if (libc.send(fd, bytes, bytes.length, 0) < 0) return refusal(libc.errno());
      const endMs = clock.monotonic() + timeoutMs;
      while (clock.monotonic() < endMs) {
        const length = libc.recv(fd, received, received.length, MSG_DONTWAIT);
        if (length >= 0) {
          const answer = received.subarray(0, length);
          if (isAnswer(answer)) return { kind: "answer", bytes: Uint8Array.from(answer) };
          continue;
        }
        const errno = libc.errno();
        if (errno === EINTR) continue;
        if (errno !== EAGAIN) return refusal(errno);
        await delay(clock, LOOK_EVERY_MS, signal);
      }
      return { kind: "lost" };
    },
    [Symbol.dispose]: close,
  };
}

function refusal(errno: number): Exchanged {
  return errno === EMSGSIZE ? { kind: "too big" } : { kind: "error", errno };
}

function failed(libc: LibC, what: string): FleetError {
  const errno = libc.errno();
  return new FleetError("EXEC_FAILED", `cannot ${what}: errno ${errno}`, { detail: { errno } });
}

/** Whether an error of `openDatagramSocket` means that this process may not open such sockets. */
export function isForbidden(error: unknown): boolean {
  return hasCode(error, "EXEC_FAILED") && error.detail["errno"] === EACCES;
}

/** `struct sockaddr_in` (ip(7)) or `struct sockaddr_in6` (ipv6(7)). Families are in the byte order of the machine. */
function sockaddr({ address, port, protocol }: DatagramPeer): Uint8Array {
  const bytes = Buffer.alloc(typeof address === "number" ? 16 : 28);
  const [family] = new Uint16Array([typeof address === "number" ? AF_INET : AF_INET6]);
  bytes.set(new Uint8Array(new Uint16Array([family ?? 0]).buffer));
  bytes.writeUInt16BE(protocol === "udp" ? port : 0, 2);
  if (typeof address === "number") bytes.writeUInt32BE(address, 4);
  else {
    bytes.writeBigUInt64BE(address >> 64n, 8);
    bytes.writeBigUInt64BE(address & 0xffff_ffff_ffff_ffffn, 16);
  }
  return bytes;
}
