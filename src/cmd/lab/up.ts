import { systemClock } from "#base/clock.ts";
import { checkMachine } from "#lab/machine.ts";
import { lockLab } from "#lab/state.ts";
import { checkSpec, type LabSpec } from "#lab/topology.ts";
import { bringUp, type LabUp } from "#lab/up.ts";
import { labContext, parseCount, searchPath, untilInterrupted } from "./context.ts";
import { joinMembers } from "./fleet.ts";
import { inOwnNamespace } from "./user-namespace.ts";

interface UpOptions {
  readonly name: string;
  readonly members: string;
  readonly nodes: string;
  readonly topology: string;
  readonly ipFamily: string;
  readonly leaseSeconds: string;
  readonly fleet: boolean;
  readonly bare?: true | undefined;
}

export async function up(options: UpOptions): Promise<void> {
  const spec: LabSpec = {
    name: options.name,
    members: parseCount("--members", options.members),
    nodes: parseCount("--nodes", options.nodes),
    topology: options.topology as "flat", // Checked, with all the rest, by checkSpec.
    ipFamily: options.ipFamily as "dual",
    leaseSeconds: parseCount("--lease-seconds", options.leaseSeconds),
    bare: options.bare === true,
  };
  checkSpec(spec);
  checkMachine(searchPath());
  if (await inOwnNamespace()) return;
  const signal = untilInterrupted();
  const startMs = systemClock.monotonic();
  const context = labContext();
  using _lock = lockLab(context.stateRoot, spec.name);
  const report = (step: string): void => console.log(`  ${step}`);
  const lab = await bringUp(spec, context, report, signal);
  if (options.fleet && !spec.bare) await joinMembers(lab, context, report, signal);
  const seconds = ((systemClock.monotonic() - startMs) / 1000).toFixed(1);
  console.log(`Lab ${spec.name} is up: ${describe(lab)} (${seconds} s).`);
  console.log(`  export KUBECONFIG=${lab.layout.kubeconfig}`);
}

function describe(lab: LabUp): string {
  const { members, nodes, bare } = lab.topology.spec;
  return `${bare ? "bare, " : ""}a hub and ${count(members, "member")} of ${count(nodes, "node")}; ${count(lab.started.length, "program")} started`;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}
