import { DELETE_STAGE, POLICY_INDEX_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  Placement,
  ResourceBinding,
  SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type {
  ClusterUpdatingStatus,
  StagedUpdateRun,
  StagedUpdateRunStatus,
  StagedUpdateStrategy,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { cloneJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import type { Labels } from "@fairlead/kube/objects/selector.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { mark, type Moment } from "./conditions.ts";
import { divide, faultOf, newStage } from "./stages.ts";
import { clusterCountOf, schedulingOf, type Targets, targetsOf } from "./targets.ts";

/** What a run is made from. */
export interface Ground {
  readonly placement: Placement | undefined;
  /** The latest one. */
  readonly policy: SchedulingPolicySnapshot | undefined;
  /** Those of the placement. */
  readonly bindings: readonly ResourceBinding[];
  readonly strategy: StagedUpdateStrategy | undefined;
  /** Undefined: there is no such member. */
  readonly labelsOf: (cluster: string) => Labels;
}

/** The clusters and stages of a run. */
export interface Frozen {
  readonly placement: Placement;
  readonly policy: SchedulingPolicySnapshot;
  readonly strategy: StagedUpdateStrategy;
  readonly stages: readonly (readonly string[])[];
  readonly targets: Targets;
}

/** Why a run has no stages: `fault` is final; `pending` is what it waits for. */
export type Unready = { readonly fault: string } | { readonly pending: string };

/** How many of the clusters that were not picked a condition names. */
const NAMED_CLUSTERS = 10;
/** The API server's limit on the message of a condition. Unit: characters. */
const MAX_MESSAGE = 32_768;

/** Finds out which clusters a run updates in which order. */
export function survey(run: StagedUpdateRun, ground: Ground): Frozen | Unready {
  const { placementName, stagedRolloutStrategyName } = run.spec;
  const { placement, strategy } = ground;
  if (placement === undefined || isDeleting(placement))
    return { fault: `placement ${placementName} does not exist, or is being deleted` };
  if (placement.spec.strategy?.type !== "External")
    return { fault: `spec.strategy.type of placement ${placementName} is not External` };
  const picked = pickedClusters(placementName, ground);
  if (!("targets" in picked)) return picked;
  const named = `update strategy ${stagedRolloutStrategyName}`;
  if (strategy === undefined) return { fault: `${named} does not exist` };
  const fault = faultOf(strategy.spec);
  if (fault !== undefined) return { fault: `${named}: ${fault}` };
  const divided = divide(strategy.spec, labelled(picked.targets.scheduled.keys(), ground.labelsOf));
  return "fault" in divided
    ? { fault: `${named}: ${divided.fault}` }
    : { placement, ...picked, strategy, stages: divided.stages };
}

function pickedClusters(
  placement: string,
  { policy, bindings }: Ground,
): Pick<Frozen, "policy" | "targets"> | Unready {
  if (policy === undefined) return { pending: `placement ${placement} has no latest policy snapshot yet` };
  const { name } = policy.metadata;
  const scheduling = schedulingOf(policy);
  if (scheduling === "no") return { pending: unscheduled(policy) };
  if (scheduling === "pending")
    return { pending: `the scheduler has not decided about policy snapshot ${name} yet` };
  const targets = targetsOf(bindings);
  const { scheduled, leaving } = targets;
  const old = [...scheduled.values()].find((it) => it.spec.schedulingPolicySnapshotName !== name);
  if (old !== undefined)
    return {
      pending: `binding ${old.metadata.name} still belongs to policy snapshot ${old.spec.schedulingPolicySnapshotName}`,
    };
  if (scheduled.size + leaving.size === 0)
    return { pending: `the scheduler has picked no cluster for placement ${placement}` };
  const count = clusterCountOf(policy) ?? scheduled.size;
  if (count !== scheduled.size)
    return { pending: `the policy asks for ${count} clusters, and ${scheduled.size} are scheduled` };
  return { policy, targets };
}

/** A refusal holds for the moment: a member that has just joined, or a hub that has just started, is not eligible for some seconds. */
function unscheduled({ metadata, status }: SchedulingPolicySnapshot): string {
  const refused = (status?.targetClusters ?? []).filter((it) => !it.selected);
  const reasons = refused.slice(0, NAMED_CLUSTERS).map((it) => `${it.clusterName} (${it.reason})`);
  const more = refused.length > NAMED_CLUSTERS ? [`${refused.length - NAMED_CLUSTERS} more`] : [];
  const why = findCondition(status?.conditions, "Scheduled")?.message ?? "";
  const parts = [
    `the scheduler cannot pick all clusters of policy snapshot ${metadata.name}${why === "" ? "" : `: ${why}`}`,
    ...(refused.length === 0 ? [] : [`not picked: ${[...reasons, ...more].join(", ")}`]),
  ];
  return parts.join("; ").slice(0, MAX_MESSAGE);
}

export function labelled(clusters: Iterable<string>, labelsOf: Ground["labelsOf"]): Map<string, Labels> {
  return new Map([...clusters].map((it) => [it, labelsOf(it)]));
}

/** The override snapshots that apply on a cluster. */
export type OverridesOf = (
  cluster: string,
) => Pick<ClusterUpdatingStatus, "resourceOverrideSnapshots" | "clusterResourceOverrideSnapshots">;

/** The status of a run that is ready to be executed. */
export function initialized(
  run: StagedUpdateRun,
  { placement, policy, strategy, stages, targets }: Frozen,
  { index, overridesOf }: { readonly index: string; readonly overridesOf: OverridesOf },
  nowMs: number,
): StagedUpdateRunStatus {
  const status: StagedUpdateRunStatus = {
    ...policyUsed(policy, targets),
    resourceSnapshotIndexUsed: index,
    ...(placement.spec.strategy?.applyStrategy === undefined
      ? {}
      : { appliedStrategy: placement.spec.strategy.applyStrategy }),
    stagedUpdateStrategySnapshot: strategy.spec,
    stagesStatus: strategy.spec.stages.map((config, at) =>
      newStage(
        run.metadata.name,
        config,
        (stages[at] ?? []).map((clusterName) => ({ clusterName, ...overridesOf(clusterName) })),
      ),
    ),
    deletionStageStatus: {
      stageName: DELETE_STAGE,
      clusters: [...targets.leaving.keys()].toSorted(byText).map((clusterName) => ({ clusterName })),
    },
  };
  mark(status, momentOf(run, nowMs), [
    "Initialized",
    "True",
    "UpdateRunInitializedSuccessfully",
    "the stages are computed and the run can start",
  ]);
  return status;
}

/** By which a run finds out that the policy changed. */
export function policyUsed(
  policy: SchedulingPolicySnapshot,
  { scheduled }: Targets,
): Pick<StagedUpdateRunStatus, "policySnapshotIndexUsed" | "policyObservedClusterCount"> {
  return {
    policySnapshotIndexUsed: policy.metadata.labels?.[POLICY_INDEX_LABEL] ?? "",
    policyObservedClusterCount: clusterCountOf(policy) ?? scheduled.size,
  };
}

/** The status of a run that cannot be made. */
export function uninitialized(run: StagedUpdateRun, why: Unready, nowMs: number): StagedUpdateRunStatus {
  const status: StagedUpdateRunStatus = cloneJson(run.status ?? {});
  mark(
    status,
    momentOf(run, nowMs),
    "fault" in why
      ? ["Initialized", "False", "UpdateRunInitializedFailed", why.fault]
      : ["Initialized", "Unknown", "UpdateRunWaiting", why.pending],
  );
  return status;
}

export function momentOf({ metadata: { generation = 0 } }: StagedUpdateRun, nowMs: number): Moment {
  return { nowMs, generation };
}
