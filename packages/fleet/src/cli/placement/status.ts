import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type {
  PerClusterPlacementStatus,
  PlacementStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { renderTable } from "../table.ts";
import { nameOf } from "./changes.ts";
import { type PlacementName, readPlacement } from "./read.ts";

/** How far a placement is, as its status says. */

export interface PlacementReport {
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  /** Whether the status is of what the placement says now. */
  readonly current: boolean;
  readonly status: PlacementStatus;
}

export async function statusOnHub(
  hub: KubeClient,
  of: PlacementName,
  signal: AbortSignal,
): Promise<PlacementReport> {
  const { kind, placement } = await readPlacement(hub, of, signal);
  const { metadata, status = {} } = placement;
  const current = (status.conditions ?? []).every((it) => it.observedGeneration === metadata.generation);
  return {
    kind,
    ...(of.namespace === undefined ? {} : { namespace: of.namespace }),
    name: of.name,
    current: current && status.conditions !== undefined,
    status,
  };
}

export function renderStatus({ kind, namespace, name, current, status }: PlacementReport): string {
  const full = namespace === undefined ? name : `${namespace}/${name}`;
  const {
    conditions = [],
    placementStatuses = [],
    observedResourceIndex = "",
    selectedResources = [],
  } = status;
  if (conditions.length === 0) return `${kind} ${full} has no status yet: is "fairlead hub" running?`;
  const resources = `${selectedResources.length} ${selectedResources.length === 1 ? "object" : "objects"} selected`;
  const snapshot = observedResourceIndex === "" ? "no snapshot" : `snapshot ${observedResourceIndex}`;
  const head = `${kind} ${full}: ${resources}, ${snapshot}${current ? "" : "; the status is older than the placement"}`;
  const details = placementStatuses.flatMap(renderDetails);
  return [
    head,
    "",
    renderConditions(conditions),
    ...(placementStatuses.length === 0 ? [] : ["", renderClusters(placementStatuses)]),
    ...(details.length === 0 ? [] : ["", ...details]),
  ].join("\n");
}

function renderConditions(conditions: readonly Condition[]): string {
  return renderTable(
    [
      { head: "CONDITION", cell: ({ type }) => type.replace(/^(Cluster)?ResourcePlacement/, "") },
      { head: "STATUS", cell: (it) => it.status },
      { head: "REASON", cell: (it) => it.reason },
      { head: "MESSAGE", cell: (it) => it.message },
    ],
    conditions,
  );
}

function renderClusters(clusters: readonly PerClusterPlacementStatus[]): string {
  const count = (entries: readonly unknown[] = []): string =>
    entries.length === 0 ? "-" : String(entries.length);
  return renderTable(
    [
      { head: "CLUSTER", cell: (it) => it.clusterName ?? "(none)" },
      { head: "SNAPSHOT", cell: (it) => it.observedResourceIndex ?? "-" },
      { head: "STATE", cell: (it) => stateOf(it).state },
      { head: "FAILED", cell: (it) => count(it.failedPlacements) },
      { head: "DRIFTED", cell: (it) => count(it.driftedPlacements) },
      { head: "DIFFERENT", cell: (it) => count(it.diffedPlacements) },
      { head: "REASON", cell: (it) => stateOf(it).reason },
    ],
    clusters,
  );
}

/** The last stage that is judged: the first that is not True, or the last. */
function stateOf({ conditions = [] }: PerClusterPlacementStatus): {
  readonly state: string;
  readonly reason: string;
} {
  const last = conditions.find((it) => it.status !== "True") ?? conditions.at(-1);
  if (last === undefined) return { state: "-", reason: "-" };
  const state = last.status === "True" ? last.type : `${last.type}=${last.status}`;
  return { state, reason: last.status === "True" ? last.reason : `${last.reason}: ${last.message}` };
}

function renderDetails({
  clusterName = "",
  failedPlacements = [],
  driftedPlacements = [],
  diffedPlacements = [],
}: PerClusterPlacementStatus): string[] {
  const failed = failedPlacements.map(
    (it) => `${clusterName}: ${nameOf(it)} failed: ${it.condition.message}`,
  );
  const drifted = driftedPlacements.map(
    (it) =>
      `${clusterName}: ${nameOf(it)} drifted since ${it.firstDriftedObservedTime}${pathsOf(it.observedDrifts)}`,
  );
  const differ = diffedPlacements.map(
    (it) =>
      `${clusterName}: ${nameOf(it)} differs since ${it.firstDiffedObservedTime}${pathsOf(it.observedDiffs)}`,
  );
  return [...failed, ...drifted, ...differ].slice(0, MAX_LINES);
}
/** Of each cluster; `-o yaml` shows all that the status has. */
const MAX_LINES = 10;

function pathsOf(details: readonly { readonly path: string }[] = []): string {
  return details.length === 0 ? "" : `: ${details.map((it) => it.path).join(", ")}`;
}
