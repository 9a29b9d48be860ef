import { oneLine } from "@fairlead/base/print.ts";
import { defined } from "@fairlead/base/defined.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type {
  PerClusterPlacementStatus,
  PlacementStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { MAX_DETAILS as MAX_ENTRIES } from "#placement/status/cluster.ts";
import { renderTable } from "../table.ts";
import { nameOf } from "./changes.ts";
import { type ClusterDetails, detailsOnHub, renderClusterDetails } from "./details.ts";
import { type PlacementName, readPlacement } from "./read.ts";

/** How far a placement is, as its status says. */

export interface PlacementReport {
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  /** Whether the status is of what the placement says now. */
  readonly current: boolean;
  readonly status: PlacementStatus;
  /** All that the clusters report, if that was asked for. */
  readonly details?: readonly ClusterDetails[];
}

export interface StatusQuestion extends PlacementName {
  /** Whether to read what the clusters report of single objects, beyond what the status holds. */
  readonly details?: boolean;
  /** The only cluster of `details`. Undefined: all. */
  readonly cluster?: string | undefined;
}

export async function statusOnHub(
  hub: KubeClient,
  of: StatusQuestion,
  signal: AbortSignal,
): Promise<PlacementReport> {
  const found = await readPlacement(hub, of, signal);
  const { kind, placement } = found;
  const { metadata, status = {} } = placement;
  const details = of.details === true ? await detailsOnHub(hub, found, of.cluster, signal) : undefined;
  const current = (status.conditions ?? []).every((it) => it.observedGeneration === metadata.generation);
  return {
    kind,
    ...defined({ namespace: of.namespace }),
    name: of.name,
    current: current && status.conditions !== undefined,
    status,
    ...defined({ details }),
  };
}

export function renderStatus(report: PlacementReport): string {
  const { kind, namespace, name, status } = report;
  const { conditions = [], placementStatuses = [] } = status;
  if (conditions.length === 0)
    return `${kind} ${objectKey(namespace, name)} has no status yet: is "fairlead hub" running?`;
  const details = detailLines(report);
  return [
    oneLine(headline(report)),
    "",
    renderConditions(conditions),
    ...(placementStatuses.length === 0 ? [] : ["", renderClusters(placementStatuses)]),
    ...(details.length === 0 ? [] : ["", ...details]),
  ].join("\n");
}

function headline({ kind, namespace, name, current, status }: PlacementReport): string {
  const { observedResourceIndex = "", selectedResources = [] } = status;
  const resources = `${selectedResources.length} ${selectedResources.length === 1 ? "object" : "objects"} selected`;
  const snapshot = observedResourceIndex === "" ? "no snapshot" : `snapshot ${observedResourceIndex}`;
  const full = objectKey(namespace, name);
  return `${kind} ${full}: ${resources}, ${snapshot}${current ? "" : "; the status is older than the placement"}`;
}

/** What the clusters report of single objects: all of it, or the first and how to see the rest. */
function detailLines({ namespace, name, status, details }: PlacementReport): string[] {
  if (details !== undefined) return [renderClusterDetails(details)];
  const { placementStatuses = [] } = status;
  const of = namespace === undefined ? name : `${name} -n ${namespace}`;
  const hint = `Not all is shown: fairlead placement status ${of} --details`;
  return [
    ...placementStatuses.flatMap(renderDetails).map(oneLine),
    ...(placementStatuses.some(isShortened) ? [hint] : []),
  ];
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
    entries.length === 0 ? "-" : `${entries.length}${entries.length < MAX_ENTRIES ? "" : "+"}`;
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
/** Of each cluster; `--details` shows all. */
const MAX_LINES = 10;

/** Whether the lines of a cluster leave something out. */
function isShortened(of: PerClusterPlacementStatus): boolean {
  const { failedPlacements = [], driftedPlacements = [], diffedPlacements = [] } = of;
  const entries = failedPlacements.length + driftedPlacements.length + diffedPlacements.length;
  const differences = [
    ...driftedPlacements.map((it) => it.observedDrifts),
    ...diffedPlacements.map((it) => it.observedDiffs),
  ];
  return entries > MAX_LINES || differences.some((it = []) => it.length >= MAX_ENTRIES);
}

function pathsOf(details: readonly { readonly path: string }[] = []): string {
  return details.length === 0 ? "" : `: ${details.map((it) => it.path).join(", ")}`;
}
