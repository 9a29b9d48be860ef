/** Removes what prevents a repair: processes in a namespace that lost its name. */

import { stat } from "node:fs/promises";
import type { Clock } from "@fairlead/base/clock.ts";
import { isNetns, listNetns, netnsInode } from "@fairlead/os/netns/netns.ts";
import { pidsByNetns } from "@fairlead/os/netns/processes.ts";
import type { LabLayout } from "./layout.ts";
import { endProcesses, findLabProcesses, runningPid } from "./processes.ts";
import { nodeNetns } from "./places.ts";
import { planPrograms } from "./programs.ts";
import type { LabTopology } from "./topology.ts";

/**
 * Ends the lab's processes whose namespace has no name any more: the repair creates another namespace of that name, in which nothing
 * reaches them. With a node's namespace its pods lost their links, so they end as if the node had.
 */
export async function endStrays(
  topology: LabTopology,
  layout: LabLayout,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const strayed = new Set<number>();
  for (const program of planPrograms(topology, layout)) {
    if (program.netns === undefined) continue;
    const pid = runningPid(layout, program.name);
    const inode = pid === undefined ? undefined : await inodeOf(`/proc/${pid}/ns/net`);
    if (inode !== undefined && inode !== (await namedInode(layout, program.netns))) strayed.add(inode);
  }
  const pods: string[] = [];
  for (const node of topology.clusters.flatMap((it) => it.nodes)) {
    const isLost = (await namedInode(layout, nodeNetns(node))) === undefined;
    if (isLost) pods.push(...(await listNetns(layout.node(node.name))));
  }
  const pids = [...(await pidsByNetns(pods)).values()].flat();
  if (strayed.size > 0) {
    for (const pid of findLabProcesses(layout.root)) {
      const inode = await inodeOf(`/proc/${pid}/ns/net`);
      if (inode !== undefined && strayed.has(inode)) pids.push(pid);
    }
  }
  await endProcesses(pids, 0, clock, signal);
}

async function namedInode(layout: LabLayout, name: string): Promise<number | undefined> {
  const path = layout.netnsOf(name);
  return (await isNetns(path)) ? await netnsInode(path) : undefined;
}

async function inodeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).ino;
  } catch {
    return undefined;
  }
}
