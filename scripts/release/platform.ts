import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { exec } from "@fairlead/base/exec.ts";
import { root } from "../steps.ts";

export const ARCHITECTURES = ["x64", "arm64"] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

interface Locked {
  readonly version: string;
  readonly integrity?: string;
}

/**
 * The folder of an npm package that is for one architecture. npm installs those of this machine's architecture only: others are fetched from the
 * registry into `folder`, and compared with package-lock.json.
 */
export async function platformPackage(name: string, folder: string): Promise<string> {
  const installed = join(root, "node_modules", name);
  if (existsSync(installed)) return installed;
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    readonly packages: Readonly<Record<string, Locked>>;
  };
  const locked = lock.packages[`node_modules/${name}`];
  if (locked?.integrity === undefined)
    throw new Error(`cannot fetch ${name}: package-lock.json has no digest of it`);
  const unpacked = join(folder, name);
  mkdirSync(unpacked, { recursive: true });
  const { stdout } = await exec("npm", ["pack", `${name}@${locked.version}`, "--json", "--silent"], {
    cwd: folder,
    timeoutMs: 600_000,
  });
  const [{ filename = "" } = {}] = JSON.parse(stdout) as { filename?: string }[];
  const archive = join(folder, filename);
  const digest = `sha512-${createHash("sha512").update(readFileSync(archive)).digest("base64")}`;
  if (digest !== locked.integrity)
    throw new Error(
      `cannot use ${name}: its digest is ${digest}, and package-lock.json has ${locked.integrity}`,
    );
  await exec("tar", ["-C", unpacked, "--strip-components=1", "-xzf", archive]);
  return unpacked;
}
