import { joinLines } from "@fairlead/base/print.ts";
import type {
  Gate,
  MemberUpdateStatus,
  UpdateGateStatus,
  UpdateGroupStatus,
  UpdateRun,
  UpdateStageStatus,
  UpdateStatus,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import type { Plan } from "./actions.ts";
import { type ListOutput, renderData, type ResultOutput } from "../output.ts";
import { type Column, renderAge, renderTable } from "../table.ts";

/** Update runs as trees of lines, two spaces deeper for each level. */

function titleOf({ metadata, spec }: UpdateRun): string {
  const { type } = spec.managedClusterUpdate.upgrade;
  const version = versionOf(spec);
  return `run ${metadata.name} (${version === undefined ? type : `${type} ${version}`})`;
}

function versionOf({ managedClusterUpdate: { upgrade } }: UpdateRun["spec"]): string | undefined {
  return upgrade.kubernetesVersion ?? upgrade.componentsVersion;
}

function indent(lines: readonly string[]): string[] {
  return lines.map((it) => `  ${it}`);
}

/** "Running, 3m12s", "Completed in 2m", "Failed in 5s: the disk is full". */
function stateText({ state, startTime, completedTime, error }: UpdateStatus, nowMs: number): string {
  const startMs = startTime === undefined ? undefined : Date.parse(startTime);
  const why = error === undefined ? "" : `: ${error.message}`;
  if (startMs === undefined || state === "NotStarted") return `${state}${why}`;
  if (completedTime !== undefined)
    return `${state} in ${renderAge(Date.parse(completedTime) - startMs)}${why}`;
  return `${state}, ${renderAge(nowMs - startMs)}${why}`;
}

export function renderRun(run: UpdateRun, output: ResultOutput, nowMs: number): string {
  if (output !== "text") return renderData(run, output);
  const { status } = run;
  if (status === undefined) return `${titleOf(run)}: not seen by the hub yet`;
  const { counts = {}, stages, membersInNoGroup = [], outcome, message, rolledBack = 0 } = status;
  const total = Object.values(counts).reduce((sum, it) => sum + it, 0);
  const done = (counts.Completed ?? 0) + (counts.Skipped ?? 0);
  const lines = [
    `${titleOf(run)}: ${stateText(status.status, nowMs)}`,
    ...indent([
      `${outcome === undefined ? "" : `${outcome}: `}${done} of ${total} members are done, ${counts.Failed ?? 0} failed${rolledBack === 0 ? "" : `, ${rolledBack} of them rolled back`}`,
      ...(message === undefined ? [] : [message]),
      ...stages.flatMap((it) => stageLines(it, nowMs)),
      ...noGroupLine(membersInNoGroup),
    ]),
  ];
  return joinLines(lines);
}

function noGroupLine(names: readonly string[]): string[] {
  return names.length === 0 ? [] : [`in no group: ${names.join(", ")}`];
}

function stageLines(stage: UpdateStageStatus, nowMs: number): string[] {
  const wait = stage.afterStageWaitStatus;
  return [
    `stage ${stage.name}: ${stateText(stage.status, nowMs)}`,
    ...indent([
      ...gateLines(stage.beforeGates, "before", nowMs),
      ...stage.groups.flatMap((it) => groupLines(it, nowMs)),
      ...(wait === undefined
        ? []
        : [`wait of ${renderAge(wait.waitDurationInSeconds * 1000)}: ${stateText(wait.status, nowMs)}`]),
      ...gateLines(stage.afterGates, "after", nowMs),
    ]),
  ];
}

function groupLines(group: UpdateGroupStatus, nowMs: number): string[] {
  return [
    `group ${group.name}: ${stateText(group.status, nowMs)}`,
    ...indent([
      ...gateLines(group.beforeGates, "before", nowMs),
      ...group.members.map((it) => memberLine(it, nowMs)),
      ...gateLines(group.afterGates, "after", nowMs),
    ]),
  ];
}

function memberLine({ name, status, message, ...of }: MemberUpdateStatus, nowMs: number): string {
  return `${name}: ${stateText(status, nowMs)}${message === undefined ? "" : `: ${message}`}${rollbackText(of)}`;
}

function rollbackText({ rollback, previous }: Pick<MemberUpdateStatus, "rollback" | "previous">): string {
  if (rollback === undefined || rollback.state === "Running") return "";
  if (rollback.state === "Failed") return `; not rolled back: ${rollback.message ?? ""}`;
  const { componentsVersion, kubernetesVersion, nodeImages = [] } = previous ?? {};
  return `; rolled back to ${componentsVersion ?? kubernetesVersion ?? nodeImages.join(", ")}`;
}

function gateLines(
  gates: readonly UpdateGateStatus[] = [],
  timing: "before" | "after",
  nowMs: number,
): string[] {
  return gates.map(({ displayName, gateId, status }) => {
    const id = status.state === "Pending" && gateId !== undefined ? `, gate ${gateId}` : "";
    return `${timing}: ${JSON.stringify(displayName)}: ${stateText(status, nowMs)}${id}`;
  });
}

function plannedGates(gates: readonly UpdateGateStatus[] = [], timing: "before" | "after"): string[] {
  return gates.map(({ displayName }) => `${timing}: ${JSON.stringify(displayName)}`);
}

/** A plan: members in their order, limits, gates, and what would become of each. */
export function renderPlan(run: UpdateRun, { status, verdicts, notes }: Plan, output: ResultOutput): string {
  if (output !== "text")
    return renderData({ ...run, status, verdicts: Object.fromEntries(verdicts), notes }, output);
  const { error } = status.status;
  const lines = status.stages.flatMap((stage, at) => [
    `${at + 1}. stage ${stage.name}: ${limits(stage)}`,
    ...indent([
      ...plannedGates(stage.beforeGates, "before"),
      ...stage.groups.flatMap((it) => [
        `group ${it.name}: ${limits(it)}`,
        ...indent([
          ...plannedGates(it.beforeGates, "before"),
          ...it.members.map(({ name }) => `${name} ${verdicts.get(name) ?? ""}`.trimEnd()),
          ...plannedGates(it.afterGates, "after"),
        ]),
      ]),
      ...(stage.afterStageWaitStatus === undefined
        ? []
        : [`wait of ${renderAge(stage.afterStageWaitStatus.waitDurationInSeconds * 1000)}`]),
      ...plannedGates(stage.afterGates, "after"),
    ]),
  ]);
  return joinLines([
    titleOf(run),
    ...indent([
      ...(error === undefined ? [] : [`cannot start: ${error.message}`]),
      ...lines,
      ...noGroupLine(status.membersInNoGroup ?? []),
      ...notes.map((it) => `note: ${it}`),
    ]),
  ]);
}

function limits({
  maxConcurrency,
  maxAllowedFailures,
}: Pick<UpdateStageStatus, "maxConcurrency" | "maxAllowedFailures">): string {
  return `${maxConcurrency} at once, ${maxAllowedFailures} may fail`;
}

const RUN_COLUMNS: readonly Column<UpdateRun>[] = [
  { head: "NAME", cell: (it) => it.metadata.name },
  { head: "TYPE", cell: (it) => it.spec.managedClusterUpdate.upgrade.type },
  { head: "VERSION", cell: (it) => versionOf(it.spec) ?? "-" },
  { head: "STATE", cell: (it) => it.status?.status.state ?? "NotStarted" },
  { head: "OUTCOME", cell: (it) => it.status?.outcome ?? "-" },
  { head: "FAILURES", cell: (it) => String(it.status?.failureCount ?? 0) },
];

export function renderRuns(runs: readonly UpdateRun[], output: ListOutput): string {
  if (output === "name") return joinLines(runs.map((it) => it.metadata.name));
  if (output === "json" || output === "yaml") return renderData(runs, output);
  return runs.length === 0 ? "there are no update runs" : renderTable(RUN_COLUMNS, runs);
}

const GATE_COLUMNS: readonly Column<Gate>[] = [
  { head: "NAME", cell: (it) => it.metadata.name },
  { head: "RUN", cell: (it) => it.spec.target.updateRunProperties.name },
  { head: "STAGE", cell: (it) => it.spec.target.updateRunProperties.stage ?? "-" },
  { head: "GROUP", cell: (it) => it.spec.target.updateRunProperties.group ?? "-" },
  { head: "TIMING", cell: (it) => it.spec.target.updateRunProperties.timing },
  { head: "TYPE", cell: (it) => it.spec.gateType },
  { head: "STATE", cell: (it) => it.spec.state },
  { head: "DISPLAY NAME", cell: (it) => it.spec.displayName },
];

export function renderGates(gates: readonly Gate[], output: ListOutput): string {
  if (output === "name") return joinLines(gates.map((it) => it.metadata.name));
  if (output === "json" || output === "yaml") return renderData(gates, output);
  return gates.length === 0 ? "there are no gates" : renderTable(GATE_COLUMNS, gates);
}
