import { byText } from "@fairlead/base/text.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { findCondition, type NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { RESOURCE_INDEX_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  ClusterDecision,
  PerClusterPlacementStatus,
  Placement,
  PlacementSpec,
  ResourceBinding,
  ResourceIdentifier,
  ResourceSnapshot,
  SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { clusterStatus, unscheduledStatus } from "./cluster.ts";
import { ALL_STAGES, OVERALL, type Stage, stagesOf } from "./stages.ts";

export interface StatusInput {
  readonly placement: Placement;
  /** Before each type of condition. */
  readonly prefix: string;
  /** The latest one; undefined before it is made. */
  readonly policy: SchedulingPolicySnapshot | undefined;
  /** The master of the latest ones; undefined before it is made. */
  readonly snapshot: ResourceSnapshot | undefined;
  readonly bindings: readonly ResourceBinding[];
  /** What is selected now. */
  readonly resources: readonly ResourceIdentifier[];
}
/** The status of a placement; conditions without their times. */
export interface DesiredStatus {
  readonly selectedResources: readonly ResourceIdentifier[];
  readonly observedResourceIndex: string;
  readonly placementStatuses: readonly PerClusterPlacementStatus[];
  readonly conditions: readonly NewCondition[];
}

/** Types of all conditions of placements that the hub sets. */
export function ownConditions(prefix: string): Set<string> {
  return new Set(["Scheduled", ...ALL_STAGES, "StatusSynced"].map((it) => `${prefix}${it}`));
}

export function placementStatus(input: StatusInput): DesiredStatus {
  const { placement, policy, snapshot, resources } = input;
  const observedResourceIndex = snapshot?.metadata.labels?.[RESOURCE_INDEX_LABEL] ?? "";
  const seen = { selectedResources: resources, observedResourceIndex };
  const scheduled = scheduledCondition(input);
  // Which clusters are picked is not known: nothing else is.
  if (scheduled.status === "Unknown" || policy === undefined)
    return { ...seen, placementStatuses: [], conditions: [scheduled] };
  const decisions = policy.status?.targetClusters ?? [];
  const picked = pickedStatuses(
    input,
    decisions.filter((it) => it.selected),
  );
  const missing = missingStatuses(input, decisions);
  const placementStatuses = [...picked, ...missing];
  if (picked.length === 0) return { ...seen, placementStatuses, conditions: [scheduled] };
  if (isExternal(placement)) {
    const index = commonIndex(picked);
    if (index === undefined)
      return {
        selectedResources: [],
        observedResourceIndex: "",
        placementStatuses,
        conditions: [scheduled, controlledByOthers(input)],
      };
    const conditions = [scheduled, ...overall(input, picked)];
    return { ...seen, observedResourceIndex: index, placementStatuses, conditions };
  }
  return { ...seen, placementStatuses, conditions: [scheduled, ...overall(input, picked)] };
}

export function isExternal({ spec }: Placement): boolean {
  return spec.strategy?.type === "External";
}

/** The index that all picked clusters have; undefined if they differ, or one has none. */
function commonIndex(picked: readonly PerClusterPlacementStatus[]): string | undefined {
  const indexes = new Set(picked.map((it) => it.observedResourceIndex));
  return indexes.size === 1 ? picked[0]?.observedResourceIndex : undefined;
}

function controlledByOthers({ placement, prefix }: StatusInput): NewCondition {
  return {
    type: `${prefix}RolloutStarted`,
    status: "Unknown",
    ...observed(placement),
    reason: "RolloutControlledByExternalController",
    message: "Update runs roll the resources out; the clusters do not all have the same resource snapshot",
  };
}

/** Whether the scheduler has picked clusters for this generation of the placement, and each of them has its binding. */
export function isDecided(
  placement: Placement,
  policy: SchedulingPolicySnapshot | undefined,
  bindings: readonly ResourceBinding[],
): boolean {
  const found = policy === undefined ? undefined : currentDecision(placement, policy);
  if (found === undefined || found.status === "Unknown") return false;
  const picked = (policy?.status?.targetClusters ?? []).filter((it) => it.selected);
  return picked.length <= bindings.length;
}

/** As the scheduler says, if it speaks of this generation of the placement. */
function scheduledCondition({ placement, prefix, policy }: StatusInput): NewCondition {
  const type = `${prefix}Scheduled`;
  const found = policy === undefined ? undefined : currentDecision(placement, policy);
  if (found === undefined || found.status === "Unknown")
    return {
      type,
      status: "Unknown",
      ...observed(placement),
      reason: "SchedulePending",
      message: "The scheduler has not picked clusters for this generation of the placement yet",
    };
  const { status, reason, message } = found;
  return { type, status, ...observed(placement), reason, message };
}

