import { apiVersionOf } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject, OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import {
  PARENT_PLACEMENT_LABEL,
  PARENT_PLACEMENT_NAMESPACE_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import { APPLIED_WORKS, type AppliedWork } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";

/** Owners of an object in the member: each object that a Work applied has a reference to its AppliedWork. */

export function ownerReferenceTo({ metadata: { name, uid = "" } }: AppliedWork): OwnerReference {
  return {
    apiVersion: apiVersionOf(APPLIED_WORKS),
    kind: APPLIED_WORKS.kind,
    name,
    uid,
    blockOwnerDeletion: true,
  };
}

export function isAppliedWork({ apiVersion, kind }: OwnerReference): boolean {
  return kind === APPLIED_WORKS.kind && apiVersion.startsWith(`${APPLIED_WORKS.group}/`);
}

export function isOwnedBy(object: KubeObject, { metadata: { uid } }: AppliedWork): boolean {
  return (object.metadata.ownerReferences ?? []).some((it) => isAppliedWork(it) && it.uid === uid);
}

/** What the owners of an object say about applying it for a Work. */
export interface Owners {
  readonly isOurs: boolean;
  /** The Work of another placement that owns the object. */
  readonly rival: OwnerReference | undefined;
  /** Owners that no fleet knows of. */
  readonly foreign: readonly OwnerReference[];
  /** Without references to AppliedWorks that stand for no Work any more. */
  readonly kept: readonly OwnerReference[];
}

/** @param standingOf - What the AppliedWork of a reference stands for. */
export function ownersOf(
  object: KubeObject,
  own: AppliedWork,
  standingOf: (reference: OwnerReference) => "same placement" | "other placement" | "orphaned",
): Owners {
  const all = object.metadata.ownerReferences ?? [];
  const fleet = all.filter((it) => isAppliedWork(it) && it.uid !== own.metadata.uid);
  const orphaned = new Set(fleet.filter((it) => standingOf(it) === "orphaned"));
  return {
    isOurs: isOwnedBy(object, own),
    rival: fleet.find((it) => standingOf(it) === "other placement"),
    foreign: all.filter((it) => !isAppliedWork(it)),
    kept: all.filter((it) => !orphaned.has(it)),
  };
}

/** Whether two Works were made for one placement. A Work without the label stands for itself. */
export function isSamePlacement(a: KubeObject, b: KubeObject): boolean {
  const [one, other] = [a, b].map(({ metadata: { labels = {} } }) => [
    labels[PARENT_PLACEMENT_LABEL],
    labels[PARENT_PLACEMENT_NAMESPACE_LABEL],
  ]);
  return one?.[0] !== undefined && one[0] === other?.[0] && one[1] === other?.[1];
}
