import { FleetError } from "@fairlead/base/errors.ts";
import { defined } from "@fairlead/base/defined.ts";
import { byNaturalText } from "@fairlead/base/text.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { PARENT_PLACEMENT_LABEL, RESOURCE_INDEX_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import { CLUSTER_SCOPE, NAMESPACED_SCOPE } from "#api/placement.kubernetes-fleet.io/scopes.ts";
import type {
  Placement,
  ResourceBinding,
  ResourceSnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { indexInName, latestOf } from "#placement/snapshots/history.ts";
import { indexOfResources, isMaster } from "#placement/snapshots/resources.ts";

/** A placement on the hub with its resource snapshots and bindings, as commands read them. */

export interface PlacementName {
  readonly name: string;
  /** Of a ResourcePlacement. Undefined: a ClusterResourcePlacement. */
  readonly namespace: string | undefined;
}
export interface PlacementOnHub {
  readonly placement: Placement;
  readonly kind: string;
  /** With what they hold, the newest first. */
  readonly snapshots: readonly SnapshotOnHub[];
  readonly bindings: readonly ResourceBinding[];
}
export interface SnapshotOnHub {
  readonly index: number;
  readonly isLatest: boolean;
  readonly master: ResourceSnapshot;
  readonly objects: readonly KubeObject[];
  /** That have it, or are getting it. */
  readonly clusters: readonly string[];
}

export async function readPlacement(
  hub: KubeClient,
  { name, namespace }: PlacementName,
  signal: AbortSignal,
): Promise<PlacementOnHub> {
  const scope = namespace === undefined ? CLUSTER_SCOPE : NAMESPACED_SCOPE;
  const of = { ...defined({ namespace }), labelSelector: `${PARENT_PLACEMENT_LABEL}=${name}`, signal };
  const [placement, snapshots, bindings] = await Promise.all([
    hub.find(scope.placements, objectKey(namespace, name), { signal }),
    hub.list(scope.resourceSnapshots, of),
    hub.list(scope.bindings, of),
  ]);
  const { kind } = scope.placements;
  if (placement === undefined) throw await noPlacement(hub, { name, namespace }, signal);
  const found = snapshotsOf(name, snapshots.items, bindings.items);
  return { placement, kind, snapshots: found, bindings: bindings.items };
}

/** The most placements that a message names. */
const MAX_NAMED = 20;

/** Names the placements that there are, of both kinds. */
async function noPlacement(
  hub: KubeClient,
  { name, namespace }: PlacementName,
  signal: AbortSignal,
): Promise<FleetError> {
  const of = namespace === undefined ? CLUSTER_SCOPE : NAMESPACED_SCOPE;
  const { kind } = of.placements;
  const { items } = await hub.list(of.placements, { ...defined({ namespace }), signal });
  const names = items.map((it) => it.metadata.name).toSorted(byNaturalText);
  const more = names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : "";
  const there = names.length === 0 ? "none" : `${names.slice(0, MAX_NAMED).join(", ")}${more}`;
  const other =
    namespace === undefined
      ? "; for a ResourcePlacement, pass --namespace"
      : "; for a ClusterResourcePlacement, leave out --namespace";
  return new FleetError(
    "OPTION_INVALID",
    `the hub has no ${kind} ${objectKey(namespace, name)}: it has ${there}${other}`,
  );
}

function snapshotsOf(
  name: string,
  parts: readonly ResourceSnapshot[],
  bindings: readonly ResourceBinding[],
): SnapshotOnHub[] {
  const masters = parts.filter(isMaster).toSorted((a, b) => indexOfResources(b) - indexOfResources(a));
  const latest = latestOf(masters, RESOURCE_INDEX_LABEL);
  return masters.map((master) => {
    const index = indexOfResources(master);
    const having = bindings.filter((it) => indexInName(it.spec.resourceSnapshotName, name) === index);
    return {
      index,
      isLatest: master === latest,
      master,
      objects: parts
        .filter((it) => indexOfResources(it) === index)
        .flatMap((it) => it.spec.selectedResources),
      clusters: having.map((it) => it.spec.targetCluster).toSorted(),
    };
  });
}

/** @throws {FleetError} `OPTION_INVALID` with the snapshots that there are. */
export function snapshotAt({ placement, kind, snapshots }: PlacementOnHub, index: number): SnapshotOnHub {
  const found = snapshots.find((it) => it.index === index);
  if (found !== undefined) return found;
  const known = snapshots.map((it) => it.index).join(", ");
  throw new FleetError(
    "OPTION_INVALID",
    `${kind} ${placement.metadata.name} has no resource snapshot ${index}; it has ${known === "" ? "none" : known}`,
  );
}

export function fullName({ metadata: { name, namespace } }: KubeObject): string {
  return objectKey(namespace, name);
}
