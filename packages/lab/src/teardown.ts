/** Removes a lab in any state: works from what exists on the machine, not from a record. */

import { existsSync, readdirSync, readFileSync, rmdirSync, rmSync } from "node:fs";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { exec } from "@fairlead/base/exec.ts";
import { listNetns } from "@fairlead/os/netns/netns.ts";
import { pidsByNetns } from "@fairlead/os/netns/processes.ts";
import type { LabLayout } from "./layout.ts";
import { endProcesses, findLabProcesses } from "./processes.ts";

/** The number of processes, namespaces and so on that `removeLab` removed. */
export interface Removed {
  readonly processes: number;
  readonly namespaces: number;
  readonly mounts: number;
}

/**
 * Ends every process of the lab, unmounts everything below its folder, deletes its link to the machine and its folder.
 * Doing it again, or for a lab that is half there, is fine.
 */
export async function removeLab(
  layout: LabLayout,
  options: { readonly hostLink: string; readonly clock: Clock },
  signal: AbortSignal,
): Promise<Removed> {
  const namespaces = new Set<string>();
  const processes = await endLabProcesses(layout, namespaces, options.clock, signal);
  if (isLinkOf(options.hostLink, layout.root)) await deleteHostLink(options.hostLink, options.clock, signal);
  const mounts = await unmountBelow(layout.root, signal);
  rmSync(layout.root, { recursive: true, force: true });
  return { processes, namespaces: namespaces.size, mounts };
}

/**
 * A process may start another, and make or delete a namespace, while it is looked for: looks again until a look finds none.
 *
 * @param seen - Takes the namespaces that were found.
 */
async function endLabProcesses(
  layout: LabLayout,
  seen: Set<string>,
  clock: Clock,
  signal: AbortSignal,
): Promise<number> {
  const ended = new Set<number>();
  for (;;) {
    const namespaces = await listNetns(layout.root);
    for (const it of namespaces) seen.add(it);
    const inside = [...(await pidsByNetns(namespaces)).values()].flat();
    const pids = [...new Set([...findLabProcesses(layout.root), ...inside])].filter(
      (pid) => pid !== process.pid,
    );
    if (pids.length === 0) return ended.size;
    for (const pid of pids) ended.add(pid);
    await endProcesses(pids, 0, clock, signal);
  }
}

/** Whether the machine has the link and nothing says that it belongs to a lab in another folder. */
function isLinkOf(link: string, root: string): boolean {
  const folder = `/sys/class/net/${link}`;
  if (!existsSync(folder)) return false;
  const alias = readFileSync(`${folder}/ifalias`, "utf8").trim();
  return alias === "" || alias === root;
}

/** Its other end goes with it. */
async function deleteHostLink(link: string, clock: Clock, signal: AbortSignal): Promise<void> {
  await exec("ip", ["link", "delete", "dev", link], { signal, allowFailure: true });
  // Gone for new commands at once, but the name is free only when the kernel has finished with it.
  while (existsSync(`/sys/class/net/${link}`)) await delay(clock, 2, signal);
}

/** Unmounts what is mounted below the folder of a node: namespaces, and volumes in memory with what they hold. */
export async function unmountNode(root: string, signal: AbortSignal): Promise<void> {
  const points = mountPointsBelow(root);
  await unmountBelow(root, signal);
  for (const it of points) rmSync(it, { recursive: true, force: true });
}

export async function unmountBelow(root: string, signal: AbortSignal): Promise<number> {
  let count = 0;
  for (let points = mountPointsBelow(root); points.length > 0; points = mountPointsBelow(root)) {
    // Unmount in reverse order: a mount on top of another one must go first.
    await exec("umount", ["--lazy", "--no-canonicalize", "--", ...points.toReversed()], {
      signal,
      allowFailure: true,
    });
    const left = mountPointsBelow(root).length;
    count += points.length - left;
    if (left === points.length) break;
  }
  return count;
}

/** Mount points at or below `root`, in the order of mounting. */
function mountPointsBelow(root: string): readonly string[] {
  return readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .map((line) =>
      (line.split(" ")[4] ?? "").replaceAll(/\\([0-7]{3})/g, (_, octal: string) =>
        String.fromCodePoint(Number.parseInt(octal, 8)),
      ),
    )
    .filter((point) => point === root || point.startsWith(`${root}/`));
}

export function removeIfEmpty(folder: string): void {
  if (existsSync(folder) && readdirSync(folder).length === 0) rmdirSync(folder);
}
