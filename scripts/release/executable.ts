import { createHash } from "node:crypto";
import { chmodSync, copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exec } from "@fairlead/base/exec.ts";
import { pinnedNode } from "../image/content.ts";
import { root } from "../steps.ts";
import { type Architecture, platformPackage } from "./platform.ts";

/** Marks the place in Node at which it sees whether it is a single executable (Node's documentation, "Single executable applications"). */
const FUSE = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";

/** How Node runs the programs of a single executable, as bin/fairlead and the lab start them elsewhere. */
const OPTIONS = [
  "--min-semi-space-size=4",
  "--max-semi-space-size=32",
  "--disable-warning=ExperimentalWarning",
];

export interface ExecutableOptions {
  readonly architecture: Architecture;
  /** Where `fairlead.cjs` is, and where other files are put on the way. */
  readonly work: string;
  readonly output: string;
}

/** Makes a Node that runs Fairlead and nothing else. */
export async function buildExecutable(options: ExecutableOptions): Promise<void> {
  const { architecture, work, output } = options;
  const node = await platformPackage(`node-linux-${architecture}`, work);
  const blob = await prepareBlob(options);
  copyFileSync(join(node, "bin", "node"), output);
  chmodSync(output, 0o755);
  const inject = join(root, "node_modules", "postject", "dist", "cli.js");
  const args = [inject, output, "NODE_SEA_BLOB", blob, "--sentinel-fuse", FUSE];
  await exec(process.execPath, args, { timeoutMs: 300_000 });
}

/** Makes the file that is put into Node. The code in it is compiled ahead for this machine's architecture only. */
export async function prepareBlob({
  architecture,
  work,
}: Pick<ExecutableOptions, "architecture" | "work">): Promise<string> {
  const koffi = await platformPackage(`@koromix/koffi-linux-${architecture}`, work);
  const native = readFileSync(join(koffi, `linux_${architecture}`, "koffi.node"));
  const at = (name: string): string => join(work, name);
  writeFileSync(at("koffi.node"), native);
  writeFileSync(at("koffi.node.sha256"), createHash("sha256").update(native).digest("hex"));
  const blob = `${architecture}.blob`;
  const config = {
    // Paths are relative: they get into what is made.
    main: "fairlead.cjs",
    output: blob,
    disableExperimentalSEAWarning: true,
    useCodeCache: architecture === process.arch,
    execArgv: OPTIONS,
    assets: { "koffi.node": "koffi.node", "koffi.node.sha256": "koffi.node.sha256" },
  };
  writeFileSync(at("executable.json"), JSON.stringify(config));
  // Compiled code has numbers by chance in it; with one seed they are the same each time.
  await exec(pinnedNode(), ["--random-seed=1", "--experimental-sea-config", "executable.json"], {
    cwd: work,
  });
  return at(blob);
}
