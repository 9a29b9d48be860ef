/** Checkouts of other commits, ready to start programs from. */

import { existsSync } from "node:fs";
import { chmod, mkdir, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec } from "@fairlead/base/exec.ts";
import { root } from "../lab/lab.ts";

/** The longest installation of packages and build of programs. Unit: milliseconds. */
const BUILD_MS = 600_000;

export interface Checkout {
  /** The name in the output. */
  readonly name: string;
  readonly folder: string;
}

export const OWN: Checkout = { name: "this", folder: root.replace(/\/$/, "") };

/**
 * Finds or makes the checkout of a commit: its files, the packages of its own lock file, and its bundle. It stays for the next run, in a
 * folder for temporary files that pods of labs can read.
 */
export async function checkOut(commit: string): Promise<Checkout> {
  const { stdout } = await exec("git", ["-C", root, "rev-parse", "--verify", `${commit}^{commit}`]);
  const hash = stdout.trim();
  const folder = join(await ownFolder(), hash);
  const stamp = join(folder, ".ready");
  if (!existsSync(stamp)) {
    console.log(`${commit} is installed and built in ${folder}`);
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { mode: 0o755 });
    const archive = join(folder, "commit.tar");
    await exec("git", ["-C", root, "archive", "--output", archive, hash]);
    await exec("tar", ["-x", "-f", archive, "-C", folder]);
    await rm(archive);
    const npm = ["ci", "--prefix", folder, "--prefer-offline", "--no-audit", "--no-fund"];
    await exec("npm", npm, { cwd: folder, timeoutMs: BUILD_MS });
    // kubectl and what else no lock file names.
    await symlink(join(root, "node_modules/.tools"), join(folder, "node_modules/.tools"));
    await exec(join(folder, "bin/fairlead"), ["--help"], { timeoutMs: BUILD_MS });
    await writeFile(stamp, "");
  }
  return { name: commit.slice(0, 12), folder };
}

/** Refuses a folder that another user has made: programs are run from it. */
async function ownFolder(): Promise<string> {
  const folder = join(tmpdir(), `fairlead-against-${process.getuid?.() ?? 0}`);
  await mkdir(folder, { recursive: true, mode: 0o755 });
  const { uid } = await stat(folder);
  if (uid !== process.getuid?.()) throw new Error(`cannot use ${folder}: it belongs to user ${uid}`);
  await chmod(folder, 0o755);
  return folder;
}
