import { createHash } from "node:crypto";
import { jsonKey, sameJson } from "@fairlead/base/json.ts";
import {
  LATEST_SNAPSHOT_LABEL,
  NUMBER_OF_CLUSTERS_ANNOTATION,
  PARENT_PLACEMENT_LABEL,
  PLACEMENT_GENERATION_ANNOTATION,
  POLICY_INDEX_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  Placement,
  PlacementPolicy,
  ResourceBinding,
  SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { historyLimit, indexInName, indexOf, isLatest, latestOf, nextIndex, surplus } from "./history.ts";

export interface PolicyInput {
  readonly placement: Placement;
  readonly snapshots: readonly SchedulingPolicySnapshot[];
  readonly bindings: readonly ResourceBinding[];
}
/** In this order: first what is removed, then what is latest no longer, then one of the others. */
export interface PolicyPlan {
  readonly remove: readonly SchedulingPolicySnapshot[];
  readonly unlabel: readonly SchedulingPolicySnapshot[];
  readonly create?: SchedulingPolicySnapshot;
  readonly update?: {
    readonly snapshot: SchedulingPolicySnapshot;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string | null>>;
  };
}

/**
 * A new snapshot for a new policy. The number of clusters is not part of it: a snapshot whose policy stays receives the new number and
 * the generation of the placement that it stands for.
 */
export function planPolicySnapshot({ placement, snapshots, bindings }: PolicyInput): PolicyPlan {
  const policy = scheduledPolicy(placement.spec.policy);
  const latest = latestOf(snapshots, POLICY_INDEX_LABEL);
  if (latest !== undefined && sameJson(latest.spec.policy, policy)) return keep(placement, snapshots, latest);
  const { name } = placement.metadata;
  const index = nextIndex([
    ...snapshots.map((it) => indexOf(it, POLICY_INDEX_LABEL)),
    ...bindings.map((it) => indexInName(it.spec.schedulingPolicySnapshotName, name) ?? -1),
  ]);
  const oldestFirst = snapshots.toSorted(
    (a, b) => indexOf(a, POLICY_INDEX_LABEL) - indexOf(b, POLICY_INDEX_LABEL),
  );
  const remove = surplus(oldestFirst, historyLimit(placement));
  return {
    remove,
    unlabel: snapshots.filter((it) => isLatest(it) && !remove.includes(it)),
    create: policySnapshot(placement, index, policy),
  };
}

function keep(
  placement: Placement,
  snapshots: readonly SchedulingPolicySnapshot[],
  snapshot: SchedulingPolicySnapshot,
): PolicyPlan {
  const unlabel = snapshots.filter((it) => it !== snapshot && isLatest(it));
  const current = snapshot.metadata.annotations ?? {};
  const wanted = annotationsFor(placement);
  const annotations: Record<string, string | null> = { ...wanted };
  if (
    wanted[NUMBER_OF_CLUSTERS_ANNOTATION] === undefined &&
    current[NUMBER_OF_CLUSTERS_ANNOTATION] !== undefined
  )
    annotations[NUMBER_OF_CLUSTERS_ANNOTATION] = null;
  const isSame = isLatest(snapshot) && Object.entries(annotations).every(([key, it]) => current[key] === it);
  if (isSame) return { remove: [], unlabel };
  return {
    remove: [],
    unlabel,
    update: { snapshot, labels: { [LATEST_SNAPSHOT_LABEL]: "true" }, annotations },
  };
}

/**
 * Without the number of clusters, and without what is required during execution: to change these picks no cluster afresh. Undefined if
 * the placement has no policy.
 */
function scheduledPolicy(policy: PlacementPolicy | undefined): PlacementPolicy | undefined {
  if (policy === undefined) return undefined;
  const { numberOfClusters: _, requiredDuringExecution: __, ...rest } = policy;
  return rest;
}

/** SHA-256 in hexadecimal digits. */
export function policyHash(policy: PlacementPolicy | undefined): string {
  const text = jsonKey(scheduledPolicy(policy) ?? null);
  return createHash("sha256").update(text).digest("hex");
}

function annotationsFor({ metadata, spec: { policy } }: Placement): Record<string, string> {
  return {
    [PLACEMENT_GENERATION_ANNOTATION]: String(metadata.generation ?? 0),
    ...(policy?.numberOfClusters === undefined
      ? {}
      : { [NUMBER_OF_CLUSTERS_ANNOTATION]: String(policy.numberOfClusters) }),
  };
}

function policySnapshot(
  placement: Placement,
  index: number,
  policy: PlacementPolicy | undefined,
): SchedulingPolicySnapshot {
  const { name, namespace } = placement.metadata;
  return {
    metadata: {
      name: `${name}-${index}`,
      ...(namespace === undefined ? {} : { namespace }),
      labels: {
        [PARENT_PLACEMENT_LABEL]: name,
        [LATEST_SNAPSHOT_LABEL]: "true",
        [POLICY_INDEX_LABEL]: String(index),
      },
      annotations: annotationsFor(placement),
    },
    spec: {
      ...(policy === undefined ? {} : { policy }),
      // Of type []byte in Go: the API has it in base64.
      policyHash: Buffer.from(policyHash(policy)).toString("base64"),
    },
  };
}
