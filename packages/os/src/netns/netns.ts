import { closeSync, constants, mkdirSync, openSync, rmSync } from "node:fs";
import { readFile, stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { exec } from "@fairlead/base/exec.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { parseNsMounts } from "./mountinfo.ts";

/**
 * Named network namespaces: a name is an absolute path, at which the namespace is bind-mounted. `/run/netns` is never
 * used: `ip netns add` would turn it into a separate mount point and leave that behind.
 */

/** The file system type of a namespace file in `statfs`. Source: `NSFS_MAGIC` in linux/magic.h. */
export const NSFS_MAGIC = 0x6e73_6673;

/** A program and its arguments, to be started without a shell. */
export interface CommandLine {
  readonly command: string;
  readonly args: readonly string[];
}

/**
 * Makes a network namespace whose `lo` is up. Does nothing where `path` already is one; a plain file, left by a crash
 * between making the file and mounting on it, is used. Folders above it are made as needed.
 */
export async function createNetns(path: string, signal: AbortSignal): Promise<void> {
  checkPath(path);
  if (await isNetns(path)) return;
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
  closeSync(openSync(path, constants.O_CREAT | constants.O_RDONLY, 0o444));
  await exec("unshare", [`--net=${path}`, "--", "ip", "link", "set", "dev", "lo", "up"], { signal });
}

/**
 * Removes the name, in this mount namespace and, by deleting the file, in all others. The namespace ends with its last
 * process and last open file. An absent path is not an error.
 */
export async function deleteNetns(path: string, signal: AbortSignal): Promise<void> {
  checkPath(path);
  // Each round takes one mount off; two racing creations may have stacked theirs.
  while (await isNetns(path)) {
    try {
      // Lazily: an open file of the namespace must not keep its name alive.
      await exec("umount", ["--lazy", "--no-canonicalize", "--", path], { signal });
    } catch (error) {
      if (!hasCode(error, "EXEC_FAILED") || (await isNetns(path))) throw error;
    }
  }
  rmSync(path, { force: true });
}

/** Paths at or below `under` on which a network namespace is mounted, each once. */
export async function listNetns(under: string): Promise<readonly string[]> {
  const prefix = under.endsWith("/") ? under : `${under}/`;
  const mounts = parseNsMounts(await readFile("/proc/self/mountinfo", "utf8"));
  return [...new Set(mounts.filter((path) => path === under || path.startsWith(prefix)))];
}

/** The command that runs `command` inside the namespace. Not a shell: arguments arrive as they are. */
export function inNetns(path: string, command: string, args: readonly string[] = []): CommandLine {
  checkPath(path);
  return { command: "nsenter", args: [`--net=${path}`, "--", command, ...args] };
}

/** Whether `path` exists and a namespace is mounted on it. */
export async function isNetns(path: string): Promise<boolean> {
  try {
    return (await statfs(path)).type === NSFS_MAGIC;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/**
 * The number that tells one living namespace from another on this machine; used again after its end. Undefined for a path
 * that is absent.
 *
 * @param path - A namespace file, or `/proc/PID/ns/net`.
 */
export async function netnsInode(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).ino;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function checkPath(path: string): void {
  if (path.startsWith("/") && !path.endsWith("/") && !path.includes("\0")) return;
  throw new FleetError(
    "OPTION_INVALID",
    `a network namespace needs an absolute path, got ${JSON.stringify(path)}`,
  );
}

export function isMissing(error: unknown): boolean {
  return Error.isError(error) && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR");
}
