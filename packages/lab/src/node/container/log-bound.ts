import { closeSync, existsSync, openSync, readFileSync, readSync } from "node:fs";
import { join } from "node:path";
import { replaceFileSync } from "@fairlead/base/replace-file.ts";
import { exec } from "@fairlead/base/exec.ts";

/**
 * A bound for logs. The shim appends forever and must never be blocked, so the beginning of a log is returned to the
 * file system in place: offsets stay valid, and neither readers nor the writer notice.
 */

/** How much a log may hold, as much as a kubelet keeps before it begins a new file. Unit: bytes. */
export const MAX_LOG_BYTES = 10 * 2 ** 20;
const KEPT_BYTES = MAX_LOG_BYTES / 2;

/** Next to the log: the offsets from which output was written at each time. */
export const LOG_TIMES_FILE = "log-times";

const START_FILE = "log-start";

/** Where the log of a container's run begins. Unit: bytes. */
export function logStart(folder: string): number {
  const path = join(folder, START_FILE);
  return existsSync(path) ? Number(readFileSync(path, "utf8")) : 0;
}

/** Whether a log that ends at `end` holds more than it may. */
export function isTooLong(folder: string, end: number): boolean {
  return end - logStart(folder) > MAX_LOG_BYTES;
}

/** Forgets the older part of a log that ends at `end`, in whole lines where they are not too long for that. */
export async function trimLog(folder: string, end: number): Promise<void> {
  const log = join(folder, "log");
  const start = lineAfter(log, end - KEPT_BYTES);
  replaceFileSync(join(folder, START_FILE), String(start), 0o644);
  trimTimes(folder, start);
  await exec("fallocate", ["--punch-hole", "--offset", "0", "--length", String(start), log]);
}

/** Marks of released parts are dropped, except the last one: it still applies to the first line. */
function trimTimes(folder: string, start: number): void {
  const path = join(folder, LOG_TIMES_FILE);
  if (!existsSync(path)) return;
  const lines = readFileSync(path, "utf8").split("\n");
  const kept = lines.slice(
    Math.max(
      0,
      lines.findLastIndex((it) => it !== "" && Number.parseInt(it, 10) <= start),
    ),
  );
  replaceFileSync(path, kept.join("\n"), 0o644);
}

/** Where the first line begins at `offset` or within 64 KiB after it. */
function lineAfter(path: string, offset: number): number {
  const block = Buffer.alloc(64 * 1024);
  const fd = openSync(path, "r");
  try {
    const newline = block.subarray(0, readSync(fd, block, 0, block.length, offset)).indexOf(0x0a);
    return newline < 0 ? offset : offset + newline + 1;
  } finally {
    closeSync(fd);
  }
}
