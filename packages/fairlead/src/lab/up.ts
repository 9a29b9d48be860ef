import { printText } from "@fairlead/base/print.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { checkMachine } from "@fairlead/lab/machine.ts";
import { lockLab } from "@fairlead/lab/state.ts";
import { checkSpec, DEFAULT_SPEC, type ExtraProgram, type LabSpec } from "@fairlead/lab/topology.ts";
import { bringUp, type LabUp } from "@fairlead/lab/up.ts";
import { searchPath } from "@fairlead/base/program/kubectl.ts";
import { labContext, untilInterrupted } from "./context.ts";
import { joinMembers } from "./fleet.ts";
import { NODE_PROGRAM, PARALLEL_PROGRAMS, UPGRADE_PROGRAM } from "./parallel.ts";
import { inOwnNamespace, isInUserNamespace } from "./user-namespace.ts";

interface UpOptions {
  readonly name: string;
  readonly members: string;
  readonly nodes: string;
  readonly topology: string;
  readonly nat: string;
  readonly natUdpSeconds: string;
  readonly natUdpStreamSeconds: string;
  readonly ipFamily: string;
  readonly leaseSeconds: string;
  readonly kubernetesVersion: string;
  readonly fleet: boolean;
  readonly bare?: true | undefined;
  readonly networkPolicy?: true | undefined;
  readonly upgrades?: true | undefined;
}

export async function up(options: UpOptions): Promise<void> {
  const spec: LabSpec = {
    name: options.name,
    members: parseWhole("--members", options.members),
    nodes: parseWhole("--nodes", options.nodes),
    // Checked, with all the rest, by checkSpec.
    topology: options.topology as "flat",
    nat: options.nat as "mixed",
    natUdpSeconds: parseWhole("--nat-udp-seconds", options.natUdpSeconds),
    natUdpStreamSeconds: parseWhole("--nat-udp-stream-seconds", options.natUdpStreamSeconds),
    ipFamily: options.ipFamily as "dual",
    leaseSeconds: parseWhole("--lease-seconds", options.leaseSeconds),
    bare: options.bare === true,
    release: options.kubernetesVersion as "1.36",
    extras: extrasOf(options),
  };
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

function extrasOf({ topology, networkPolicy, upgrades }: UpOptions): readonly ExtraProgram[] {
  const network = topology === "nat" ? PARALLEL_PROGRAMS : networkPolicy === true ? [NODE_PROGRAM] : [];
  return [...network, ...(upgrades === true ? [UPGRADE_PROGRAM] : [])];
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
