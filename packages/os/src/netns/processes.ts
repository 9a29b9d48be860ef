import { readdir } from "node:fs/promises";
import { netnsInode } from "./netns.ts";

/**
 * Ids of the processes in each of the network namespaces, found in one walk through `/proc`. A snapshot: one may have
 * ended, another begun, by the time the caller looks. A namespace that is absent has none.
 */
export async function pidsByNetns(paths: readonly string[]): Promise<ReadonlyMap<string, readonly number[]>> {
  const pathOf = new Map<number, string>();
  const pids = new Map<string, number[]>();
  for (const path of paths) {
    const inode = await netnsInode(path);
    if (inode !== undefined) pathOf.set(inode, path);
    pids.set(path, []);
  }
  const entries = await readdir("/proc");
  await Promise.all(
    entries.map(async (entry) => {
      const pid = Number(entry);
      if (!Number.isInteger(pid)) return;
      const inode = await inodeOfProcess(pid);
      const path = inode === undefined ? undefined : pathOf.get(inode);
      if (path !== undefined) pids.get(path)?.push(pid);
    }),
  );
  for (const list of pids.values()) list.sort((a, b) => a - b); // oxlint-disable-line unicorn/no-array-sort -- the list is our own
  return pids;
}

async function inodeOfProcess(pid: number): Promise<number | undefined> {
  try {
    return await netnsInode(`/proc/${pid}/ns/net`);
  } catch {
    // It has ended since, or belongs to another user; either way this process did not start it there.
    return undefined;
  }
}
