import type {
  PatchDetail,
  PerClusterPlacementStatus,
  ResourceIdentifier,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** The part of a status that grows with the number of clusters and of resources. */
export interface Report {
  readonly selectedResources: readonly ResourceIdentifier[];
  readonly placementStatuses: readonly PerClusterPlacementStatus[];
}

/**
 * Most of a report: etcd takes an object of 1.5 MiB by default, and the placement has a spec, conditions and managed fields as well.
 * Unit: characters of JSON.
 */
const MAX_REPORT = 1_200_000;
const MAX_RESOURCES = 400_000;

/**
 * The report if it fits, else without what people need least: values of differences, then entries beyond 10 of each cluster, then all
 * entries, then the messages of conditions that are True. The bindings and Works have all of it.
 */
export function bounded(report: Report, max = MAX_REPORT): Report {
  if (sizeOf(report) <= max) return report;
  const maxResources = Math.min(MAX_RESOURCES, max / 3);
  const selectedResources = firstOf(report.selectedResources, maxResources);
  let { placementStatuses } = report;
  for (const shorten of [withoutValues, withEntries(10), withEntries(0), withoutMessages]) {
    const result = { selectedResources, placementStatuses };
    if (sizeOf(result) <= max) return result;
    placementStatuses = placementStatuses.map(shorten);
  }
  const rest = max - sizeOf(selectedResources);
  return { selectedResources, placementStatuses: firstOf(placementStatuses, rest) };
}

function sizeOf(value: unknown): number {
  return JSON.stringify(value).length;
}

function firstOf<T>(items: readonly T[], max: number): T[] {
  let size = 0;
  return items.filter((it) => (size += sizeOf(it) + 1) <= max);
}

function withoutValues(it: PerClusterPlacementStatus): PerClusterPlacementStatus {
  const paths = (details: readonly PatchDetail[] = []): PatchDetail[] =>
    details.map(({ path }) => ({ path }));
  const { driftedPlacements, diffedPlacements } = it;
  return {
    ...it,
    ...(driftedPlacements === undefined
      ? {}
      : {
          driftedPlacements: driftedPlacements.map((of) => ({
            ...of,
            observedDrifts: paths(of.observedDrifts),
          })),
        }),
    ...(diffedPlacements === undefined
      ? {}
      : {
          diffedPlacements: diffedPlacements.map((of) => ({ ...of, observedDiffs: paths(of.observedDiffs) })),
        }),
  };
}

function withEntries(max: number): (it: PerClusterPlacementStatus) => PerClusterPlacementStatus {
  return ({ failedPlacements, driftedPlacements, diffedPlacements, ...rest }) => ({
    ...rest,
    ...(max === 0 || failedPlacements === undefined
      ? {}
      : { failedPlacements: failedPlacements.slice(0, max) }),
    ...(max === 0 || driftedPlacements === undefined
      ? {}
      : { driftedPlacements: driftedPlacements.slice(0, max) }),
    ...(max === 0 || diffedPlacements === undefined
      ? {}
      : { diffedPlacements: diffedPlacements.slice(0, max) }),
  });
}

function withoutMessages(it: PerClusterPlacementStatus): PerClusterPlacementStatus {
  const conditions = (it.conditions ?? []).map((of) => (of.status === "True" ? { ...of, message: "" } : of));
  return { ...it, conditions };
}
