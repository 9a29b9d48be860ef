import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  realpathSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join, relative } from "node:path";
import { messageOf } from "@fairlead/base/errors.ts";
import { exec } from "@fairlead/base/exec.ts";
import type { BindMount, SubPath } from "../container/root.ts";
import { ConfigError } from "./environment.ts";

/**
 * Parts of volumes that containers mount by `subPath`. Programs of the pod can change the volume at any moment, so nothing
 * is looked up twice: what was checked is opened without following links, and mounted by its descriptor
 * (CVE-2017-1002101, CVE-2021-25741).
 */

/** fcntl.h. The descriptor refers to a path and permits neither reading nor writing. */
const O_PATH = 0o10_000_000;

/** Mounts by which parts of volumes are held while a container is started. */
export interface PinnedSubPaths extends AsyncDisposable {
  /** The binds, each with its own source. */
  readonly binds: readonly BindMount[];
}

/**
 * Mounts what binds with a `subPath` name below `volumes`. Dispose of it once the container has its own mounts.
 *
 * @throws {ConfigError} when one cannot be found, made or mounted.
 */
export async function pinSubPaths(
  binds: readonly BindMount[],
  { volumes, container }: { readonly volumes: string; readonly container: string },
): Promise<PinnedSubPaths> {
  await using stack = new AsyncDisposableStack();
  const pinned: BindMount[] = [];
  for (const bind of binds) {
    const { subPath, ...whole } = bind;
    if (subPath === undefined) {
      pinned.push(bind);
      continue;
    }
    try {
      pinned.push({ ...whole, ...(await pin(bind.source, subPath, { volumes, stack })) });
    } catch (error) {
      throw new ConfigError(
        `failed to prepare subPath for volumeMount at ${JSON.stringify(bind.target)} of container ${JSON.stringify(container)}: ${messageOf(error)}`,
      );
    }
  }
  const held = stack.move();
  return { binds: pinned, [Symbol.asyncDispose]: () => held.disposeAsync() };
}

async function pin(
  folder: string,
  subPath: SubPath,
  { volumes, stack }: { readonly volumes: string; readonly stack: AsyncDisposableStack },
): Promise<{ readonly source: string; readonly isFile: boolean }> {
  const fd = openSubPath(folder, subPath);
  try {
    const isFile = !fstatSync(fd).isDirectory();
    // No volume has such a name. What a kubelet leaves here that is killed goes with the pod's volumes.
    const place = mkdtempSync(join(volumes, ".sub-path-"));
    stack.defer(() => rmdirSync(place));
    const source = join(place, "it");
    if (isFile) writeFileSync(source, "");
    else mkdirSync(source);
    // Never with all that is in it: that is the pod's.
    stack.defer(() => (isFile ? rmSync(source) : rmdirSync(source)));
    await exec("mount", ["--no-canonicalize", "--bind", `/proc/${process.pid}/fd/${fd}`, source]);
    stack.defer(async () => void (await exec("umount", ["--lazy", "--no-canonicalize", source])));
    return { source, isFile };
  } finally {
    closeSync(fd);
  }
}

/**
 * Opens the file or folder that `subPath` names in a volume. Links inside the volume are followed; what is missing is made
 * as a folder where that is allowed.
 *
 * @returns A descriptor, which is the caller's to close.
 */
export function openSubPath(folder: string, { path, canCreate }: SubPath): number {
  const shown = `subPath ${JSON.stringify(path)}`;
  const names = path.split("/").filter((it) => it !== "" && it !== ".");
  if (path.startsWith("/") || names.includes(".."))
    throw new ConfigError(`${shown} must be relative and without ".."`);
  let count = names.length;
  while (count > 0 && !isEntry(join(folder, ...names.slice(0, count)))) count--;
  const missing = names.slice(count);
  if (missing.length > 0 && !canCreate) throw new ConfigError(`${shown} is not in the volume`);
  const present = join(folder, ...names.slice(0, count));
  if (!existsSync(present)) throw new ConfigError(`${shown} is a link to a path that does not exist`);
  const inside = relative(realpathSync(folder), realpathSync(present));
  if (inside === ".." || inside.startsWith("../")) throw new ConfigError(`${shown} leads out of the volume`);
  return openBeneath(folder, inside.split("/").filter(Boolean), missing);
}

function isEntry(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

function openBeneath(folder: string, present: readonly string[], missing: readonly string[]): number {
  let fd = openSync(folder, O_PATH | constants.O_DIRECTORY);
  for (const [at, name] of [...present, ...missing].entries()) {
    const parent = fd;
    try {
      const path = `/proc/self/fd/${parent}/${name}`;
      if (at >= present.length) mkdirSync(path);
      fd = openSync(path, O_PATH | constants.O_NOFOLLOW);
    } finally {
      closeSync(parent);
    }
    if (!fstatSync(fd).isSymbolicLink()) continue;
    closeSync(fd);
    throw new ConfigError(`${JSON.stringify(name)} was replaced by a link during the check`);
  }
  return fd;
}
