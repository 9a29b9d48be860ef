import { jsonKey, sameJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { shortHash } from "#api/fairlead.dev/cluster-names.ts";
import {
  type IdentityPod,
  type IdentitySlice,
  MAX_IDENTITY_PORTS,
} from "#api/fairlead.dev/v1alpha1/identities.ts";
import { differenceOf } from "#domain/identity-slice.ts";

/** Pods by what policies see of them, and how they are put into slices. Pure. */

type Spec = IdentitySlice["spec"];
/** What the pods of a slice have in common. */
export type Template = Required<Pick<Spec, "namespace" | "labels" | "serviceAccount" | "ports">>;

/** Labels that differ between the pods of one workload: with them in the template, each pod would be a slice. */
const OF_SINGLE_PODS = new Set([
  "apps.kubernetes.io/pod-index",
  "batch.kubernetes.io/job-completion-index",
  "statefulset.kubernetes.io/pod-name",
]);

/**
 * Pods in one slice. More make fewer objects, and the change of a pod heavier: docs/adr/0042-identity-slices.md.
 */
export const PODS_PER_SLICE = 16;

/** Addresses in one slice: four times the pods, as these are that much longer. */
export const ADDRESSES_PER_SLICE = 64;

export function templateOf({ metadata, spec }: Pod): Template {
  // Sidecars are init containers that continue to run.
  const sidecars = (spec?.initContainers ?? []).filter((it) => it.restartPolicy === "Always");
  const ports = [...(spec?.containers ?? []), ...sidecars]
    .flatMap((it) => it.ports ?? [])
    .flatMap(({ name, protocol = "TCP", containerPort: port }) =>
      name === undefined || name === "" ? [] : [{ name, protocol, port }],
    )
    .toSorted((a, b) => byText(a.name, b.name) || byText(a.protocol, b.protocol) || a.port - b.port);
  return {
    namespace: metadata.namespace ?? "",
    labels: labelsOf(metadata.labels, (it) => !OF_SINGLE_PODS.has(it)),
    serviceAccount: spec?.serviceAccountName ?? "default",
    ports: ports.slice(0, MAX_IDENTITY_PORTS),
  };
}

function labelsOf(
  labels: Readonly<Record<string, string>> = {},
  isKept: (key: string) => boolean,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(labels)
      .filter(([key]) => isKept(key))
      .toSorted(([a], [b]) => byText(a, b)),
  );
}

/** Of pods with equal templates, in whatever order these have their fields: API servers sort those of custom resources. */
export function groupOf({ namespace, labels, serviceAccount, ports }: Template): ObjectKey {
  return objectKey(namespace, shortHash(jsonKey([labels, serviceAccount, ports]), HASH));
}

const HASH = 16;

/** The group that a slice of pods is of. */
export function groupOfSlice(spec: Spec): ObjectKey {
  return groupOf(templateOfSlice(spec));
}

export function templateOfSlice({
  namespace = "",
  labels = {},
  serviceAccount = "",
  ports = [],
}: Spec): Template {
  return { namespace, labels, serviceAccount, ports };
}

/** A slice that a pod is in. */
export interface Home {
  readonly group: ObjectKey;
  readonly spec: Spec;
}

/**
 * The group in whose slices a pod is published. A pod whose labels change stays where it is, as far as the difference can be written
 * there: its move would be a change of two slices, in between of which others know it with both labels, or not at all.
 *
 * @param own - The group of its labels. @param homes - One, but for a moment.
 */
export function homeOf(pod: Pod, own: ObjectKey, homes: readonly Home[]): ObjectKey {
  if (homes.some((it) => it.group === own)) return own;
  const able = homes.filter((it) => canBeIn(templateOfSlice(it.spec), pod)).map((it) => it.group);
  return able.toSorted(byText)[0] ?? own;
}

/** Ports and accounts of pods do not change: with others it is another pod of the same name. */
function canBeIn(template: Template, pod: Pod): boolean {
  const { labels: _, ...rest } = templateOf(pod);
  const { labels, ...shared } = template;
  return sameJson(rest, shared) && differenceOf(labels, pod.metadata.labels ?? {}) !== undefined;
}

export interface SlicePlan<T> {
  readonly write: readonly { readonly name: string; readonly entries: readonly T[] }[];
  readonly remove: readonly string[];
}

/**
 * Pods, or nodes, stay in the slice that they are in; others come to the first with room. Slices that have become mostly empty are packed
 * again.
 *
 * @param slices - Those of the group, by name. @param most - In one slice.
 */
export function planSlices<T extends { readonly name: string }>(
  group: ObjectKey,
  entries: readonly T[],
  slices: ReadonlyMap<string, readonly T[]>,
  most = PODS_PER_SLICE,
): SlicePlan<T> {
  const wanted = new Map(entries.toSorted((a, b) => byText(a.name, b.name)).map((it) => [it.name, it]));
  const needed = Math.ceil(wanted.size / most);
  const isSparse = slices.size > 2 * needed + 1;
  const names = [...slices.keys()].toSorted(byText);
  const after = new Map<string, T[]>(isSparse ? [] : names.map((it) => [it, []]));
  for (const [name, kept] of after)
    for (const { name: pod } of slices.get(name) ?? []) {
      const it = wanted.get(pod);
      if (it === undefined || kept.length >= most) continue;
      kept.push(it);
      wanted.delete(pod);
    }
  for (const it of wanted.values()) {
    const room = [...after.values()].find((kept) => kept.length < most);
    if (room === undefined) after.set(freeName(group, after), [it]);
    else room.push(it);
  }
  const write = [...after]
    .filter(([name, kept]) => kept.length > 0 && !sameJson(slices.get(name), kept))
    .map(([name, kept]) => ({ name, entries: kept }));
  return { write, remove: names.filter((it) => (after.get(it)?.length ?? 0) === 0) };
}

function freeName(group: ObjectKey, taken: ReadonlyMap<string, unknown>): string {
  const base = shortHash(group, HASH);
  for (let at = 0; ; at += 1) if (!taken.has(`${base}-${at}`)) return `${base}-${at}`;
}

/** What a pod is to other clusters, in a slice with this template; undefined if it is not to be known. */
export function identityOf(
  { metadata }: Pod,
  addresses: readonly string[],
  template: Template,
): IdentityPod | undefined {
  const difference = differenceOf(template.labels, metadata.labels ?? {});
  if (addresses.length === 0 || difference === undefined) return undefined;
  return { name: metadata.name, addresses: [...addresses], ...difference };
}

/** Whether a pod has addresses of its own. */
export function hasAddresses({ spec, status }: Pod): boolean {
  return spec?.hostNetwork !== true && status?.phase !== "Succeeded" && status?.phase !== "Failed";
}

/**
 * The pod that has an address now, if several say so: one that is not being deleted, and the one created last. Undefined where
 * that is not known.
 */
export function holderOf(pods: readonly Pod[]): Pod | undefined {
  const able = pods.filter(hasAddresses);
  const staying = able.filter((it) => it.metadata.deletionTimestamp === undefined);
  const [first, second] = (staying.length === 0 ? able : staying).toSorted((a, b) =>
    byText(b.metadata.creationTimestamp ?? "", a.metadata.creationTimestamp ?? ""),
  );
  const isTie =
    second !== undefined && first?.metadata.creationTimestamp === second.metadata.creationTimestamp;
  return isTie ? undefined : first;
}
