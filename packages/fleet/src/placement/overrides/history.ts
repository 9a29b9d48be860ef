import { createHash } from "node:crypto";
import { jsonKey } from "@fairlead/base/json.ts";
import { LATEST_SNAPSHOT_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  ClusterResourceOverrideSnapshot,
  ResourceOverrideSnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import { overrideIndexOf } from "./match.ts";

type Snapshot = ClusterResourceOverrideSnapshot | ResourceOverrideSnapshot;

/** Snapshots kept of each override, as KubeFleet keeps them. */
const MAX_KEPT = 10;

export interface HistoryPlan<S> {
  /** The index of a snapshot to create, as the latest. */
  readonly create: number | undefined;
  /** Snapshots whose label is wrong, and its value; once the new one is there. */
  readonly label: readonly (readonly [S, "true" | "false"])[];
  readonly remove: readonly S[];
}

/** Base64, as the API has it. */
export function overrideHash(spec: object): string {
  return createHash("sha256").update(jsonKey(spec)).digest("base64");
}

/**
 * What the snapshots of an override lack. A new one is the latest before the others cease to be: at no time is there none, in
 * which the override would seem to be gone.
 */
export function planHistory<S extends Snapshot>(spec: object, snapshots: readonly S[]): HistoryPlan<S> {
  const ordered = snapshots.toSorted((a, b) => overrideIndexOf(b) - overrideIndexOf(a));
  const [newest] = ordered;
  const isNew = newest === undefined || newest.spec.overrideHash !== overrideHash(spec);
  const kept = ordered.slice(0, isNew ? MAX_KEPT - 1 : MAX_KEPT);
  const wanted = (it: S): "true" | "false" => (it === newest && !isNew ? "true" : "false");
  return {
    create: isNew ? (newest === undefined ? -1 : overrideIndexOf(newest)) + 1 : undefined,
    label: kept
      .filter((it) => (it.metadata.labels?.[LATEST_SNAPSHOT_LABEL] ?? "false") !== wanted(it))
      .map((it) => [it, wanted(it)] as const),
    remove: ordered.slice(kept.length),
  };
}
