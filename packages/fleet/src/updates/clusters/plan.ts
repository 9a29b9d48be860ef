import { messageOf } from "@fairlead/base/errors.ts";
import { defined } from "@fairlead/base/defined.ts";
import { type Matcher, matcherOf, parseSelector } from "@fairlead/kube/objects/selector.ts";
import {
  type GateConfiguration,
  MAX_CONCURRENCY,
  type StrategySpec,
  type UpdateGateStatus,
  type UpdateGroupStatus,
  type UpdateMemberSelector,
  type UpdateSegment,
  type UpdateStage,
  type UpdateStageStatus,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { resolveConcurrency, resolveFailures } from "./amounts.ts";
import type { UpdateMember } from "./fleet.ts";
import { naturally } from "./versions.ts";

/** A run before it starts: its members in their order, and what is wrong with the strategy. */
export interface RunPlan {
  readonly stages: UpdateStageStatus[];
  readonly membersInNoGroup: string[];
  readonly problems: string[];
}

/** Stage and group of runs without a strategy. */
export const DEFAULT_NAME = "default";

/** @param strategy - Undefined: all members, one after another. */
export function planRun(strategy: StrategySpec | undefined, members: readonly UpdateMember[]): RunPlan {
  const sorted = members.toSorted((a, b) => naturally(a.name, b.name));
  const problems: string[] = [];
  const stages = (strategy?.stages ?? [everyone()]).map((it) => planStage(it, sorted, problems));
  const places = new Map<string, string[]>();
  for (const stage of stages)
    for (const group of stage.groups)
      for (const { name } of group.members)
        places.set(name, [...(places.get(name) ?? []), `${stage.name}/${group.name}`]);
  for (const [name, at] of places)
    if (at.length > 1) problems.push(`member ${name} is in several groups: ${at.join(", ")}`);
  const names = stages.flatMap((stage) => stage.groups.map((it) => it.name));
  for (const name of new Set(names.filter((it, at) => names.indexOf(it) !== at)))
    problems.push(`group ${name} is in several stages`);
  return {
    stages,
    membersInNoGroup: sorted.map((it) => it.name).filter((it) => !places.has(it)),
    problems,
  };
}

function everyone(): UpdateStage {
  return { name: DEFAULT_NAME, memberSelector: { byLabel: "" } };
}

function planStage(
  stage: UpdateStage,
  members: readonly UpdateMember[],
  problems: string[],
): UpdateStageStatus {
  const where = `stage ${stage.name}`;
  const selected = select(stage.memberSelector, members, where, problems);
  const limit = stage.maxConcurrency ?? String(MAX_CONCURRENCY);
  const groups = (stage.groups ?? [implicitGroup(stage)]).map((group) => {
    const own =
      group.memberSelector === undefined && stage.groups !== undefined
        ? selected.filter((it) => it.group === group.name)
        : select(group.memberSelector, selected, `group ${group.name}`, problems);
    if (own.length === 0 && group.memberSelector === undefined && stage.groups !== undefined)
      problems.push(`no member has the label of group ${group.name}`);
    return planGroup(group, own, problems);
  });
  const size = groups.reduce((sum, it) => sum + it.members.length, 0);
  const maxConcurrency = Math.min(MAX_CONCURRENCY, resolveConcurrency(limit, size));
  if (stage.groups !== undefined)
    for (const it of groups)
      if (it.maxConcurrency > maxConcurrency && it.members.length > 0)
        problems.push(
          `maxConcurrency of group ${it.name} is ${it.maxConcurrency}, above that of ${where}, ${maxConcurrency}`,
        );
  const wait = stage.afterStageWaitInSeconds ?? 0;
  return {
    ...planSegment(stage, size),
    maxConcurrency,
    groups,
    ...(wait === 0
      ? {}
      : { afterStageWaitStatus: { status: { state: "NotStarted" }, waitDurationInSeconds: wait } }),
  };
}

/** Of a stage that names no groups. Its gates and limits are those of the stage. */
function implicitGroup({ name, maxConcurrency, maxAllowedFailures }: UpdateStage): UpdateSegment {
  return {
    name,
    memberSelector: { byLabel: "" },
    ...defined({ maxConcurrency, maxAllowedFailures }),
  };
}

function planGroup(
  group: UpdateSegment,
  members: readonly UpdateMember[],
  problems: string[],
): UpdateGroupStatus {
  const size = members.length;
  const { maxConcurrency: limit = "1" } = group;
  const isImplicit = group.memberSelector?.byLabel === "" && Object.keys(group.memberSelector).length === 1;
  const resolved = resolveConcurrency(limit, size);
  if (!isImplicit && size > 0 && resolved > size)
    problems.push(`maxConcurrency of group ${group.name} is ${resolved}, above its ${size} members`);
  return {
    ...planSegment(group, size),
    maxConcurrency: Math.min(resolved, MAX_CONCURRENCY),
    members: members.map(({ name }) => ({ name, status: { state: "NotStarted" } })),
  };
}

function planSegment(
  segment: UpdateSegment,
  size: number,
): Omit<UpdateGroupStatus, "members" | "maxConcurrency"> {
  const gates = (list: readonly GateConfiguration[] | undefined): UpdateGateStatus[] | undefined =>
    list?.map(({ displayName }) => ({ displayName, status: { state: "NotStarted" } }));
  return {
    status: { state: "NotStarted" },
    name: segment.name,
    ...defined({ beforeGates: gates(segment.beforeGates), afterGates: gates(segment.afterGates) }),
    failureCount: 0,
    maxAllowedFailures: resolveFailures(segment.maxAllowedFailures, size),
  };
}

function select(
  selector: UpdateMemberSelector | undefined,
  members: readonly UpdateMember[],
  where: string,
  problems: string[],
): readonly UpdateMember[] {
  if (selector === undefined) return members;
  try {
    const matches = updateMatcher(selector);
    return members.filter((it) => matches(it.labels));
  } catch (error) {
    problems.push(`memberSelector of ${where}: ${messageOf(error)}`);
    return [];
  }
}

function updateMatcher({ byLabel, ...selector }: UpdateMemberSelector): Matcher {
  return byLabel === undefined ? matcherOf(selector) : parseSelector(byLabel);
}
