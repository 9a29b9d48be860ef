import { printText } from "@fairlead/base/print.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { checkMachine } from "@fairlead/lab/machine.ts";
import { labLayout } from "@fairlead/lab/layout.ts";
import { lockLab, readState } from "@fairlead/lab/state.ts";
import { checkSpec, DEFAULT_SPEC, type LabSpec } from "@fairlead/lab/topology.ts";
import { bringUp, type LabUp } from "@fairlead/lab/up.ts";
import { searchPath } from "@fairlead/base/program/kubectl.ts";
import { labContext, stateRoot, untilInterrupted } from "./context.ts";
import { joinMembers } from "./fleet.ts";
import { type ShapeOptions, specOf } from "./spec.ts";
import { inOwnNamespace, isInUserNamespace } from "./user-namespace.ts";

interface UpOptions extends ShapeOptions {
  readonly fleet: boolean;
}

/** @param isGiven - Whether an option was given, and is not a default. */
export async function up(
  options: UpOptions,
  isGiven: (option: keyof ShapeOptions) => boolean,
): Promise<void> {
  const found = readState(labLayout(stateRoot(), options.name))?.topology.spec;
  const spec = specOf(options, isGiven, found);
  checkSpec(spec);
  checkMachine(searchPath(), spec.topology);
  if (await inOwnNamespace("start it")) return;
  const signal = untilInterrupted();
  const startMs = systemClock.monotonic();
  const lab = await bringUpOrSayWhatToDo(spec, options, signal);
  const seconds = ((systemClock.monotonic() - startMs) / 1000).toFixed(1);
  printText(`Lab ${spec.name} is up: ${describe(lab)} (${seconds} s).`);
  const named = spec.name === DEFAULT_SPEC.name ? "" : ` --name ${spec.name}`;
  printText(
    isInUserNamespace()
      ? `  fairlead lab shell${named}    # its addresses answer in there`
      : `  export KUBECONFIG=${lab.layout.kubeconfig}`,
  );
  if (options.fleet && !spec.bare) printText("  fairlead status --hub-context hub    # shows the fleet");
}

async function bringUpOrSayWhatToDo(
  spec: LabSpec,
  { fleet }: UpOptions,
  signal: AbortSignal,
): Promise<LabUp> {
  const context = labContext();
  try {
    using _lock = await lockLab(context.stateRoot, spec.name, { clock: systemClock, signal });
    const report = (step: string): void => printText(`  ${step}`);
    const lab = await bringUp(spec, context, report, signal);
    if (fleet && !spec.bare) await joinMembers(lab, context, report, signal);
    return lab;
  } catch (error) {
    if (!signal.aborted) throw error;
    const message = `interrupted: lab ${spec.name} may be partly up; run "fairlead lab up" again to continue, or "fairlead lab down" to remove it`;
    throw new FleetError("ABORTED", message);
  }
}

function describe(lab: LabUp): string {
  const { members, nodes, bare, topology } = lab.topology.spec;
  const behind = topology === "nat" ? ", each behind NAT" : "";
  return `${bare ? "bare, " : ""}a hub and ${count(members, "member")} of ${count(nodes, "node")}${behind}; ${count(lab.started.length, "program")} started`;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}
