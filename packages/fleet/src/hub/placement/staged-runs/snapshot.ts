import { FleetError } from "@fairlead/base/errors.ts";
import { RESOURCE_INDEX_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { Placement, ResourceSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { StagedUpdateRun } from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { indexOfResources, isMaster } from "#placement/snapshots/resources.ts";
import type { Unready } from "#updates/staged/initialize.ts";
import { OF_PLACEMENT, placementOfRun, type ScopeInformers } from "../informers.ts";
import type { Selecting } from "../selecting.ts";

export interface PickedSnapshot {
  readonly snapshot: ResourceSnapshot;
  readonly index: string;
}

/** The resource snapshot that a run rolls out: the one that it names, or that of what the placement selects now. */
export async function pickSnapshot(
  run: StagedUpdateRun,
  placement: Placement,
  { of, snapshotNow }: { readonly of: ScopeInformers; readonly snapshotNow: Selecting["snapshotNow"] },
  signal: AbortSignal,
): Promise<PickedSnapshot | Unready> {
  const { placementName, resourceSnapshotIndex: index = "" } = run.spec;
  if (index === "") {
    const found = await snapshotNow(placementOfRun(run), placement, signal);
    if (found === undefined)
      return { pending: `it is not known yet what placement ${placementName} selects` };
    if ("problem" in found) return { fault: `placement ${placementName}: ${found.problem}` };
    return { snapshot: found, index: found.metadata.labels?.[RESOURCE_INDEX_LABEL] ?? "" };
  }
  if (!/^\d{1,15}$/.test(index))
    return { fault: `spec.resourceSnapshotIndex: "${index}" is not an integer of 0 or more` };
  const snapshot = findMaster(run, index, of);
  return snapshot === undefined
    ? { fault: `spec.resourceSnapshotIndex: placement ${placementName} has no resource snapshot ${index}` }
    : { snapshot, index };
}

/** The snapshot that an initialized run rolls out. */
export function snapshotOf(run: StagedUpdateRun, of: ScopeInformers): ResourceSnapshot {
  const index = run.status?.resourceSnapshotIndexUsed ?? "";
  const snapshot = findMaster(run, index, of);
  if (snapshot === undefined)
    throw new FleetError(
      "API_NOT_FOUND",
      `placement ${run.spec.placementName} has no resource snapshot ${index}`,
    );
  return snapshot;
}

function findMaster(
  run: StagedUpdateRun,
  index: string,
  { resourceSnapshots }: ScopeInformers,
): ResourceSnapshot | undefined {
  return [...resourceSnapshots.store.byIndex(OF_PLACEMENT, placementOfRun(run))]
    .filter(isMaster)
    .find((it) => indexOfResources(it) === Number(index));
}
