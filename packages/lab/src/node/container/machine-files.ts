import { lstatSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { type KernelFiles, kernelFiles, systemMounts } from "./root.ts";

/** What of the machine's files containers get otherwise than they are. */
export interface MachineFiles {
  /** Folders that are mounted over the machine's root. */
  readonly system: readonly string[];
  /** What in /etc only root may read. Empty where we are not root and cannot read it either. */
  readonly rootOnly: readonly string[];
  readonly kernel: KernelFiles;
  /** Whether the machine's folders belong to this program's user: an overlay in a user namespace cannot change folders of a user that it does not map. */
  readonly ownsFolders: boolean;
}

export function readMachineFiles(): MachineFiles {
  return {
    system: systemMounts(readFileSync("/proc/self/mountinfo", "utf8")).filter((it) =>
      statSync(it).isDirectory(),
    ),
    rootOnly: rootOnlyBelow("/etc"),
    kernel: kernelFiles(kindOf),
    ownsFolders: statSync("/usr/bin").uid === process.getuid?.(),
  };
}

/** Files and folders below a folder that only their owner and group can read. */
function rootOnlyBelow(folder: string): readonly string[] {
  try {
    return readdirSync(folder).flatMap((name) => {
      const path = join(folder, name);
      const stat = lstatSync(path, { throwIfNoEntry: false });
      if (stat === undefined || stat.isSymbolicLink()) return [];
      if (!stat.isDirectory()) return (stat.mode & 0o004) === 0 ? [path] : [];
      return (stat.mode & 0o005) === 0o005 ? rootOnlyBelow(path) : [path];
    });
  } catch {
    // Containers cannot read it either.
    return [];
  }
}

function kindOf(path: string): "file" | "folder" | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return undefined;
  return stat.isDirectory() ? "folder" : "file";
}
