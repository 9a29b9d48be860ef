/** Changes the conditions of a link of a lab that is up. */

import { FleetError } from "@fairlead/base/errors.ts";
import { endProcesses, forgetProcess, runningPid } from "#processes.ts";
import { planPrograms, wireName } from "#programs.ts";
import { writeState } from "#state.ts";
import { resolveTarget } from "#targets.ts";
import { startMissing } from "#up.ts";
import type { Lab } from "#faults.ts";
import { checkConditions, type LinkConditions, notable, type StoredConditions } from "./conditions.ts";
import { applyDevices, applyTables, hasNetem } from "./kernel.ts";
import { type LabLink, linksOf } from "./plan.ts";

/**
 * Finds the link that `name` means: that of a cluster to the others, or of a node to its cluster.
 *
 * @throws {FleetError} `LAB_NOT_FOUND`, `OPTION_INVALID` for a process.
 */
export function findLink({ state, layout }: Lab, name: string): LabLink {
  const { topology } = state;
  const target = resolveTarget(name, topology, planPrograms(topology, layout));
  const wanted =
    target.kind === "node" ? target.node.name : target.kind === "process" ? "" : target.cluster.name;
  const link = linksOf(topology).find((it) => it.name === wanted);
  if (link !== undefined) return link;
  throw new FleetError("OPTION_INVALID", `${name} is a process; name a cluster or a node, such as member-1`);
}

/** @returns What holds of the link now. */
export async function setConditions(
  lab: Lab,
  link: LabLink,
  conditions: LinkConditions,
  signal: AbortSignal,
): Promise<LinkConditions> {
  checkConditions(conditions);
  const { [link.name]: _before, ...others } = lab.state.topology.conditions ?? {};
  const stored = await withDelay(lab, link, conditions, signal);
  const all = Object.keys(stored).length === 0 ? others : { ...others, [link.name]: stored };
  const topology = { ...lab.state.topology, conditions: all };
  writeState(lab.layout, { ...lab.state, topology });
  await applyDevices(topology, lab.layout, link, signal);
  // Until the wire reads frames, and when it no longer does, they must pass without it.
  if (stored.delayBy === "wire") await startWire({ ...lab, state: { ...lab.state, topology } }, link, signal);
  await applyTables(topology, lab.layout, link, signal);
  if (stored.delayBy !== "wire") await endWire(lab, link, signal);
  return stored;
}

async function withDelay(
  lab: Lab,
  link: LabLink,
  conditions: LinkConditions,
  signal: AbortSignal,
): Promise<StoredConditions> {
  const found = notable(conditions);
  if (found.delayMs === undefined) return found;
  return { ...found, delayBy: (await hasNetem(lab.layout, link.ends[0], signal)) ? "netem" : "wire" };
}

async function startWire({ state, layout, context }: Lab, link: LabLink, signal: AbortSignal): Promise<void> {
  const name = wireName(link);
  const only = (program: { readonly name: string }): boolean => program.name === name;
  await startMissing(state.topology, layout, context, { report: () => {}, signal, only });
}

async function endWire({ layout, context }: Lab, link: LabLink, signal: AbortSignal): Promise<void> {
  const pid = runningPid(layout, wireName(link));
  if (pid === undefined) return;
  await endProcesses([pid], 0, context.clock, signal);
  forgetProcess(layout, wireName(link));
}
