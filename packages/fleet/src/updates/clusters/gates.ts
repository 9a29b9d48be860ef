import { firstUid } from "#domain/first-uid.ts";
import { createHash } from "node:crypto";
import { defined } from "@fairlead/base/defined.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import type {
  Gate,
  GateConfiguration,
  GateTiming,
  StrategySpec,
  UpdateGateStatus,
  UpdateRun,
  UpdateRunStatus,
  UpdateSegment,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { nextStart } from "./schedule.ts";
import { isFinal } from "./states.ts";
import { setState, type Walk } from "./walk.ts";

/** Where gates are: before or after a stage, or a group of it. */
export interface GatePlace {
  readonly stage: string;
  readonly group?: string;
  readonly timing: GateTiming;
}

/** The same for each pass, so that a gate is made once: a UUID of version 8 (RFC 9562). */
export function gateId(
  runUID: string,
  { stage, group = "", timing }: GatePlace,
  displayName: string,
): string {
  const hash = createHash("sha256").update(JSON.stringify([runUID, stage, group, timing, displayName]));
  const hex = hash.digest("hex");
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `a${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join("-");
}

/** Opens gates that are reached, and notes which were passed. @returns Whether all were. */
export function passGates(walk: Walk, gates: readonly UpdateGateStatus[] = [], place: GatePlace): boolean {
  for (const it of gates) if (!isFinal(it.status.state)) passGate(walk, it, place);
  return gates.every((it) => isFinal(it.status.state));
}

function passGate(walk: Walk, gate: UpdateGateStatus, place: GatePlace): void {
  const id = gate.gateId ?? gateId(firstUid(walk.run) ?? "", place, gate.displayName);
  gate.gateId = id;
  setState(walk, gate.status, "Pending");
  const state = walk.facts.gateState(id);
  const dueMs = dueAt(walk.status, gate, place) ?? Infinity;
  if (state === "Skipped") setState(walk, gate.status, "Skipped");
  else if (state === "Completed" || walk.facts.nowMs >= dueMs) setState(walk, gate.status, "Completed");
  else if (dueMs < Infinity) walk.again(dueMs);
}

export function skipGates(walk: Walk, gates: readonly UpdateGateStatus[] | undefined): void {
  for (const { status } of gates ?? []) if (!isFinal(status.state)) setState(walk, status, "Skipped");
}

/** When a scheduled start that was reached completes by itself. */
function dueAt(status: UpdateRunStatus, gate: UpdateGateStatus, place: GatePlace): number | undefined {
  const configuration = configurationOf(status.strategy, place, gate.displayName);
  const schedule = configuration?.scheduledStartConfiguration;
  const { startTime } = gate.status;
  return schedule === undefined || startTime === undefined
    ? undefined
    : nextStart(schedule, Date.parse(startTime));
}

function configurationOf(
  strategy: StrategySpec | undefined,
  { stage, group, timing }: GatePlace,
  displayName: string,
): GateConfiguration | undefined {
  const ofStage = strategy?.stages.find((it) => it.name === stage);
  const segment: UpdateSegment | undefined =
    group === undefined ? ofStage : ofStage?.groups?.find((it) => it.name === group);
  const gates = timing === "Before" ? segment?.beforeGates : segment?.afterGates;
  return gates?.find((it) => it.displayName === displayName);
}

export interface WantedGate {
  readonly name: string;
  readonly spec: Gate["spec"];
}

/** The Gates that a run should have: those that it has reached. */
export function gatesOf(run: UpdateRun): WantedGate[] {
  const { status } = run;
  if (status === undefined) return [];
  const at = (gates: readonly UpdateGateStatus[] | undefined, place: GatePlace): WantedGate[] =>
    (gates ?? []).flatMap((gate) => wantedGate(run, status, gate, place) ?? []);
  return status.stages.flatMap(({ name: stage, beforeGates, afterGates, groups }) => [
    ...at(beforeGates, { stage, timing: "Before" }),
    ...at(afterGates, { stage, timing: "After" }),
    ...groups.flatMap((group) => [
      ...at(group.beforeGates, { stage, group: group.name, timing: "Before" }),
      ...at(group.afterGates, { stage, group: group.name, timing: "After" }),
    ]),
  ]);
}

function wantedGate(
  run: UpdateRun,
  status: UpdateRunStatus,
  gate: UpdateGateStatus,
  place: GatePlace,
): WantedGate | undefined {
  if (gate.gateId === undefined) return undefined;
  const { name } = run.metadata;
  const { state } = gate.status;
  const { type = "Approval" } = configurationOf(status.strategy, place, gate.displayName) ?? {};
  const dueMs = dueAt(status, gate, place);
  return {
    name: gate.gateId,
    spec: {
      displayName: gate.displayName,
      gateType: type,
      target: { id: firstUid(run) ?? "", updateRunProperties: { name, ...place } },
      ...defined({ scheduledStartTime: dueMs === undefined ? undefined : timestamp(dueMs) }),
      state: state === "Completed" || state === "Skipped" ? state : "Pending",
    },
  };
}
