import { mkdirSync, readFileSync, rmdirSync } from "node:fs";
import { dirname } from "node:path";
import { exec } from "@fairlead/base/exec.ts";

/** Volumes on a file system in memory, one for each volume, which bounds their size. */

/** Makes the folder with the file system on it, whole or not at all. */
export async function mountMemory(
  folder: string,
  { sizeBytes }: { readonly sizeBytes: number | undefined },
  signal: AbortSignal,
): Promise<void> {
  mkdirSync(dirname(folder), { recursive: true });
  mkdirSync(folder);
  const size = sizeBytes === undefined ? "" : `,size=${Math.ceil(sizeBytes)}`;
  try {
    await exec("mount", ["-t", "tmpfs", "-o", `mode=0777,nosuid,nodev${size}`, "fairlead-volume", folder], {
      signal,
    });
  } catch (error) {
    rmdirSync(folder);
    throw error;
  }
}

/** Unmounts the file systems below a folder. */
export async function unmountMemory(volumes: string, signal: AbortSignal): Promise<void> {
  const points = readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .flatMap((line) => line.split(" ")[4] ?? [])
    .filter((point) => point.startsWith(`${volumes}/`));
  if (points.length > 0) await exec("umount", ["--lazy", ...points], { signal });
}
