/**
 * `npm run test:conformance`: the unmodified conformance suite of the Multi-Cluster Services API against its own lab,
 * three clusters. Ends with code 0 only if every spec passed.
 *
 *   npm run test:conformance [-- --ip-family ipv4] [--suite v0.5.2|latest] [--focus WORDS] [--keep] [--if-available]
 */
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { messageOf } from "@fairlead/base/errors.ts";
import { exec, start } from "@fairlead/base/exec.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { untilInterrupted } from "@fairlead/fairlead/lab/context.ts";
import { inOwnNamespace } from "@fairlead/fairlead/lab/user-namespace.ts";
import { findSuite, PINNED, variableOf } from "./conformance/suite.ts";
import { isConformant, readVerdicts, renderVerdicts } from "./conformance/verdicts.ts";
import { root } from "./steps.ts";

const CONTEXTS = ["member-1", "member-2", "member-3"];

const { values: flags } = parseArgs({
  options: {
    /** "dual" or "ipv4". */
    "ip-family": { type: "string", default: "dual" },
    suite: { type: "string", default: PINNED },
    /** Only specs whose text matches; for work on one of them. */
    focus: { type: "string" },
    /** Leaves the lab up. */
    keep: { type: "boolean", default: false },
    /** If the suite is not available, reports it and ends with 0. */
    "if-available": { type: "boolean", default: false },
  },
});

/** A lab's name has at most 12 characters. */
const lab = flags["ip-family"] === "dual" ? "mcs-dual" : `mcs-${flags["ip-family"]}`;

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function main(): Promise<void> {
  const signal = untilInterrupted();
  const suite = await findSuite({
    version: flags.suite,
    environment: process.env,
    cache: `${root}node_modules/.cache`,
    signal,
  });
  if (suite.kind === "missing") {
    say(`The conformance suite ${flags.suite} was NOT run: ${suite.why}.`);
    process.exitCode = flags["if-available"] ? 0 : 1;
    return;
  }
  // Inside, where no way leads to the module proxy, the suite is found by its name.
  const variable = variableOf(flags.suite);
  if (variable !== undefined) process.env[variable] = suite.path;
  if (await inOwnNamespace("start it")) return;
  const reports = join(root, "reports", `mcs-${suite.version}-${flags["ip-family"]}`);
  rmSync(reports, { recursive: true, force: true });
  mkdirSync(reports, { recursive: true });
  const shape = ["--members", String(CONTEXTS.length), "--nodes", "1", "--ip-family", flags["ip-family"]];
  try {
    say(await fairlead(["lab", "up", "--name", lab, ...shape], signal));
    const kubeconfig = await fairlead(["lab", "kubeconfig", "--name", lab], signal);
    say(
      `The conformance suite ${suite.version} runs in ${CONTEXTS.join(", ")} (${flags["ip-family"]}); a sign for each spec:`,
    );
    const code = await runSuite(suite.path, { kubeconfig, reports, signal });
    const verdicts = readVerdicts(readFileSync(join(reports, "report.yaml"), "utf8"));
    const wanted = flags.focus === undefined ? verdicts : verdicts.filter((it) => it.verdict !== "Skipped");
    say(renderVerdicts(wanted));
    say(join(reports, "report.html"));
    if (code !== 0 || !isConformant(wanted)) process.exitCode = 1;
  } finally {
    if (!flags.keep) await takeDown();
  }
}

/** Also after Ctrl-C, whose signal is spent; an earlier failure takes precedence. */
async function takeDown(): Promise<void> {
  try {
    say(await fairlead(["lab", "down", "--name", lab], AbortSignal.timeout(60_000)));
  } catch (error) {
    process.stderr.write(`cannot remove lab ${lab}: ${messageOf(error)}\n`);
    process.exitCode = 1;
  }
}

/** Runs the CLI and returns what it prints. */
async function fairlead(args: readonly string[], signal: AbortSignal): Promise<string> {
  return (await exec(`${root}bin/fairlead`, args, { signal, timeoutMs: 180_000 })).stdout.trimEnd();
}

interface Run {
  readonly kubeconfig: string;
  /** Where the suite leaves its reports. */
  readonly reports: string;
  readonly signal: AbortSignal;
}

/** The suite's output goes where ours goes. @returns its exit code. */
function runSuite(path: string, { kubeconfig, reports, signal }: Run): Promise<number> {
  const args = [
    `-kubeconfig=${kubeconfig}`,
    `-contexts=${CONTEXTS.join(",")}`,
    "-project=Fairlead",
    `-version=${VERSION}`,
    "-ginkgo.succinct",
    ...(process.stdout.isTTY ? [] : ["-ginkgo.no-color"]),
    ...(flags.focus === undefined ? [] : [`-ginkgo.focus=${flags.focus}`]),
  ];
  const child = start(path, args, { cwd: reports, stdio: ["ignore", "inherit", "inherit"] });
  const stop = (): void => void child.kill("SIGTERM");
  signal.addEventListener("abort", stop, { once: true });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      signal.removeEventListener("abort", stop);
      resolve(code ?? 1);
    });
  });
}

try {
  await main();
} catch (error) {
  process.stderr.write(`\nThe conformance run failed: ${messageOf(error)}\n`);
  process.exitCode = process.exitCode === 130 ? 130 : 1;
}
