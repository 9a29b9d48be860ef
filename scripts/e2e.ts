/**
 * `npm run test:e2e`: installs a fleet as docs/install.md says, tries what it promises, and takes all of it away; on a lab of
 * its own, or on any clusters.
 *
 *   npm run test:e2e [-- --hub-context HUB --member-contexts A,B[,…]] [--image IMAGE] [--keep]
 *                    [--hub-down COMMAND --hub-up COMMAND] [--only TEXT] [--helm-timeout SECONDS]
 *                    [--network flat [--agents [--has-agents]] | --network parallel [--relay-address A,…] [--has-agents]]
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { messageOf } from "@fairlead/base/errors.ts";
import { exec } from "@fairlead/base/exec.ts";
import { findProgram } from "@fairlead/base/find-program.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { findKubectl, searchPath } from "@fairlead/base/program/kubectl.ts";
import { untilInterrupted } from "@fairlead/fairlead/lab/context.ts";
import { inOwnNamespace } from "@fairlead/fairlead/lab/user-namespace.ts";
import { type Settings, SETTINGS_VARIABLE } from "../test/e2e/settings.ts";
import { root } from "./steps.ts";

const { values: flags } = parseArgs({
  options: {
    /** Contexts of the kubeconfig that KUBECONFIG names. Without them a lab is brought up. */
    "hub-context": { type: "string" },
    "member-contexts": { type: "string" },
    /** Fairlead's, as the clusters' nodes find it. */
    image: { type: "string", default: `fairlead.dev/fairlead:${VERSION}` },
    /** "flat" or "parallel". */
    network: { type: "string", default: "flat" },
    /** In a flat network: the members share a profile, and agents on their nodes enforce policies. */
    agents: { type: "boolean", default: false },
    /** Only cases whose names match. */
    only: { type: "string" },
    /** How members reach the relay. Default: the addresses of the hub's first node. */
    "relay-address": { type: "string", default: "" },
    /** Relay and node agents run already. */
    "has-agents": { type: "boolean", default: false },
    /** Shell commands that take the hub's API server away and bring it back. */
    "hub-down": { type: "string" },
    "hub-up": { type: "string" },
    /** How long Helm waits for an installation. Unit: seconds. */
    "helm-timeout": { type: "string", default: "240" },
    /** Leaves the fleet installed, and the lab up. */
    keep: { type: "boolean", default: false },
  },
});

const LAB = "e2e";
/** The hub's cluster is a member of its own fleet, too. */
const MEMBERS = ["member-1", "member-2", "hub"];
const fairlead = join(root, "bin", "fairlead");
const tools = join(root, "node_modules", ".tools");

const IS_PARALLEL = flags.network === "parallel";

/** Of the programs in a lab, nodes run the agents themselves. */
function networkSettings(hasAgents: boolean): Pick<Settings, "mesh"> {
  const relayAddresses = flags["relay-address"].split(",").filter((it) => it !== "");
  if (!IS_PARALLEL && !flags.agents) return {};
  return { mesh: { mode: IS_PARALLEL ? "parallel" : "flat", hasAgents, relayAddresses } };
}

function programs(): Pick<Settings, "kubectl" | "helm" | "fairlead" | "helmTimeoutSeconds"> {
  const helmTimeoutSeconds = parseWhole("--helm-timeout", flags["helm-timeout"], { min: 30, max: 3600 });
  const helm = findProgram("helm", `${tools}:${searchPath()}`);
  if (helm === undefined) throw new Error("cannot find helm on the PATH; install it");
  return { kubectl: findKubectl(tools), helm, fairlead, helmTimeoutSeconds };
}

async function main(): Promise<void> {
  if (!IS_PARALLEL && flags.network !== "flat")
    throw new Error(`--network is flat or parallel, not ${flags.network}`);
  const { "hub-context": hub, "member-contexts": contexts, image, keep } = flags;
  if (hub === undefined && contexts === undefined) return onLab();
  const members = (contexts ?? "").split(",").filter((it) => it !== "");
  if (hub === undefined || members.length < 2)
    throw new Error("pass both --hub-context HUB and --member-contexts A,B: a hub and at least two members");
  if ((flags["hub-down"] === undefined) !== (flags["hub-up"] === undefined))
    throw new Error("pass both --hub-down and --hub-up, or neither");
  run({
    kubeconfig: process.env["KUBECONFIG"] ?? `${process.env["HOME"] ?? ""}/.kube/config`,
    hub,
    members,
    image,
    hubDown: flags["hub-down"],
    hubUp: flags["hub-up"],
    keep,
    ...networkSettings(flags["has-agents"]),
    ...programs(),
  });
}

async function onLab(): Promise<void> {
  if (await inOwnNamespace("start it")) return;
  const signal = untilInterrupted();
  const { image, keep } = flags;
  const network = IS_PARALLEL ? ["--topology", "nat"] : flags.agents ? ["--network-policy"] : [];
  const shape = ["--bare", "--members", "2", "--nodes", "2", ...network];
  const lab = (verb: string, ...args: readonly string[]): string =>
    `${fairlead} lab ${[verb, "--name", LAB, ...args].join(" ")}`;
  try {
    process.stdout.write(await cli(["lab", "up", "--name", LAB, ...shape], signal));
    const kubeconfig = (await cli(["lab", "kubeconfig", "--name", LAB], signal)).trimEnd();
    run({
      kubeconfig,
      hub: "hub",
      // The hub's nodes have no agents.
      members: IS_PARALLEL || flags.agents ? MEMBERS.slice(0, 2) : MEMBERS,
      image,
      hubDown: lab("kill", "hub/apiserver"),
      hubUp: lab("restore", "hub/apiserver"),
      keep,
      ...networkSettings(true),
      ...programs(),
    });
  } finally {
    // Also after Ctrl-C, whose signal is spent.
    if (!keep) process.stdout.write(await cli(["lab", "down", "--name", LAB], AbortSignal.timeout(60_000)));
  }
}

async function cli(args: readonly string[], signal: AbortSignal): Promise<string> {
  return (await exec(fairlead, args, { signal, timeoutMs: 180_000 })).stdout;
}

function run(settings: Settings): void {
  const vitest = join(root, "node_modules", ".bin", "vitest");
  const only = flags.only === undefined ? [] : ["-t", flags.only];
  const result = spawnSync(vitest, ["run", "--project", "e2e", "--reporter", "verbose", ...only], {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, [SETTINGS_VARIABLE]: JSON.stringify(settings) },
  });
  process.exitCode = result.status ?? 1;
}

try {
  await main();
} catch (error) {
  process.stderr.write(`\nThe run failed: ${messageOf(error)}\n`);
  process.exitCode = process.exitCode === 130 ? 130 : 1;
}
