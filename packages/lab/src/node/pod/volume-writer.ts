import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative } from "node:path";
import type { VolumeFile, VolumePlan } from "./volumes.ts";

/**
 * Brings a volume's folder to what its plan says. All its files change at once, as upstream's AtomicWriter does it:
 * `FILE` links to `..data/FILE`, and `..data` to the folder that holds the present files.
 *
 * @param group - The pod's `fsGroup`: what is in the volume belongs to it, and it may read what the owner may.
 * @returns Whether anything was written.
 */
export function writeVolume(folder: string, plan: VolumePlan, group?: number): boolean {
  const isNew = !existsSync(folder);
  mkdirSync(folder, { recursive: true });
  if (plan.kind === "empty") {
    if (isNew) ownFolder(folder, 0o777, group);
    return isNew;
  }
  const data = join(folder, "..data");
  const files = new Map([...plan.files].map(([path, file]) => [path, forGroup(file, group)]));
  if (existsSync(data) && sameFiles(data, files)) return false;
  const before = existsSync(data) ? readlinkSync(data) : undefined;
  const fresh = mkdtempSync(join(folder, "..files-"));
  ownFolder(fresh, 0o755, group);
  for (const [path, file] of files) writeFile(join(fresh, path), file, group);
  rmSync(`${data}-new`, { force: true });
  symlinkSync(relative(folder, fresh), `${data}-new`);
  renameSync(`${data}-new`, data);
  linkNames(folder, plan.files);
  if (before !== undefined) rmSync(join(folder, before), { recursive: true, force: true });
  return true;
}

/** The mode bits that fsGroup adds to an entry. Source: pkg/volume, SetVolumeOwnership. */
const GROUP = { readFile: 0o440, setGid: 0o2000, useFolder: 0o070 } as const;

function forGroup(file: VolumeFile, group: number | undefined): VolumeFile {
  return group === undefined ? file : { ...file, mode: file.mode | GROUP.readFile };
}

function ownFolder(path: string, mode: number, group: number | undefined): void {
  if (group !== undefined) chownSync(path, 0, group);
  // Last: chown clears these bits.
  chmodSync(path, group === undefined ? mode : mode | GROUP.setGid | GROUP.useFolder);
}

function writeFile(path: string, { content, mode, uid }: VolumeFile, group: number | undefined): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  if (uid !== undefined || group !== undefined) chownSync(path, uid ?? 0, group ?? 0);
  // Separate from the write: the process's umask must not clear bits.
  chmodSync(path, mode);
}

function linkNames(folder: string, files: ReadonlyMap<string, VolumeFile>): void {
  const names = new Set([...files.keys()].map((path) => path.split("/")[0] ?? path));
  const present = new Set(readdirSync(folder).filter((it) => !it.startsWith("..")));
  for (const name of names) if (!present.has(name)) symlinkSync(join("..data", name), join(folder, name));
  for (const name of present) if (!names.has(name)) rmSync(join(folder, name));
}

function sameFiles(data: string, files: ReadonlyMap<string, VolumeFile>): boolean {
  const present = readdirSync(data, { recursive: true, withFileTypes: true }).filter((it) => it.isFile());
  if (present.length !== files.size) return false;
  return [...files].every(([path, { content, mode }]) => {
    const full = join(data, path);
    return existsSync(full) && (statSync(full).mode & 0o777) === mode && readFileSync(full).equals(content);
  });
}
