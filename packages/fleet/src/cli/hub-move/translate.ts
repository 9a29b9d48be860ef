import { isObject } from "@fairlead/base/json.ts";
import type { KubeObject, ManagedFieldsEntry, ObjectMeta } from "@fairlead/kube/api/meta/types.ts";
import { FIRST_UID_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { firstUid } from "#domain/first-uid.ts";
import { NEXT_HUB_ANNOTATION } from "#api/fairlead.dev/hub-move.ts";
import { PLACEMENT_GENERATION_ANNOTATION } from "#api/placement.kubernetes-fleet.io/names.ts";

/** An object of one hub as it is written to another, where UIDs and generations are different. */

/** UIDs of objects here by those there. */
export type Uids = ReadonlyMap<string, string>;
/** The generation of an object in both hubs. */
export interface Generations {
  readonly there: number;
  readonly here: number;
}

const UID = /[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}/g;
/** Kinds by whose UIDs others know what they do: members their upgrades, gates their runs. */
const REMEMBERED = new Set(["UpdateRun", "AutoUpgradeProfile", "StagedUpdateRun", "ClusterStagedUpdateRun"]);
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

/** With the UIDs of known objects replaced, also in keys of managed fields. */
function withUids<T>(value: T, uids: Uids): T {
  return JSON.parse(JSON.stringify(value).replaceAll(UID, (uid) => uids.get(uid) ?? uid)) as T;
}

/** What a client writes of the metadata. Owners that are not copied are left out: the object would be collected as garbage. */
export function metadataFor(metadata: ObjectMeta, uids: Uids): ObjectMeta {
  const { name, namespace, labels, finalizers, ownerReferences = [] } = metadata;
  const { [NEXT_HUB_ANNOTATION]: _, ...annotations } = metadata.annotations ?? {};
  const owners = ownerReferences.filter((it) => uids.has(it.uid));
  return {
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(labels === undefined ? {} : { labels }),
    ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
    ...(finalizers === undefined ? {} : { finalizers }),
    ...(owners.length === 0 ? {} : { ownerReferences: withUids(owners, uids) }),
  };
}

/** An object of the fleet's own kinds, without its status. @param of - The placement that a snapshot is of. */
export function fleetObjectFor(object: KubeObject, uids: Uids, of: Generations | undefined): KubeObject {
  const { status: _, metadata, ...rest } = object as KubeObject & { status?: unknown };
  const meta = metadataFor(metadata, uids);
  const said = meta.annotations?.[PLACEMENT_GENERATION_ANNOTATION];
  if (said !== undefined && of !== undefined) {
    const generation = String(generationFor(Number(said), of));
    meta.annotations = { ...meta.annotations, [PLACEMENT_GENERATION_ANNOTATION]: generation };
  }
  return { ...rest, metadata: meta };
}

/** What others know it by stays: see `firstUid`. */
export function remembered(object: KubeObject, source: KubeObject): KubeObject {
  if (!REMEMBERED.has(source.kind ?? "")) return object;
  const annotations = { ...object.metadata.annotations, [FIRST_UID_ANNOTATION]: firstUid(source) ?? "" };
  return { ...object, metadata: { ...object.metadata, annotations } };
}

/** An object that placements select: what is placed of it, as `cleaned` has it, and what kubectl says of it. */
export function selectedObjectFor(object: KubeObject, content: KubeObject): KubeObject {
  const applied = object.metadata.annotations?.[LAST_APPLIED];
  if (applied === undefined) return content;
  const annotations = { ...content.metadata.annotations, [LAST_APPLIED]: applied };
  return { ...content, metadata: { ...content.metadata, annotations } };
}

/** Reports on objects of members: their generations are those of the members' objects. */
const OF_MEMBERS = new Set([
  "manifestConditions",
  "failedPlacements",
  "driftedPlacements",
  "diffedPlacements",
]);

/** The status, so that what was observed counts as observed here. */
export function statusFor(status: unknown, own: Generations, of: Generations | undefined): unknown {
  const map = (value: unknown, key: string): unknown => {
    if (Array.isArray(value)) return OF_MEMBERS.has(key) ? value : value.map((it: unknown) => map(it, key));
    if (isObject(value))
      return Object.fromEntries(Object.entries(value).map(([name, it]) => [name, map(it, name)]));
    if (typeof value !== "number") return value;
    if (key === "observedGeneration") return generationFor(value, own);
    return key === "observedCRPGeneration" && of !== undefined ? generationFor(value, of) : value;
  };
  return map(status, "");
}

/** The present generation stays the present one; an earlier one stays an earlier one. */
function generationFor(value: number, { there, here }: Generations): number {
  return value >= there ? here : Math.max(0, Math.min(value, here - 1));
}

/**
 * The owners of fields, so that appliers can later remove what they applied there. Undefined without appliers: then the owner does not
 * matter.
 */
export function managersFor(metadata: ObjectMeta, uids: Uids): ManagedFieldsEntry[] | undefined {
  const entries = metadata.managedFields ?? [];
  return entries.some((it) => it.operation === "Apply") ? withUids(entries, uids) : undefined;
}
