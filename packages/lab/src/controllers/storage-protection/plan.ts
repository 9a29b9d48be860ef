import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import type { PersistentVolume, PersistentVolumeClaim } from "@fairlead/kube/api/core/v1/volumes.ts";
import { objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";

/**
 * What is in use, and so has to stay for now.
 * Source: k8s.io/kubernetes, pkg/controller/volume/{pvcprotection,pvprotection,vacprotection}.
 */

/** The claims that a pod names. */
export function claimsOf({ metadata, spec }: Pod): ObjectKey[] {
  return (spec?.volumes ?? []).flatMap(({ persistentVolumeClaim: claim }) =>
    claim === undefined ? [] : [objectKey(metadata.namespace, claim.claimName)],
  );
}

/** Whether the pod keeps the claim: one without a node does not, since no node starts it once the claim is on its way out. */
export function usesClaim(pod: Pod, claim: ObjectKey): boolean {
  return (pod.spec?.nodeName ?? "") !== "" && claimsOf(pod).includes(claim);
}

export function isBound(volume: PersistentVolume): boolean {
  return volume.status?.phase === "Bound";
}

/** The VolumeAttributesClasses that a claim has or is to have. */
export function classesOfClaim({ spec, status }: PersistentVolumeClaim): string[] {
  return named(
    spec?.volumeAttributesClassName,
    status?.currentVolumeAttributesClassName,
    status?.modifyVolumeStatus?.targetVolumeAttributesClassName,
  );
}

export function classesOfVolume({ spec }: PersistentVolume): string[] {
  return named(spec?.volumeAttributesClassName);
}

function named(...names: readonly (string | undefined)[]): string[] {
  return [...new Set(names.flatMap((it) => (it === undefined || it === "" ? [] : [it])))];
}