function currentDecision(
  { metadata: { generation = 0 } }: Placement,
  { metadata, status }: SchedulingPolicySnapshot,
): Condition | undefined {
  const found = findCondition(status?.conditions, "Scheduled");
  const isCurrent =
    (found?.observedGeneration ?? 0) >= (metadata.generation ?? 0) &&
    (status?.observedCRPGeneration ?? 0) >= generation;
  return isCurrent ? found : undefined;
}

function observed({ metadata: { generation } }: Placement): { observedGeneration: number } {
  return { observedGeneration: generation ?? 0 };
}

function pickedStatuses(
  { placement, policy, snapshot, bindings }: StatusInput,
  decisions: readonly ClusterDecision[],
): PerClusterPlacementStatus[] {
  const byCluster = new Map<string, ResourceBinding>();
  // A cluster that is picked again while its binding goes has two for a moment.
  for (const it of bindings)
    if (it.spec.state !== "Unscheduled" && it.metadata.deletionTimestamp === undefined)
      byCluster.set(it.spec.targetCluster, it);
  const { name, generation = 0 } = placement.metadata;
  const common = {
    placement: { name, generation },
    snapshot: isExternal(placement) ? undefined : (snapshot?.metadata.name ?? ""),
    stages: stagesOf(placement.spec.strategy?.applyStrategy),
    decidedAt: decidedAt(policy),
  };
  return decisions
    .map((decision) => clusterStatus({ ...common, decision, binding: byCluster.get(decision.clusterName) }))
    .toSorted((a, b) => byText(a.clusterName ?? "", b.clusterName ?? ""));
}

function missingStatuses(
  { placement, policy }: StatusInput,
  decisions: readonly ClusterDecision[],
): PerClusterPlacementStatus[] {
  const unselected = decisions.filter((it) => !it.selected);
  const missing = wantedClusters(placement.spec) - (decisions.length - unselected.length);
  const at = { generation: placement.metadata.generation ?? 0, decidedAt: decidedAt(policy) };
  return unselected.slice(0, Math.max(0, missing)).map((it) => unscheduledStatus(it, at));
}

/** How many clusters the policy names; 0 for PickAll, which lacks none. */
function wantedClusters({ policy }: PlacementSpec): number {
  if (policy?.placementType === "PickN") return policy.numberOfClusters ?? 0;
  return policy?.placementType === "PickFixed" ? (policy.clusterNames?.length ?? 0) : 0;
}

/** When the scheduler last decided otherwise than before. */
function decidedAt(policy: SchedulingPolicySnapshot | undefined): string {
  const found = findCondition(policy?.status?.conditions, "Scheduled");
  return found?.lastTransitionTime ?? policy?.metadata.creationTimestamp ?? "1970-01-01T00:00:00Z";
}

/** Of each stage one condition, up to the first that is not True on all clusters. */
function overall(input: StatusInput, picked: readonly PerClusterPlacementStatus[]): NewCondition[] {
  const { placement, prefix } = input;
  const conditions: NewCondition[] = [];
  for (const stage of stagesOf(placement.spec.strategy?.applyStrategy)) {
    const { status, count } = summary(stage, picked);
    const hasOverrides = picked.some(
      (it) =>
        it.applicableResourceOverrides !== undefined || it.applicableClusterResourceOverrides !== undefined,
    );
    const { reason, message } =
      stage === "Overridden" && status === "True" && !hasOverrides ? NO_OVERRIDE : OVERALL[stage][status];
    conditions.push({
      type: `${prefix}${stage}`,
      status,
      ...observed(placement),
      reason,
      message: message(count),
    });
    if (status !== "True") break;
  }
  return conditions;
}

const NO_OVERRIDE = {
  reason: "NoOverrideSpecified",
  message: (): string => "No override applies to the resources",
};

/** One that is unknown makes the whole unknown; else one that is false makes it false. */
function summary(
  stage: Stage,
  picked: readonly PerClusterPlacementStatus[],
): { readonly status: Condition["status"]; readonly count: number } {
  const of = (status: Condition["status"]): number =>
    picked.filter((it) => findCondition(it.conditions, stage)?.status === status).length;
  const unknown = of("Unknown");
  if (unknown > 0) return { status: "Unknown", count: unknown };
  const failed = of("False");
  return failed > 0 ? { status: "False", count: failed } : { status: "True", count: picked.length };
}
