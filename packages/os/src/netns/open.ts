import { closeSync, constants, fstatSync, openSync, statfsSync } from "node:fs";
import { FleetError } from "@fairlead/base/errors.ts";
import { isMissing, NSFS_MAGIC } from "./netns.ts";

/**
 * A network namespace that stays the same one, whatever becomes of the path under which it was found. An open file keeps
 * the namespace of a terminated pod alive, with its devices: keep it open for one action only.
 */
export interface OpenNetns extends Disposable {
  /** Stands for the namespace wherever a path does, also in programs that this process starts, until disposed. */
  readonly path: string;
  /** Tells one living namespace from another on this machine. */
  readonly inode: number;
}

/**
 * Opens the network namespace at `path`, a file on which one is mounted or `/proc/PID/ns/net`.
 *
 * @returns Undefined if the path is absent or is not a namespace.
 */
export function openNetns(path: string): OpenNetns | undefined {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    throw new FleetError("PRECONDITION_FAILED", `cannot open the network namespace ${path}`, { cause });
  }
  // Not /proc/self: the programs that use it are other processes.
  const own = `/proc/${process.pid}/fd/${fd}`;
  if (statfsSync(own).type !== NSFS_MAGIC) {
    closeSync(fd);
    return undefined;
  }
  return { path: own, inode: fstatSync(fd).ino, [Symbol.dispose]: () => closeSync(fd) };
}
