import { closeSync, openSync } from "node:fs";
import { FleetError } from "@fairlead/base/errors.ts";

/** A netlink socket to netfilter, through the C library, because Node has no netlink sockets. */
export interface NetlinkSocket extends Disposable {
  /** Sends one datagram and returns what the kernel answered while it processed it. */
  transact(request: Uint8Array): readonly Uint8Array[];
}

const AF_NETLINK = 16;
const SOCK_RAW = 3;
const SOCK_CLOEXEC = 0o2_000_000;
const NETLINK_NETFILTER = 12;
const MSG_DONTWAIT = 0x40;
const SOL_SOCKET = 1;
const SO_SNDBUFFORCE = 32;
const SO_RCVBUFFORCE = 33;
const CLONE_NEWNET = 0x4000_0000;
const EAGAIN = 11;
const EINTR = 4;

/** Room for acknowledgements; an error repeats its message, and there may be many. Unit: bytes. */
const RECEIVE_BUFFER = 4 * 1024 * 1024;
/** Send buffers grow in these steps: the kernel takes a batch as one datagram. Unit: bytes. */
const SEND_STEP = 1024 * 1024;

/** The used functions of the C library. Calls block, but no longer than the kernel takes for the batch. */
export interface LibC {
  readonly socket: (domain: number, type: number, protocol: number) => number;
  /** Sets an option whose value is an `int`, at level SOL_SOCKET. */
  readonly setBuffer: (fd: number, option: number, size: number) => number;
  readonly send: (fd: number, bytes: Uint8Array, length: number, flags: number) => number;
  readonly recv: (fd: number, bytes: Uint8Array, length: number, flags: number) => number;
  readonly setns: (fd: number, type: number) => number;
  readonly errno: () => number;
}

/** The C library that this process runs on, or undefined where the foreign function interface is not installed. */
export async function loadLibC(): Promise<LibC | undefined> {
  try {
    const { default: koffi } = await import("koffi");
    const lib = koffi.load(null);
    const setsockopt = lib.func(
      "int setsockopt(int fd, int level, int option, const void *value, unsigned int length)",
    ) as (...args: readonly unknown[]) => number;
    return {
      socket: lib.func("int socket(int domain, int type, int protocol)") as LibC["socket"],
      setBuffer(fd, option, size) {
        const value = Buffer.from(new Int32Array([size]).buffer);
        return setsockopt(fd, SOL_SOCKET, option, value, value.length);
      },
      send: lib.func("intptr_t send(int fd, const void *bytes, size_t length, int flags)") as LibC["send"],
      recv: lib.func("intptr_t recv(int fd, void *bytes, size_t length, int flags)") as LibC["recv"],
      setns: lib.func("int setns(int fd, int type)") as LibC["setns"],
      errno: () => koffi.errno(),
    };
  } catch {
    return undefined;
  }
}

/**
 * Opens a socket in the network namespace at `netns`, or in that of this process. A socket stays in the namespace in
 * which it was made, so this thread visits the other one for that one call; JavaScript runs nothing in between.
 *
 * @throws {FleetError} `NFT_FAILED`
 */
export function openNetlinkSocket(libc: LibC, netns: string | undefined): NetlinkSocket {
  const fd = netns === undefined ? openSocket(libc) : inNamespace(libc, netns, () => openSocket(libc));
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

function inNamespace<T>(libc: LibC, netns: string, action: () => T): T {
  using files = new DisposableStack();
  const open = (path: string): number => files.adopt(openSync(path, "r"), closeSync);
  const home = open("/proc/thread-self/ns/net");
  const away = open(netns);
  if (libc.setns(away, CLONE_NEWNET) !== 0) throw failed(libc, `enter ${netns}`);
  try {
    return action();
  } finally {
    // Without the way back, everything that follows would be sent into the wrong network, so the process must end.
    if (libc.setns(home, CLONE_NEWNET) !== 0) process.abort();
  }
}

function setBuffer(libc: LibC, ...[fd, option, size]: Parameters<LibC["setBuffer"]>): void {
  if (libc.setBuffer(fd, option, size) !== 0) throw failed(libc, "set a netlink buffer");
}

function failed(libc: LibC, what: string): FleetError {
  const errno = libc.errno();
  return new FleetError("NFT_FAILED", `cannot ${what}: errno ${errno}`, {
    retriable: true,
    detail: { errno },
  });
}
