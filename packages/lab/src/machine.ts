/** What a lab has to know of the machine that carries it. */

import { existsSync, readFileSync, statfsSync, writeFileSync } from "node:fs";
import { exec } from "@fairlead/base/exec.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { findProgram } from "@fairlead/base/find-program.ts";
import { parsePrefix, overlaps } from "@fairlead/base/netaddr/prefix.ts";
import { blockStartsOf, ipv4Block, ipv6Prefix, type LabSpec } from "./topology.ts";

/** Programs that a lab starts in addition to our own, with the Debian package of each. */
const NEEDED = [
  ["ip", "iproute2"],
  ["nft", "nftables"],
  ["unshare", "util-linux"],
  ["nsenter", "util-linux"],
  ["mount", "mount"],
  ["sysctl", "procps"],
] as const;

/**
 * Rejects a machine that cannot run a lab, with everything that is missing.
 *
 * @throws {FleetError} `LAB_UNSUPPORTED`
 */
export function checkMachine(path: string, topology: LabSpec["topology"]): void {
  const problems: string[] = [];
  if (process.platform !== "linux") problems.push(`it needs Linux, this is ${process.platform}`);
  const isAbsent = (program: string): boolean => findProgram(program, path) === undefined;
  const missing: string[] = NEEDED.filter(([program]) => isAbsent(program)).map(
    ([, debianPackage]) => debianPackage,
  );
  if (topology === "nat" && ["wireguard-go", "wg"].every((it) => isAbsent(it)))
    missing.push("wireguard-go, or wireguard-tools if the kernel has WireGuard");
  if (missing.length > 0) {
    problems.push(
      `these Debian packages are missing: ${[...new Set(missing)].join(", ")} (apt-get install them)`,
    );
  }
  for (const kind of ["net", "mnt", "pid", "uts"]) {
    if (!existsSync(`/proc/self/ns/${kind}`)) problems.push(`the kernel has no ${kind} namespaces`);
  }
  if (problems.length > 0)
    throw new FleetError("LAB_UNSUPPORTED", `this machine cannot run a lab: ${problems.join("; ")}`);
}

/** The kernel's limit of inotify instances of one user (inotify(7)). */
const INOTIFY_LIMIT = "/proc/sys/fs/inotify/max_user_instances";

/**
 * Each process of a lab that watches files needs an inotify instance, as does each process of wireguard-go. Linux allows 128 for
 * each user; this is what Kubernetes distributions set. Unit: instances.
 */
const INOTIFY_INSTANCES = 8192;

/** Raises the machine's limit of inotify instances to what several labs need. Where that is not permitted, it stays. */
export function raiseInotifyLimit(file = INOTIFY_LIMIT): void {
  try {
    if (Number(readFileSync(file, "utf8")) < INOTIFY_INSTANCES) writeFileSync(file, `${INOTIFY_INSTANCES}\n`);
  } catch {
    // In a container the file may be read-only. Programs report it when they reach the limit.
  }
}

/**
 * The first block whose addresses no route of the machine and none of `taken` covers, in either family. The default
 * route does not count.
 *
 * @param taken - Prefixes of labs that are up: one may have lost its link to the machine, and its routes with it.
 * @throws {FleetError} `LAB_UNSUPPORTED` when all are taken.
 */
export async function chooseBlock(
  labName: string,
  taken: readonly string[],
  signal: AbortSignal,
): Promise<number> {
  const routed = [...(await routedPrefixes("-4", signal)), ...(await routedPrefixes("-6", signal)), ...taken];
  const start = blockStartsOf(labName).find((candidate) => isFree(labName, candidate, routed));
  if (start !== undefined) return start;
  throw new FleetError(
    "LAB_UNSUPPORTED",
    "cannot find addresses for a lab: this machine has routes to every IPv4 block of 10.0.0.0/8 that a lab could use",
  );
}

/** Whether a lab could use the block that begins at `start`, given the prefixes that the machine routes. */
export function isFree(labName: string, start: number, routed: readonly string[]): boolean {
  const blocks = [parsePrefix(ipv4Block(start)), parsePrefix(`${ipv6Prefix(labName, start)}::/48`)];
  return routed
    .map((text) => parsePrefix(text))
    .every((prefix) => blocks.every((block) => !overlaps(block, prefix)));
}

async function routedPrefixes(family: "-4" | "-6", signal: AbortSignal): Promise<readonly string[]> {
  const { stdout } = await exec("ip", ["-j", family, "route", "show", "table", "all"], { signal });
  const routes = JSON.parse(stdout === "" ? "[]" : stdout) as { dst?: string }[];
  return routes
    .map((it) => it.dst ?? "default")
    .filter((dst) => dst !== "default" && !/^(fe80:|ff00:|::1|127\.)/.test(dst))
    .map((dst) => (dst.includes("/") ? dst : `${dst}/${family === "-4" ? 32 : 128}`));
}

/** `TMPFS_MAGIC` in linux/magic.h. */
const TMPFS_MAGIC = 0x0102_1994;

/** Whether files below `folder` are in memory: the upper layer of a container's root must not be inside its lower one. */
export function isTmpfs(folder: string): boolean {
  return statfsSync(folder).type === TMPFS_MAGIC;
}
