import { closeSync, openSync } from "node:fs";
import { FleetError, type ErrorCode } from "@fairlead/base/errors.ts";

/**
 * The used functions of the C library: Node has no netlink and no packet sockets, and does not enter namespaces. All of them
 * return -1 for an error, with its number in `errno`.
 */
export interface LibC {
  readonly socket: (domain: number, type: number, protocol: number) => number;
  readonly bind: (fd: number, address: Uint8Array, length: number) => number;
  readonly connect: (fd: number, address: Uint8Array, length: number) => number;
  /** Sets an option whose value is an `int`. */
  readonly setOption: (fd: number, level: number, option: number, value: number) => number;
  readonly send: (fd: number, bytes: Uint8Array, length: number, flags: number) => number;
  readonly recv: (fd: number, bytes: Uint8Array, length: number, flags: number) => number;
  /** `pollfd` structures, and the longest wait. Unit: milliseconds. Blocks this thread. */
  readonly poll: (fds: Uint8Array, count: number, timeoutMs: number) => number;
  /** The index of a device in the namespace of this thread; 0: it has none of that name. */
  readonly deviceIndex: (name: string) => number;
  readonly setns: (fd: number, type: number) => number;
  readonly errno: () => number;
}

export type LoadLibC = () => Promise<LibC | undefined>;

export const EINTR = 4;
export const EAGAIN = 11;
export const MSG_DONTWAIT = 0x40;
export const SOCK_RAW = 3;
export const SOCK_CLOEXEC = 0o2_000_000;
const CLONE_NEWNET = 0x4000_0000;

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
      bind: lib.func("int bind(int fd, const void *address, unsigned int length)") as LibC["bind"],
      connect: lib.func("int connect(int fd, const void *address, unsigned int length)") as LibC["connect"],
      setOption(fd, level, option, value) {
        const bytes = Buffer.from(new Int32Array([value]).buffer);
        return setsockopt(fd, level, option, bytes, bytes.length);
      },
      send: lib.func("intptr_t send(int fd, const void *bytes, size_t length, int flags)") as LibC["send"],
      recv: lib.func("intptr_t recv(int fd, void *bytes, size_t length, int flags)") as LibC["recv"],
      poll: lib.func("int poll(void *fds, unsigned long count, int timeout)") as LibC["poll"],
      deviceIndex: lib.func("unsigned int if_nametoindex(const char *name)") as LibC["deviceIndex"],
      setns: lib.func("int setns(int fd, int type)") as LibC["setns"],
      errno: () => koffi.errno(),
    };
  } catch {
    return undefined;
  }
}

/** The error of a call that has just failed. */
export function callError(libc: LibC, what: string, code: ErrorCode = "EXEC_FAILED"): FleetError {
  const errno = libc.errno();
  return new FleetError(code, `cannot ${what}: errno ${errno}`, { retriable: true, detail: { errno } });
}

/**
 * Calls `action` in the network namespace at `netns`: a socket stays in the namespace in which it was made, so this thread visits
 * the other one for that one call; JavaScript runs nothing in between.
 *
 * @param code - Of the error where the namespace cannot be entered.
 * @throws {FleetError} With this code.
 */
export function inNamespace<T>(
  libc: LibC,
  netns: string,
  action: () => T,
  code: ErrorCode = "EXEC_FAILED",
): T {
  using files = new DisposableStack();
  const open = (path: string): number => files.adopt(openSync(path, "r"), closeSync);
  const home = open("/proc/thread-self/ns/net");
  const away = open(netns);
  if (libc.setns(away, CLONE_NEWNET) !== 0) throw callError(libc, `enter ${netns}`, code);
  try {
    return action();
  } finally {
    // Without the way back, everything that follows would be sent into the wrong network, so the process must end.
    if (libc.setns(home, CLONE_NEWNET) !== 0) process.abort();
  }
}
