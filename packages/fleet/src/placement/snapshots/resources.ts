import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  LATEST_SNAPSHOT_LABEL,
  NEXT_SNAPSHOT_DETECTED_ANNOTATION,
  NUMBER_OF_ENVELOPES_ANNOTATION,
  NUMBER_OF_RESOURCE_SNAPSHOTS_ANNOTATION,
  PARENT_PLACEMENT_LABEL,
  PLACEMENT_GENERATION_ANNOTATION,
  RESOURCE_HASH_ANNOTATION,
  RESOURCE_INDEX_LABEL,
  SUBINDEX_ANNOTATION,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  Placement,
  ResourceBinding,
  ResourceSnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { SelectedObject } from "../selection/select.ts";
import { historyLimit, indexInName, indexOf, isLatest, latestOf, nextIndex, surplus } from "./history.ts";
import { splitIntoParts } from "./parts.ts";
import { type SnapshotPace, whenToSnapshot } from "./pace.ts";

export interface ResourcesInput {
  readonly placement: Placement;
  readonly snapshots: readonly ResourceSnapshot[];
  readonly bindings: readonly ResourceBinding[];
  /** Indexes that update runs are about to give to clusters. */
  readonly awaited?: readonly number[];
  /** Of what is selected now. */
  readonly hash: string;
  readonly pace: SnapshotPace;
  /** By the clock of the API server. */
  readonly nowMs: number;
}
/** In this order. */
export interface ResourcesPlan {
  readonly remove: readonly ResourceSnapshot[];
  readonly unlabel: readonly ResourceSnapshot[];
  /** Index of a snapshot to make now. */
  readonly create?: number;
  readonly update?: {
    readonly snapshot: ResourceSnapshot;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string | null>>;
  };
  /** A snapshot is due then. Unit: milliseconds from now. */
  readonly waitMs?: number;
}

/** Decides whether what is selected now is to become a snapshot, and what becomes of the others. */
export function planResourceSnapshot(input: ResourcesInput): ResourcesPlan {
  const { placement, snapshots, hash } = input;
  const masters = snapshots.filter(isMaster);
  const latest = latestOf(masters, RESOURCE_INDEX_LABEL);
  if (latest === undefined || !isComplete(latest, snapshots)) return create(input, masters);
  const unlabel = masters.filter((it) => it !== latest && isLatest(it));
  const annotations = latest.metadata.annotations ?? {};
  if (annotations[RESOURCE_HASH_ANNOTATION] === hash) {
    const isSame =
      isLatest(latest) &&
      annotations[PLACEMENT_GENERATION_ANNOTATION] === generationOf(placement) &&
      annotations[NEXT_SNAPSHOT_DETECTED_ANNOTATION] === undefined;
    const update = {
      snapshot: latest,
      labels: { [LATEST_SNAPSHOT_LABEL]: "true" },
      annotations: {
        [PLACEMENT_GENERATION_ANNOTATION]: generationOf(placement),
        [NEXT_SNAPSHOT_DETECTED_ANNOTATION]: null,
      },
    };
    return { remove: [], unlabel, ...(isSame ? {} : { update }) };
  }
  const due = whenToSnapshot({ placement, latest, pace: input.pace, nowMs: input.nowMs });
  if (due.waitMs <= 0) return create(input, masters);
  const update = {
    snapshot: latest,
    labels: { [LATEST_SNAPSHOT_LABEL]: "true" },
    annotations: { [NEXT_SNAPSHOT_DETECTED_ANNOTATION]: due.detectedAt },
  };
  const isNoted = annotations[NEXT_SNAPSHOT_DETECTED_ANNOTATION] === due.detectedAt && isLatest(latest);
  return { remove: [], unlabel, waitMs: due.waitMs, ...(isNoted ? {} : { update }) };
}

function create(input: ResourcesInput, masters: readonly ResourceSnapshot[]): ResourcesPlan {
  const { placement, snapshots, bindings, awaited = [] } = input;
  const { name } = placement.metadata;
  const bound = bindings.map((it) => indexInName(it.spec.resourceSnapshotName, name) ?? -1);
  const used = new Set([...bound, ...awaited]);
  const indexes = new Set(masters.map(indexOfResources));
  const oldest = masters.map(indexOfResources).toSorted((a, b) => a - b);
  // What a binding still points to is needed to make its Works again.
  const pruned = new Set(surplus(oldest, historyLimit(placement)).filter((it) => !used.has(it)));
  // A part without its master was left behind when the hub stopped before it wrote the master.
  const isGone = (it: ResourceSnapshot): boolean => {
    const index = indexOfResources(it);
    return pruned.has(index) || !indexes.has(index);
  };
  const remove = snapshots.filter(isGone);
  return {
    remove,
    unlabel: masters.filter((it) => isLatest(it) && !remove.includes(it)),
    create: nextIndex([...snapshots.map(indexOfResources), ...used]),
  };
}

export function indexOfResources(snapshot: KubeObject): number {
  return indexOf(snapshot, RESOURCE_INDEX_LABEL);
}

/** The first part, which carries what holds for all. */
export function isMaster({ metadata: { annotations } }: ResourceSnapshot): boolean {
  return annotations?.[SUBINDEX_ANNOTATION] === undefined;
}

/** Whether all parts are there. */
export function isComplete(master: ResourceSnapshot, snapshots: readonly ResourceSnapshot[]): boolean {
  const index = indexOfResources(master);
  const count = Number(master.metadata.annotations?.[NUMBER_OF_RESOURCE_SNAPSHOTS_ANNOTATION] ?? 1);
  return snapshots.filter((it) => indexOfResources(it) === index).length >= count;
}

function generationOf({ metadata }: Placement): string {
  return String(metadata.generation ?? 0);
}

/** The parts of a snapshot, the master last: where it is, the others are. */
export function resourceSnapshots(
  placement: Placement,
  content: { readonly index: number; readonly hash: string; readonly objects: readonly SelectedObject[] },
): ResourceSnapshot[] {
  const { index, hash, objects } = content;
  const [first = [], ...others] = splitIntoParts(objects);
  const envelopes = objects.filter((it) => it.content.isEnvelope).length;
  const master = part(placement, index, first, {
    name: "snapshot",
    labels: { [LATEST_SNAPSHOT_LABEL]: "true" },
    annotations: {
      [RESOURCE_HASH_ANNOTATION]: hash,
      [NUMBER_OF_RESOURCE_SNAPSHOTS_ANNOTATION]: String(others.length + 1),
      [NUMBER_OF_ENVELOPES_ANNOTATION]: String(envelopes),
      [PLACEMENT_GENERATION_ANNOTATION]: generationOf(placement),
    },
  });
  const rest = others.map((it, at) =>
    part(placement, index, it, { name: String(at), annotations: { [SUBINDEX_ANNOTATION]: String(at) } }),
  );
  return [...rest, master];
}

function part(
  { metadata: { name, namespace } }: Placement,
  index: number,
  objects: readonly SelectedObject[],
  own: {
    readonly name: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  },
): ResourceSnapshot {
  return {
    metadata: {
      name: `${name}-${index}-${own.name}`,
      ...(namespace === undefined ? {} : { namespace }),
      labels: { [PARENT_PLACEMENT_LABEL]: name, [RESOURCE_INDEX_LABEL]: String(index), ...own.labels },
      annotations: { ...own.annotations },
    },
    spec: { selectedResources: objects.map((it) => JSON.parse(it.content.json) as KubeObject) },
  };
}
