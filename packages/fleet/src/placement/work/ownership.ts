import { apiVersionOf } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject, OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import {
  PARENT_PLACEMENT_LABEL,
  PARENT_PLACEMENT_NAMESPACE_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import {
  APPLIED_WORKS,
  type AppliedWork,
  type Work,
} from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";

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
  /** The Work of another placement that owns the object, and does not share it. */
  readonly rival: OwnerReference | undefined;
  /** The Work of another placement that shares the object, and decides what it says. */
  readonly superior: OwnerReference | undefined;
  /** Owners that no fleet knows of. */
  readonly foreign: readonly OwnerReference[];
  /** Without references to AppliedWorks that stand for no Work any more. */
  readonly kept: readonly OwnerReference[];
}

export type Standing = "same placement" | "orphaned" | "rival" | "superior" | "inferior";

/** @param standingOf - What the AppliedWork of a reference stands for. */
export function ownersOf(
  object: KubeObject,
  own: AppliedWork,
  standingOf: (reference: OwnerReference) => Standing,
): Owners {
  const all = object.metadata.ownerReferences ?? [];
  const fleet = all.filter((it) => isAppliedWork(it) && it.uid !== own.metadata.uid);
  const orphaned = new Set(fleet.filter((it) => standingOf(it) === "orphaned"));
  return {
    isOurs: isOwnedBy(object, own),
    rival: fleet.find((it) => standingOf(it) === "rival"),
    superior: fleet.find((it) => standingOf(it) === "superior"),
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

/**
 * What a Work of another placement that has the same object is to this one. Both share it if both have a priority; of equal ones, the
 * Work whose name sorts first decides.
 */
export function standingOfOther(own: Work, other: Work): Standing {
  const [mine, theirs] = [own, other].map((it) => it.spec.applyStrategy?.sharedPriority);
  if (mine === undefined || theirs === undefined) return "rival";
  if (mine !== theirs) return mine < theirs ? "superior" : "inferior";
  return other.metadata.name < own.metadata.name ? "superior" : "inferior";
}
