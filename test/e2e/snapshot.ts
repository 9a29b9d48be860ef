/** All lasting objects of a cluster, to find out what a run leaves behind. */

import type { Clusters } from "./clusters.ts";

/** Text of each object by "KINDS namespace/name". */
export type Snapshot = ReadonlyMap<string, string>;

export interface AnyObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly finalizers?: readonly string[];
    readonly ownerReferences?: readonly { readonly uid: string; readonly controller?: boolean }[];
  };
  readonly [field: string]: unknown;
}

/** Objects that Kubernetes creates by itself, and measurements. */
const TRANSIENT =
  /^(events|events\.events\.k8s\.io|leases\.coordination\.k8s\.io|componentstatuses|endpoints|.*\.metrics\.k8s\.io)$/;

/** Written by Kubernetes' controllers on objects of others. */
const TRANSIENT_ANNOTATION =
  /^(deployment\.kubernetes\.io\/|control-plane\.alpha\.kubernetes\.io\/|kubectl\.kubernetes\.io\/restartedAt)/;

export async function takeSnapshot(clusters: Clusters, cluster: string): Promise<Snapshot> {
  const listed = await clusters.kubectl(cluster, ["api-resources", "--verbs=list", "-o", "name"]);
  const kinds = listed.split("\n").filter((it) => it !== "" && !TRANSIENT.test(it));
  const all = await clusters.find<{ readonly items: readonly AnyObject[] }>(cluster, [kinds.join(), "-A"]);
  return snapshotOf(all?.items ?? []);
}

/** Objects that a controller makes for another are left out while that one exists: a pod may be replaced at any time. */
export function snapshotOf(objects: readonly AnyObject[]): Snapshot {
  const present = new Set(objects.map((it) => it.metadata.uid));
  const owned = (it: AnyObject): boolean =>
    it.metadata.ownerReferences?.some((owner) => owner.controller === true && present.has(owner.uid)) ===
    true;
  return new Map(objects.filter((it) => !owned(it)).map((it) => [keyOf(it), lasting(it)]));
}

function keyOf({ apiVersion, kind, metadata }: AnyObject): string {
  const slash = apiVersion.indexOf("/");
  const group = slash < 0 ? "" : `.${apiVersion.slice(0, slash)}`;
  return `${kind}${group} ${metadata.namespace ?? ""}/${metadata.name}`;
}

function lasting(object: AnyObject): string {
  // Of a node nothing is ours, and much changes.
  if (object.kind === "Node") return "";
  const { labels = {}, annotations = {} } = object.metadata;
  const kept = Object.entries(annotations).filter(([key]) => !TRANSIENT_ANNOTATION.test(key));
  const { status: _status, metadata: _metadata, ...rest } = object;
  return JSON.stringify(sorted({ ...rest, labels, annotations: Object.fromEntries(kept) }));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((it) => sorted(it));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([key]) => key !== "restartedAt");
  return Object.fromEntries(
    entries.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, it]) => [key, sorted(it)]),
  );
}

/** Names of new, deleted and changed objects. */
export function differences(before: Snapshot, after: Snapshot): readonly string[] {
  return [
    ...[...after.keys()].filter((it) => !before.has(it)).map((it) => `left behind: ${it}`),
    ...[...before.keys()].filter((it) => !after.has(it)).map((it) => `gone: ${it}`),
    ...[...after]
      .filter(([key, text]) => before.has(key) && before.get(key) !== text)
      .map(([key]) => `changed: ${key}`),
  ].toSorted();
}
