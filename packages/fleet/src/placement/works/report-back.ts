import { isObject } from "@fairlead/base/json.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { ENVELOPE_WORK_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { PlacementSpec } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { keyOfSelected, placedObject } from "../overrides/apply.ts";
import type { SelectedObject } from "../overrides/resolve.ts";

/** The status that a member reports of an object that was placed, for the object on the hub. */
export interface ReportedStatus {
  readonly object: SelectedObject;
  readonly status: Readonly<Record<string, unknown>>;
}

/** Whether the status of placed objects goes to their originals: only where one cluster at most can have them. */
export function isMirrored({ policy, strategy }: PlacementSpec): boolean {
  const { type, destination } = strategy?.reportBackStrategy ?? {};
  if (type !== "Mirror" || destination !== "OriginalResource") return false;
  if (policy?.placementType === "PickFixed") return policy.clusterNames?.length === 1;
  return policy?.placementType === "PickN" && policy.numberOfClusters === 1;
}

/**
 * What a Work reports of objects that were placed. Of others it is not taken: a member can write anything into its mailbox, and
 * must not set the status of what was not placed on it. Objects in envelopes have no originals.
 */
export function reportedStatuses(work: Work, placed: readonly KubeObject[]): readonly ReportedStatus[] {
  if (work.metadata.labels?.[ENVELOPE_WORK_LABEL] !== undefined) return [];
  const objects = new Map(placed.map(placedObject).map((it) => [keyOfSelected(it), it]));
  return (work.status?.manifestConditions ?? []).flatMap(({ identifier, backReportedStatus }) => {
    const { group = "", version = "", kind = "", namespace, name = "" } = identifier;
    const object = objects.get(keyOfSelected({ group, version, kind, namespace, name }));
    const status: unknown = backReportedStatus?.observedStatus["status"];
    return object === undefined || !isObject(status) ? [] : [{ object, status }];
  });
}
