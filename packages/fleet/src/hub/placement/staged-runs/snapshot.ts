import {
  RESOURCE_HASH_ANNOTATION,
  RESOURCE_INDEX_LABEL,
  SUBINDEX_ANNOTATION,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type { ResourceSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { StagedUpdateRun } from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { OF_PLACEMENT, type ScopeInformers } from "../informers.ts";
import { isLatest } from "./ground.ts";
import { placementOfRun } from "./informers.ts";

export type PickedSnapshot =
  | { readonly snapshot: ResourceSnapshot; readonly index: string }
  | { readonly fault: string }
  | { readonly pending: string };

/** The resource snapshot that a run rolls out: the one that it names, or the latest. */
export function pickSnapshot(run: StagedUpdateRun, informers: ScopeInformers): PickedSnapshot {
  const { placementName, resourceSnapshotIndex: index } = run.spec;
  const all = [...informers.resourceSnapshots.store.byIndex(OF_PLACEMENT, placementOfRun(run))].filter(
    isMaster,
  );
  if (index === undefined || index === "") {
    const latest = all.find(isLatest);
    return latest === undefined
      ? { pending: `placement ${placementName} has no resource snapshot yet` }
      : { snapshot: latest, index: latest.metadata.labels?.[RESOURCE_INDEX_LABEL] ?? "" };
  }
  if (!/^\d+$/.test(index))
    return { fault: `spec.resourceSnapshotIndex: "${index}" is not an integer of 0 or more` };
  const snapshot = all.find((it) => it.metadata.labels?.[RESOURCE_INDEX_LABEL] === index);
  return snapshot === undefined
    ? { fault: `spec.resourceSnapshotIndex: placement ${placementName} has no resource snapshot ${index}` }
    : { snapshot, index };
}

/** The first part of a snapshot, which bindings name. */
function isMaster({ metadata: { annotations } }: ResourceSnapshot): boolean {
  return (
    annotations?.[RESOURCE_HASH_ANNOTATION] !== undefined && annotations[SUBINDEX_ANNOTATION] === undefined
  );
}
