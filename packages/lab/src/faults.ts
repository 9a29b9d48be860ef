/** Breaks parts of a lab as they break in production, at once and without warning, and repairs them. */

import { FleetError } from "@fairlead/base/errors.ts";
import { listNetns } from "@fairlead/os/netns/netns.ts";
import { pidsByNetns } from "@fairlead/os/netns/processes.ts";
import type { LinkRef } from "#link/plan.ts";
import { lowerLink, raiseLink } from "./build.ts";
import type { LabLayout } from "./layout.ts";
import { endProcesses, forgetProcess, runningPid } from "./processes.ts";
import { FABRIC_NETNS, nodeNetns, siteNetns } from "./places.ts";
import { type LabProgram, planPrograms } from "./programs.ts";
import { type LabState, writeState } from "./state.ts";
import { resolveTarget, type Target } from "./targets.ts";
import type { LabCluster, LabNode } from "./topology.ts";
import { type LabContext, type Report, startMissing } from "./up.ts";

export interface Lab {
  readonly state: LabState;
  readonly layout: LabLayout;
  readonly context: LabContext;
}

/** Kills what `name` means: processes get SIGKILL, links go down. Killing what is dead is fine. */
export async function kill(lab: Lab, name: string, signal: AbortSignal): Promise<void> {
  const programs = planPrograms(lab.state.topology, lab.layout);
  const target = resolveTarget(name, lab.state.topology, programs);
  writeState(lab.layout, { ...lab.state, killed: [...new Set([...lab.state.killed, name])] });
  switch (target.kind) {
    case "process":
      await killPrograms(lab, [target.program], signal);
      return;
    case "link":
      await lowerLink(lab.layout, uplinkOf(target.cluster), signal);
      return;
    case "node":
      await lowerLink(lab.layout, nodeLink(target.cluster, target.node), signal);
      await killNode(lab, target.node, programs, signal);
      return;
    case "cluster":
      await lowerLink(lab.layout, uplinkOf(target.cluster), signal);
      await killCluster(lab, target.cluster, programs, signal);
      return;
    default:
      return target satisfies never;
  }
}

/**
 * Brings back what `name` means and whatever of it was killed apart.
 *
 * @returns Whether there was anything to bring back.
 */
export async function restore(lab: Lab, name: string, report: Report, signal: AbortSignal): Promise<boolean> {
  const { topology } = lab.state;
  const target = resolveTarget(name, topology, planPrograms(topology, lab.layout));
  await restoreLinks(lab, target, signal);
  const started = await startMissing(topology, lab.layout, lab.context, {
    report,
    signal,
    only: (program) => belongsTo(program, target),
  });
  const killed = lab.state.killed.filter((it) => it !== name && !isPartOf(it, target));
  if (killed.length < lab.state.killed.length) writeState(lab.layout, { ...lab.state, killed });
  return started.length > 0 || killed.length < lab.state.killed.length;
}

async function restoreLinks(lab: Lab, target: Target, signal: AbortSignal): Promise<void> {
  if (target.kind === "process") return;
  if (target.kind === "node") {
    await raiseLink(lab.state.topology, lab.layout, nodeLink(target.cluster, target.node), signal);
    return;
  }
  await raiseLink(lab.state.topology, lab.layout, uplinkOf(target.cluster), signal);
  if (target.kind === "link") return;
  for (const node of target.cluster.nodes)
    await raiseLink(lab.state.topology, lab.layout, nodeLink(target.cluster, node), signal);
}

/** The fabric's end of a cluster's link to all others. */
function uplinkOf(cluster: LabCluster): LinkRef {
  return { netns: FABRIC_NETNS, device: cluster.link };
}

/** The cluster's end of a node's link. */
function nodeLink(cluster: LabCluster, node: LabNode): LinkRef {
  return { netns: siteNetns(cluster), device: node.link };
}

function belongsTo(program: LabProgram, target: Target): boolean {
  switch (target.kind) {
    case "process":
      return program.name === target.program.name;
    case "node":
      return program.node === target.node.name;
    case "cluster":
      return program.cluster === target.cluster.name;
    case "link":
      return false;
    default:
      return target satisfies never;
  }
}

/** Whether a name that was killed lies inside a cluster that is restored as a whole. */
function isPartOf(name: string, target: Target): boolean {
  if (target.kind !== "cluster") return false;
  const { cluster } = target;
  return (
    name === `link/${cluster.name}` ||
    name.startsWith(`${cluster.name}/`) ||
    cluster.nodes.some((it) => it.name === name)
  );
}

async function killPrograms(lab: Lab, programs: readonly LabProgram[], signal: AbortSignal): Promise<void> {
  const pids = programs.map((it) => runningPid(lab.layout, it.name)).filter((it) => it !== undefined);
  await endProcesses(pids, 0, lab.context.clock, signal);
  for (const program of programs) forgetProcess(lab.layout, program.name);
}

/** Everything in the node's namespace and in those of its pods. */
export async function killNode(
  lab: Lab,
  node: LabNode,
  programs: readonly LabProgram[],
  signal: AbortSignal,
): Promise<void> {
  await killPrograms(
    lab,
    programs.filter((it) => it.node === node.name),
    signal,
  );
  await killBelow(lab, [lab.layout.netnsOf(nodeNetns(node)), ...(await podNamespaces(lab, node))], signal);
}

async function killCluster(
  lab: Lab,
  cluster: LabCluster,
  programs: readonly LabProgram[],
  signal: AbortSignal,
): Promise<void> {
  await killPrograms(
    lab,
    programs.filter((it) => it.cluster === cluster.name),
    signal,
  );
  const pods = await Promise.all(cluster.nodes.map((node) => podNamespaces(lab, node)));
  const nodes = cluster.nodes.map((node) => lab.layout.netnsOf(nodeNetns(node)));
  await killBelow(lab, [lab.layout.netnsOf(siteNetns(cluster)), ...nodes, ...pods.flat()], signal);
}

async function podNamespaces(lab: Lab, node: LabNode): Promise<readonly string[]> {
  return listNetns(lab.layout.node(node.name));
}

async function killBelow(lab: Lab, namespaces: readonly string[], signal: AbortSignal): Promise<void> {
  const pids = [...(await pidsByNetns(namespaces)).values()].flat();
  if (pids.includes(process.pid))
    throw new FleetError(
      "LAB_INVALID",
      "cannot kill the processes: this command is one of them; run it outside the lab",
    );
  await endProcesses(pids, 0, lab.context.clock, signal);
}
