import { joinLines } from "@fairlead/base/print.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { byText } from "@fairlead/base/text.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import {
  PARENT_BINDING_LABEL,
  PARENT_PLACEMENT_LABEL,
  PARENT_PLACEMENT_NAMESPACE_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  PatchDetail,
  PlacementDetails,
  ResourceBinding,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type Work, WORKS } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { allDetails } from "#placement/works/details.ts";
import { nameOf } from "./changes.ts";
import type { PlacementName, PlacementOnHub } from "./read.ts";

/** All that the clusters report of single objects: the Works have it, of which bindings and placements list the first. */
export interface ClusterDetails extends Required<PlacementDetails> {
  readonly cluster: string;
  /** Works whose status is not whole, because it would be too large. */
  readonly trimmed: readonly string[];
}

/** @param cluster - The only one to read. Undefined: each one that has something to report. */
export async function detailsOnHub(
  hub: KubeClient,
  { placement, kind, bindings }: Pick<PlacementOnHub, "placement" | "kind" | "bindings">,
  cluster: string | undefined,
  signal: AbortSignal,
): Promise<ClusterDetails[]> {
  const { name, namespace } = placement.metadata;
  const asked = bindings.filter((it) => cluster === undefined || it.spec.targetCluster === cluster);
  if (cluster !== undefined && asked.length === 0)
    throw new FleetError("OPTION_INVALID", `${kind} ${name} is not placed on cluster ${cluster}`);
  const found: ClusterDetails[] = [];
  await inParallel(
    asked.filter((it) => cluster !== undefined || hasDetails(it)),
    READS_AT_ONCE,
    async (binding) => {
      const works = await worksOf(hub, { name, namespace }, binding, signal);
      const trimmed = works.filter(isTrimmed).map((it) => it.metadata.name);
      found.push({ cluster: binding.spec.targetCluster, ...allDetails(works), trimmed });
    },
  );
  return found.toSorted((a, b) => byText(a.cluster, b.cluster));
}

/** Works are large. */
const READS_AT_ONCE = 4;

function hasDetails({ status }: ResourceBinding): boolean {
  const { failedPlacements, driftedPlacements, diffedPlacements } = status ?? {};
  return [failedPlacements, driftedPlacements, diffedPlacements].some((it) => (it ?? []).length > 0);
}

async function worksOf(
  hub: KubeClient,
  { name, namespace }: PlacementName,
  { metadata, spec }: ResourceBinding,
  signal: AbortSignal,
): Promise<readonly Work[]> {
  const labelSelector = [
    `${PARENT_PLACEMENT_LABEL}=${name}`,
    `${PARENT_BINDING_LABEL}=${metadata.name}`,
    namespace === undefined
      ? `!${PARENT_PLACEMENT_NAMESPACE_LABEL}`
      : `${PARENT_PLACEMENT_NAMESPACE_LABEL}=${namespace}`,
  ].join();
  const { items } = await hub.list(WORKS, {
    namespace: mailboxOf(spec.targetCluster),
    labelSelector,
    signal,
  });
  return items;
}

function isTrimmed({ status }: Work): boolean {
  return findCondition(status?.conditions, "StatusTrimmed")?.status === "True";
}

export function renderClusterDetails(all: readonly ClusterDetails[]): string {
  if (all.length === 0) return "No cluster reports an object that failed, drifted or differs.";
  return joinLines(all.flatMap(renderCluster));
}

function renderCluster({ cluster, trimmed, ...details }: ClusterDetails): string[] {
  const { failedPlacements: failed, driftedPlacements: drifted, diffedPlacements: diffed } = details;
  return [
    `${cluster}: ${failed.length} failed, ${drifted.length} drifted, ${diffed.length} different`,
    ...failed.map((it) => `  ${nameOf(it)} failed: ${it.condition.reason}: ${it.condition.message}`),
    ...drifted.flatMap((it) => [
      `  ${nameOf(it)} drifted since ${it.firstDriftedObservedTime}`,
      ...differences(it.observedDrifts),
    ]),
    ...diffed.flatMap((it) => [
      `  ${nameOf(it)} differs since ${it.firstDiffedObservedTime}`,
      ...differences(it.observedDiffs),
    ]),
    ...trimmed.map((it) => `  Work ${it}: its status would be too large, so that details are left out`),
  ];
}

function differences(all: readonly PatchDetail[] | undefined): string[] {
  return (all ?? []).map(
    ({ path, valueInMember = "(absent)", valueInHub = "(absent)" }) =>
      `    ${path}: ${valueInMember} in the cluster, ${valueInHub} on the hub`,
  );
}
