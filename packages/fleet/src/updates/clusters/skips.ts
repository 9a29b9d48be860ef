import type {
  MemberUpdateStatus,
  SkipTarget,
  UpdateGroupStatus,
  UpdateStageStatus,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { skipGates } from "./gates.ts";
import { isFinal } from "./states.ts";
import { setState, type Walk } from "./walk.ts";

/** Carries out the entries of `spec.skip` that came since the last pass. Members that are being upgraded finish. */
export function applySkips(walk: Walk): void {
  const { skip = [] } = walk.run.spec;
  for (const target of skip.slice(walk.status.skipped ?? 0)) skipTarget(walk, target);
  if (skip.length > 0) walk.status.skipped = skip.length;
}

function skipTarget(walk: Walk, { type, name }: SkipTarget): void {
  const { stages } = walk.status;
  const groups = stages.flatMap((it) => it.groups);
  const named = <T extends { readonly name: string }>(all: readonly T[]): T[] =>
    all.filter((it) => it.name === name);
  if (type === "Stage") for (const it of named(stages)) skipStage(walk, it);
  if (type === "AfterStageWait") for (const it of named(stages)) skipWait(walk, it);
  if (type === "Group") for (const it of named(groups)) skipGroup(walk, it);
  if (type === "Member")
    for (const it of named(groups.flatMap((group) => group.members))) skipMember(walk, it);
}

function skipStage(walk: Walk, stage: UpdateStageStatus): void {
  if (isFinal(stage.status.state)) return;
  skipGates(walk, stage.beforeGates);
  skipGates(walk, stage.afterGates);
  skipWait(walk, stage);
  for (const it of stage.groups) skipGroup(walk, it);
}

function skipWait(walk: Walk, { afterStageWaitStatus: wait }: UpdateStageStatus): void {
  if (wait !== undefined && !isFinal(wait.status.state)) setState(walk, wait.status, "Skipped");
}

function skipGroup(walk: Walk, group: UpdateGroupStatus): void {
  if (isFinal(group.status.state)) return;
  skipGates(walk, group.beforeGates);
  skipGates(walk, group.afterGates);
  for (const it of group.members) skipMember(walk, it);
}

function skipMember(walk: Walk, member: MemberUpdateStatus): void {
  const { state } = member.status;
  if (isFinal(state) || state === "Running" || state === "Failed") return;
  setState(walk, member.status, "Skipped");
  member.message = "skipped by a user";
}
