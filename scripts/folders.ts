/**
 * `npm run test:folders [-- NAME...]`: a sample of the lab tests from copies of this checkout in folders of the kinds that people
 * choose, one of them or all. The copies are removed at the end, also after a failure.
 */
import { copyFileSync, mkdirSync, mkdtempDisposableSync } from "node:fs";
import { dirname, join } from "node:path";
import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import { exec, start } from "@fairlead/base/exec.ts";
import { untilInterrupted } from "@fairlead/fairlead/lab/context.ts";
import { root } from "./steps.ts";

interface Sample {
  /** Where the copy is made: in a folder that only its owner may enter. */
  readonly parent: string;
  /** Path of the copy below that folder. */
  readonly path: string;
  readonly umask: string;
  /** Arguments of vitest. */
  readonly tests: readonly string[];
}

const SAMPLES: Readonly<Record<string, Sample>> = {
  // Each worker has a /tmp of its own.
  tmp: { parent: "/tmp", path: "fairlead", umask: "022", tests: ["test/lab/node-confinement"] },
  // Containers do not show these, and no other user may enter them.
  root: {
    parent: "/root",
    path: "fairlead",
    umask: "077",
    tests: ["test/lab/network-policy", "test/lab/parallel-network", "-t", "deny by default|over UDP"],
  },
  spaces: {
    parent: "/var/tmp",
    path: join("with spaces, é, Ж and 'quotes'", "x".repeat(120)),
    umask: "022",
    tests: ["test/lab/cli-lab", "test/lab/network.test", "test/lab/policy-killed"],
  },
};

/** The files that Git has or would add, as they are now. */
async function copySources(to: string, signal: AbortSignal): Promise<void> {
  const args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"];
  const { stdout } = await exec("git", ["-C", root, ...args], { signal });
  const { stdout: deleted } = await exec("git", ["-C", root, "ls-files", "-z", "--deleted"], { signal });
  const gone = new Set(deleted.split("\0"));
  for (const path of stdout.split("\0").filter((it) => it !== "" && !gone.has(it))) {
    mkdirSync(dirname(join(to, path)), { recursive: true });
    copyFileSync(join(root, path), join(to, path));
  }
}

/** As links where the file system allows that. */
async function copyPackages(to: string, signal: AbortSignal): Promise<void> {
  const copy = (...flags: readonly string[]) =>
    exec("cp", ["--archive", ...flags, join(root, "node_modules"), to], {
      signal,
      timeoutMs: 300_000,
      allowFailure: flags.length > 0,
    });
  if ((await copy("--link")).exitCode !== 0) await copy();
}

async function run(name: string, sample: Sample, signal: AbortSignal): Promise<boolean> {
  using folder = mkdtempDisposableSync(join(sample.parent, "fairlead-folders-"));
  const checkout = join(folder.path, sample.path);
  const startMs = performance.now();
  process.stdout.write(`\n== ${name}: ${checkout}\n`);
  mkdirSync(checkout, { recursive: true });
  await copySources(checkout, signal);
  await copyPackages(checkout, signal);
  const script = `umask ${sample.umask} && exec npm run test:lab -- "$@"`;
  const child = start("/bin/sh", ["-c", script, "sh", ...sample.tests], { cwd: checkout, stdio: "inherit" });
  signal.addEventListener("abort", () => child.kill("SIGTERM"));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", resolve);
  });
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
  process.stdout.write(`== ${name}: ${code === 0 ? "ok" : "FAILED"} (${seconds} s)\n`);
  return code === 0;
}

async function main(names: readonly string[]): Promise<void> {
  const signal = untilInterrupted();
  for (const name of names.length > 0 ? names : Object.keys(SAMPLES)) {
    const sample = SAMPLES[name];
    if (sample === undefined)
      throw new FleetError(
        "OPTION_INVALID",
        `the folders are ${Object.keys(SAMPLES).join(", ")}; got ${name}`,
      );
    if (!(await run(name, sample, signal))) process.exitCode = 1;
    signal.throwIfAborted();
  }
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`fairlead: ${messageOf(error)}\n`);
  process.exitCode ??= 1;
}
