/** Boots a node of a lab as a machine boots: what the kernel held is gone, what is on disk stays. */

import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemDeps } from "@fairlead/base/deps.ts";
import { exec } from "@fairlead/base/exec.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { deleteDevice } from "@fairlead/os/iproute/driver.ts";
import { deleteNetns, inNetns, listNetns } from "@fairlead/os/netns/netns.ts";
import { pidsByNetns } from "@fairlead/os/netns/processes.ts";
import { linksOf } from "#link/plan.ts";
import { buildNode } from "./build.ts";
import { drainNode, uncordonDrained } from "./drain-node.ts";
import { killNode, type Lab } from "./faults.ts";
import { BOOT_ID } from "#node/registration/machine-facts.ts";
import { nodeNetns, siteNetns } from "./places.ts";
import { endProcesses, forgetProcess, runningPid } from "./processes.ts";
import { bootRulesOf, type LabProgram, planPrograms, wireName } from "./programs.ts";
import { writeState } from "./state.ts";
import { resolveTarget, type Target } from "./targets.ts";
import { unmountNode } from "./teardown.ts";
import { connectCluster, type Report, startMissing } from "./up.ts";

export interface RebootOptions {
  readonly node: string;
  /** Processes are not asked to end. */
  readonly isPowerCut: boolean;
  /** Pods leave the node before, as disruption budgets allow, and may come again after it. */
  readonly drains: boolean;
  /** The rules that programs of the node keep for its boot are loaded before its kubelet starts. */
  readonly loadsRules: boolean;
}

/** The time in which a program ends by itself. Unit: milliseconds. */
const GRACE_MS = 10_000;
/** The same for a container: the kubelet is gone by then. Unit: milliseconds. */
const CONTAINER_GRACE_MS = 2000;
/** Unit: milliseconds. */
const DRAIN_MS = 600_000;

/**
 * Ends all that runs on a node, recreates its network, and starts it. One that was killed is started.
 *
 * @throws {FleetError} `LAB_NOT_FOUND` if there is no such node.
 */
export async function reboot(
  lab: Lab,
  options: RebootOptions,
  report: Report,
  signal: AbortSignal,
): Promise<void> {
  const { state, layout, context } = lab;
  const target = nodeOf(lab, options.node);
  const { cluster, node } = target;
  await using client = options.drains ? await connectCluster(cluster, layout, context.log) : undefined;
  if (client !== undefined) {
    report(`${node.name} is drained`);
    await drainNode(client, node.name, { timeoutMs: DRAIN_MS, deps: systemDeps(context.log), signal });
  }
  report(`${node.name} goes down`);
  const programs = planPrograms(state.topology, layout).filter((it) => isOf(it, target, lab));
  if (!options.isPowerCut) await shutDown(lab, target, programs, signal);
  await killNode(lab, node, programs, signal);
  // Its other end is in the network of the cluster, and would go some time after the namespace.
  await deleteDevice(node.link, { netns: layout.netnsOf(siteNetns(cluster)), signal });
  await unmountNode(layout.node(node.name), signal);
  await deleteNetns(layout.netnsOf(nodeNetns(node)), signal);
  report(`${node.name} boots`);
  await buildNode(state.topology, layout, target, signal);
  await boot(lab, target, options.loadsRules, signal);
  await startMissing(state.topology, layout, context, {
    report: () => {},
    signal,
    only: (it) => isOf(it, target, lab),
  });
  const names = new Set([node.name, ...programs.map((it) => it.name)]);
  writeState(layout, { ...state, killed: state.killed.filter((it) => !names.has(it)) });
  if (client !== undefined) await uncordonDrained(client, { signal });
}

type NodeTarget = Extract<Target, { kind: "node" }>;

function nodeOf({ state: { topology }, layout }: Lab, name: string): NodeTarget {
  const target = resolveTarget(name, topology, planPrograms(topology, layout));
  if (target.kind === "node") return target;
  const nodes = topology.clusters.flatMap((it) => it.nodes.map((node) => node.name)).join(", ");
  throw new FleetError("LAB_NOT_FOUND", `${name} is not a node and cannot boot; the lab has ${nodes}`);
}

/** The node's own programs, and the wire of its link. */
function isOf(program: LabProgram, { node }: NodeTarget, { state }: Lab): boolean {
  const link = linksOf(state.topology).find((it) => it.name === node.name);
  return program.node === node.name || (link !== undefined && program.name === wireName(link));
}

/** As an init system ends services, and after them what these left. */
async function shutDown(
  { layout, context }: Lab,
  { node }: NodeTarget,
  programs: readonly LabProgram[],
  signal: AbortSignal,
): Promise<void> {
  const pids = programs.map((it) => runningPid(layout, it.name)).filter((it) => it !== undefined);
  for (const it of programs) forgetProcess(layout, it.name);
  await endProcesses(pids, GRACE_MS, context.clock, signal);
  const pods = await pidsByNetns(await listNetns(layout.node(node.name)));
  await endProcesses([...pods.values()].flat(), CONTAINER_GRACE_MS, context.clock, signal);
}

/** What an init unit does before the kubelet starts. */
async function boot(
  { state, layout }: Lab,
  { cluster, node }: NodeTarget,
  loadsRules: boolean,
  signal: AbortSignal,
): Promise<void> {
  const folder = layout.node(node.name);
  const id = randomUUID();
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, BOOT_ID), `${id}\n`);
  for (const { rules, mark } of loadsRules ? bootRulesOf(state.topology.spec, cluster, folder) : []) {
    if (existsSync(rules)) {
      const line = inNetns(layout.netnsOf(nodeNetns(node)), "nft", ["--file", rules]);
      await exec(line.command, line.args, { signal });
    }
    if (existsSync(join(mark, ".."))) writeFileSync(mark, `${id}\n`, { mode: 0o600 });
  }
}
