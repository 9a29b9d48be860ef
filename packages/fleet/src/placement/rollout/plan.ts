import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import type {
  ApplyStrategy,
  Placement,
  ResourceBinding,
  ResourceBindingSpec,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { roundedUp } from "../percent.ts";
import { type Readiness, readinessOf } from "./readiness.ts";

/** Override snapshots that apply to a cluster, in order of their names. */
export type ApplicableOverrides = Required<
  Pick<ResourceBindingSpec, "clusterResourceOverrideSnapshots" | "resourceOverrideSnapshots">
>;

export interface RolloutInput {
  readonly placement: Placement;
  /** Name of the latest resource snapshot. */
  readonly snapshot: string;
  /** All of the placement. */
  readonly bindings: readonly ResourceBinding[];
  readonly overridesOf: (cluster: string) => ApplicableOverrides;
  readonly nowMs: number;
}

/** What a binding gets when it is rolled out. */
export interface Target {
  readonly binding: ResourceBinding;
  readonly overrides: ApplicableOverrides;
}

/** A binding that is due, and what it waits for: a sentence that stays the same while it waits. */
export interface Waiting {
  readonly binding: ResourceBinding;
  readonly why: string;
}

export interface RolloutPlan {
  /** Bindings to make Bound with the latest snapshot and these overrides. */
  readonly roll: readonly Target[];
  readonly remove: readonly ResourceBinding[];
  /** Bindings that only get the apply strategy of the placement. */
  readonly restrategize: readonly ResourceBinding[];
  /** Bindings that are due, and wait for others to become available or to go. */
  readonly waiting: readonly Waiting[];
  /** When to look again, because objects whose availability is not known count as available then. */
  readonly recheckMs: number | undefined;
}

const DEFAULT_SHARE = "25%";
/** Unit: seconds. */
const DEFAULT_UNAVAILABLE_PERIOD = 60;

interface Classified {
  readonly binding: ResourceBinding;
  readonly readiness: Readiness;
}

/**
 * The next step of a rolling update. Removals and updates together take no more clusters out of service than `maxUnavailable`
 * allows; additions put no more in than `maxSurge` does.
 */
export function planRollout(input: RolloutInput): RolloutPlan {
  const { placement, bindings } = input;
  const rolling = placement.spec.strategy?.rollingUpdate;
  const periodMs = (rolling?.unavailablePeriodSeconds ?? DEFAULT_UNAVAILABLE_PERIOD) * 1000;
  const all = bindings
    .toSorted((a, b) => byText(a.spec.targetCluster, b.spec.targetCluster))
    .map((binding) => ({ binding, readiness: readinessOf(binding, input.nowMs, periodMs) }));
  const served = all.filter(
    ({ binding: { spec } }) => spec.state !== "Scheduled" && spec.resourceSnapshotName !== "",
  );
  const target = targetOf(placement, bindings);
  const staying = served.filter(
    ({ binding, readiness }) => readiness.kind === "ready" && !isDeleting(binding),
  );
  const least = target - roundedUp(rolling?.maxUnavailable ?? DEFAULT_SHARE, target);
  const most = target + roundedUp(rolling?.maxSurge ?? DEFAULT_SHARE, target);
  const removals = planRemovals(all);
  const updates = planUpdates(all, input);
  const budget = Math.max(0, staying.length - least);
  const removed = removals.budgeted.slice(0, budget);
  const updated = updates.budgeted.slice(0, budget - removed.length);
  const additions = planAdditions(all, input);
  const room = Math.max(0, most - served.filter(({ readiness }) => readiness.kind !== "failed").length);
  const added = additions.possible.slice(0, room);
  const roll = [...updates.free, ...updated, ...added];
  const isRolled = new Set(roll.map((it) => it.binding));
  return {
    roll,
    remove: [...removals.free, ...removed],
    restrategize: all
      .map((it) => it.binding)
      .filter((it) => it.spec.state === "Bound" && !isDeleting(it) && !isRolled.has(it))
      .filter((it) => !sameStrategy(it.spec.applyStrategy, placement.spec.strategy?.applyStrategy)),
    waiting: [
      ...updates.budgeted.slice(updated.length).map(({ binding }) => ({
        binding,
        why: `At least ${Math.max(0, least)} of ${target} clusters stay available (maxUnavailable)`,
      })),
      ...additions.possible.slice(added.length).map(({ binding }) => ({
        binding,
        why: `At most ${most} clusters have the resources at the same time (maxSurge)`,
      })),
      ...additions.blocked.map((binding) => ({
        binding,
        why: "What the placement had in the cluster before is still being removed",
      })),
    ],
    recheckMs: earliest(served),
  };
}

function planRemovals(all: readonly Classified[]): {
  readonly free: readonly ResourceBinding[];
  readonly budgeted: readonly ResourceBinding[];
} {
  const candidates = all.filter(
    ({ binding }) => binding.spec.state === "Unscheduled" && !isDeleting(binding),
  );
  // The removal of what has failed, or never had resources, makes nothing unavailable.
  const isFree = ({ binding, readiness }: Classified): boolean =>
    readiness.kind === "failed" || binding.spec.resourceSnapshotName === "";
  return {
    free: candidates.filter(isFree).map((it) => it.binding),
    budgeted: candidates.filter((it) => !isFree(it)).map((it) => it.binding),
  };
}

function planUpdates(
  all: readonly Classified[],
  { snapshot, overridesOf }: RolloutInput,
): { readonly free: readonly Target[]; readonly budgeted: readonly Target[] } {
  const [free, budgeted]: [Target[], Target[]] = [[], []];
  for (const { binding, readiness } of all) {
    if (binding.spec.state !== "Bound" || isDeleting(binding)) continue;
    const overrides = overridesOf(binding.spec.targetCluster);
    if (isUpToDate(binding, snapshot, overrides)) continue;
    (readiness.kind === "failed" ? free : budgeted).push({ binding, overrides });
  }
  return { free, budgeted };
}

function isUpToDate({ spec }: ResourceBinding, snapshot: string, overrides: ApplicableOverrides): boolean {
  return (
    spec.resourceSnapshotName === snapshot &&
    sameJson(spec.clusterResourceOverrideSnapshots ?? [], overrides.clusterResourceOverrideSnapshots) &&
    sameJson(spec.resourceOverrideSnapshots ?? [], overrides.resourceOverrideSnapshots)
  );
}

function planAdditions(
  all: readonly Classified[],
  { overridesOf }: RolloutInput,
): { readonly possible: readonly Target[]; readonly blocked: readonly ResourceBinding[] } {
  const scheduled = all
    .map((it) => it.binding)
    .filter((it) => it.spec.state === "Scheduled" && !isDeleting(it));
  // Two bindings of a cluster have Works of the same names: the earlier one removes its own first.
  const leaving = new Set(
    all
      .map((it) => it.binding)
      .filter(isDeleting)
      .map((it) => it.spec.targetCluster),
  );
  return {
    possible: scheduled
      .filter((it) => !leaving.has(it.spec.targetCluster))
      .map((binding) => ({ binding, overrides: overridesOf(binding.spec.targetCluster) })),
    blocked: scheduled.filter((it) => leaving.has(it.spec.targetCluster)),
  };
}

/** How many clusters the placement should be on. */
export function targetOf(placement: Placement, bindings: readonly ResourceBinding[]): number {
  const { policy } = placement.spec;
  switch (policy?.placementType ?? "PickAll") {
    case "PickFixed":
      return policy?.clusterNames?.length ?? 0;
    case "PickN":
      return policy?.numberOfClusters ?? 0;
    default:
      return bindings.filter((it) => it.spec.state !== "Unscheduled").length;
  }
}

function earliest(all: readonly Classified[]): number | undefined {
  const times = all.flatMap(({ readiness }) =>
    readiness.kind === "pending" && readiness.readyInMs !== undefined ? [readiness.readyInMs] : [],
  );
  return times.length === 0 ? undefined : Math.min(...times);
}

/** Every field, with its default: what is left out is the same as what is written. */
export function completeStrategy(given: ApplyStrategy | undefined): ApplyStrategy {
  const { type = "ClientSideApply", serverSideApplyConfig, ...rest } = given ?? {};
  return {
    type,
    comparisonOption: "PartialComparison",
    whenToApply: "Always",
    whenToTakeOver: "Always",
    allowCoOwnership: false,
    ...rest,
    ...(type === "ServerSideApply"
      ? { serverSideApplyConfig: { force: serverSideApplyConfig?.force ?? false } }
      : {}),
  };
}

function sameStrategy(a: ApplyStrategy | undefined, b: ApplyStrategy | undefined): boolean {
  return sameJson(completeStrategy(a), completeStrategy(b));
}
