import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import {
  LATEST_SNAPSHOT_LABEL,
  NUMBER_OF_CLUSTERS_ANNOTATION,
  PLACEMENT_GENERATION_ANNOTATION,
  POLICY_INDEX_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  PlacementPolicy,
  SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** The policy snapshot in force. While a new one takes over there is none or, for a moment, two have the label. */
export function snapshotInForce(
  all: Iterable<SchedulingPolicySnapshot>,
): SchedulingPolicySnapshot | undefined {
  const indexOf = ({ metadata }: SchedulingPolicySnapshot): number =>
    Number(metadata.labels?.[POLICY_INDEX_LABEL]);
  return [...all]
    .filter((it) => !isDeleting(it) && it.metadata.labels?.[LATEST_SNAPSHOT_LABEL] === "true")
    .toSorted((a, b) => indexOf(b) - indexOf(a))[0];
}

/** The policy of a snapshot with its number of clusters, which is an annotation so that scaling makes no new snapshot. */
export function policyOf(snapshot: SchedulingPolicySnapshot): PlacementPolicy | undefined {
  const { policy } = snapshot.spec;
  const numberOfClusters = numberIn(snapshot, NUMBER_OF_CLUSTERS_ANNOTATION);
  return policy === undefined || numberOfClusters === undefined ? policy : { ...policy, numberOfClusters };
}

export function generationOf(snapshot: SchedulingPolicySnapshot): number {
  return numberIn(snapshot, PLACEMENT_GENERATION_ANNOTATION) ?? 0;
}

function numberIn({ metadata }: SchedulingPolicySnapshot, annotation: string): number | undefined {
  const text = metadata.annotations?.[annotation];
  return text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}
