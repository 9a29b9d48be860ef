import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { byText } from "@fairlead/base/text.ts";
import type {
  ExecutionRequirement,
  IntOrPercent,
  PlacementPolicy,
  RequiredDuringExecution,
  ResourceBinding,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { roundedUp } from "../percent.ts";
import { classifyBindings } from "./bindings.ts";
import type { ClusterFacts } from "./cluster.ts";
import type { Round } from "./policy.ts";
import type { Task } from "./schedule.ts";
import { NO_SPREAD } from "./spread.ts";

/** Which clusters a placement loses because they meet its policy no longer. Pure: what is remembered comes in and goes out. */

export interface ExecutionSettings {
  readonly requirements: ReadonlySet<string>;
  readonly afterMs: number;
  readonly maxReplacements: IntOrPercent;
  readonly intervalMs: number;
}

const DEFAULTS = {
  requirements: ["ClusterAffinity", "ClusterEligibility"],
  afterSeconds: 300,
  maxReplacements: 1,
  intervalSeconds: 60,
} as const satisfies Required<RequiredDuringExecution>;

/** Undefined: clusters that are picked stay. Clusters that are named are not replaced. */
export function executionSettings(policy: PlacementPolicy | undefined): ExecutionSettings | undefined {
  const { placementType = "PickAll", requiredDuringExecution } = policy ?? {};
  if (requiredDuringExecution === undefined || placementType === "PickFixed") return undefined;
  const { requirements, afterSeconds, maxReplacements, intervalSeconds } = {
    ...DEFAULTS,
    ...requiredDuringExecution,
  };
  const counted: readonly ExecutionRequirement[] =
    // With PickAll, no other cluster takes the place of one that does not report.
    placementType === "PickAll" ? requirements.filter((it) => it !== "ClusterEligibility") : requirements;
  return {
    requirements: new Set(counted),
    afterMs: afterSeconds * 1000,
    maxReplacements,
    intervalMs: intervalSeconds * 1000,
  };
}

/** What is remembered of a placement, in the memory of the hub alone: after a restart, all times begin again. Unit: milliseconds. */
export interface ExecutionMemory {
  /** Of clusters that it has and that fail. */
  readonly failingSinceMs: ReadonlyMap<string, number>;
  /** Of clusters that were replaced; undefined while they fail. */
  readonly passingSinceMs: ReadonlyMap<string, number | undefined>;
  readonly replacedAtMs: number;
}
export const NO_MEMORY: ExecutionMemory = {
  failingSinceMs: new Map(),
  passingSinceMs: new Map(),
  replacedAtMs: -Infinity,
};

export interface ExecutionPlan {
  readonly memory: ExecutionMemory;
  /** Clusters to replace, those that fail for longest first. */
  readonly drop: readonly string[];
  /** Clusters that were replaced and are not trusted again yet. */
  readonly hold: ReadonlySet<string>;
  /** When to look again though nothing happens. Unit: milliseconds from now. */
  readonly againInMs: number;
}

export function planExecution(
  task: Task,
  settings: ExecutionSettings,
  memory: ExecutionMemory,
  nowMs: number,
): ExecutionPlan {
  const { afterMs, intervalMs } = settings;
  const { placed, failing, inProgress } = sightOf(task, settings);
  const failingSinceMs = new Map(failing.map((it) => [it, memory.failingSinceMs.get(it) ?? nowMs]));
  const passingSinceMs = returning(task, settings, memory, nowMs);
  const due = [...failingSinceMs]
    .filter(([, sinceMs]) => sinceMs + afterMs <= nowMs)
    .toSorted(([a, aSinceMs], [b, bSinceMs]) => aSinceMs - bSinceMs || byText(a, b))
    .map(([cluster]) => cluster);
  const nextMs = memory.replacedAtMs + intervalMs;
  const room = nowMs < nextMs ? 0 : Math.max(0, roundedUp(settings.maxReplacements, placed) - inProgress);
  const drop = due.slice(0, room);
  const times = [
    ...[...failingSinceMs.values(), ...passingSinceMs.values()].flatMap((it) =>
      it === undefined ? [] : it + afterMs,
    ),
    ...(due.length > 0 ? [Math.max(nextMs, nowMs + intervalMs)] : []),
  ].filter((it) => it > nowMs);
  return {
    memory: { failingSinceMs, passingSinceMs, replacedAtMs: memory.replacedAtMs },
    drop,
    hold: new Set(passingSinceMs.keys()),
    againInMs: Math.min(...times) - nowMs,
  };
}

/** What is remembered once clusters were replaced. */
export function withReplaced(
  memory: ExecutionMemory,
  clusters: readonly string[],
  nowMs: number,
): ExecutionMemory {
  if (clusters.length === 0) return memory;
  const passing = clusters.map((it) => [it, undefined] as const);
  return {
    failingSinceMs: new Map([...memory.failingSinceMs].filter(([it]) => !clusters.includes(it))),
    passingSinceMs: new Map([...memory.passingSinceMs, ...passing]),
    replacedAtMs: nowMs,
  };
}

/** Clusters that a placement has and that meet its policy no longer. */
export function failingClusters(task: Task, settings: ExecutionSettings): readonly string[] {
  return sightOf(task, settings).failing;
}

interface Sighted {
  readonly placed: number;
  readonly failing: readonly string[];
  /** Clusters on their way in or out. */
  readonly inProgress: number;
}

function sightOf(task: Task, settings: ExecutionSettings): Sighted {
  const { current, unscheduled, dangling, deleting } = classifyBindings(task);
  const isDown = isFleetDown(task.clusters);
  const failing = [...current.keys()].filter((it) => {
    const cluster = task.clusters.get(it);
    return cluster !== undefined && !meets(task, settings, cluster, isDown);
  });
  const arriving = [...current].filter(([it, { status }]) => !failing.includes(it) && !hasArrived(status));
  const inProgress = arriving.length + unscheduled.size + dangling.length + deleting.length;
  return { placed: current.size, failing, inProgress };
}

function hasArrived(status: ResourceBinding["status"]): boolean {
  return ["Available", "DiffReported"].some((it) => isConditionTrue(status?.conditions, it));
}

/** When most clusters do not report, it is more likely the hub that is cut off. */
function isFleetDown(clusters: ReadonlyMap<string, ClusterFacts>): boolean {
  const ineligible = clusters.values().filter((it) => it.ineligible !== undefined);
  return ineligible.toArray().length * 2 > clusters.size;
}

function meets(
  { policy, placement: { namespace } }: Task,
  { requirements }: ExecutionSettings,
  cluster: ClusterFacts,
  isDown: boolean,
): boolean {
  const round: Round = { namespace, isPlaced: () => false, spread: NO_SPREAD };
  return policy.filters.every(
    (it) =>
      !requirements.has(it.plugin) ||
      (isDown && it.plugin === "ClusterEligibility") ||
      it.passes(cluster, round),
  );
}

/** Clusters that were replaced and have not passed for long enough. */
function returning(
  task: Task,
  settings: ExecutionSettings,
  { passingSinceMs }: ExecutionMemory,
  nowMs: number,
): ReadonlyMap<string, number | undefined> {
  const next = new Map<string, number | undefined>();
  for (const [name, sinceMs] of passingSinceMs) {
    const cluster = task.clusters.get(name);
    if (cluster === undefined) continue;
    const passingMs = meets(task, settings, cluster, false) ? (sinceMs ?? nowMs) : undefined;
    if (passingMs === undefined || passingMs + settings.afterMs > nowMs) next.set(name, passingMs);
  }
  return next;
}
