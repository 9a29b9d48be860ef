import type { KubeClient } from "@fairlead/kube/types.ts";
import { RESOURCE_HASH_ANNOTATION } from "#api/placement.kubernetes-fleet.io/names.ts";
import { renderAge, renderTable } from "../table.ts";
import { type PlacementName, readPlacement } from "./read.ts";

/** The resource snapshots of a placement, and which clusters have them. */

export interface History {
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  /** The newest first. */
  readonly snapshots: readonly {
    readonly index: number;
    readonly latest: boolean;
    readonly created: string;
    readonly objects: number;
    readonly hash: string;
    readonly clusters: readonly string[];
  }[];
}

export async function historyOnHub(
  hub: KubeClient,
  of: PlacementName,
  signal: AbortSignal,
): Promise<History> {
  const { kind, snapshots } = await readPlacement(hub, of, signal);
  return {
    kind,
    ...(of.namespace === undefined ? {} : { namespace: of.namespace }),
    name: of.name,
    snapshots: snapshots.map(({ index, isLatest, master: { metadata }, objects, clusters }) => ({
      index,
      latest: isLatest,
      created: metadata.creationTimestamp ?? "",
      objects: objects.length,
      hash: metadata.annotations?.[RESOURCE_HASH_ANNOTATION] ?? "",
      clusters,
    })),
  };
}

export function renderHistory({ snapshots }: History, nowMs: number): string {
  if (snapshots.length === 0) return "No resource snapshot was made yet.";
  const shown = (names: readonly string[]): string =>
    names.length <= MAX_NAMES
      ? names.join(",")
      : `${names.slice(0, MAX_NAMES).join(",")} and ${names.length - MAX_NAMES} more`;
  return renderTable(
    [
      { head: "INDEX", cell: (it) => `${it.index}${it.latest ? " (latest)" : ""}` },
      { head: "AGE", cell: (it) => renderAge(nowMs - Date.parse(it.created)) },
      { head: "OBJECTS", cell: (it) => String(it.objects) },
      { head: "HASH", cell: (it) => it.hash.slice(0, 12) },
      { head: "CLUSTERS", cell: (it) => (it.clusters.length === 0 ? "-" : shown(it.clusters)) },
    ],
    snapshots,
  );
}
const MAX_NAMES = 5;
