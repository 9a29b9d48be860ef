import { sameJson } from "@fairlead/base/json.ts";
import { conflict } from "#status.ts";
import { Entry } from "#storage/entry.ts";
import type { Transaction } from "#storage/store.ts";
import { FOREGROUND, ORPHAN } from "./garbage.ts";
import { timestamp } from "./metadata.ts";
import type { Place } from "./owners.ts";
import type { ResourceDefinition } from "./types.ts";
import type { ApiObject } from "#values/object.ts";
import { copyOf, inOrder } from "./write.ts";

/** The options of a DELETE. Source: `metav1.DeleteOptions`. */
export interface DeleteOptions {
  /** Unit: seconds. */
  readonly gracePeriodSeconds?: number | undefined;
  readonly propagationPolicy?: "Background" | "Foreground" | "Orphan" | undefined;
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string } | undefined;
  readonly dryRun?: boolean | undefined;
  /** Has a say once it is clear that there is something to delete. */
  readonly admit?: (entry: Entry) => void;
}

export interface Removal {
  /** The last state, under the deletion's revision; or the state in which it now waits. */
  readonly entry: Entry;
  readonly isGone: boolean;
}

/**
 * One DELETE: immediate, or by a deletionTimestamp while finalizers or a grace period remain. An object with a grace
 * period of zero is still marked before it is deleted, so that watchers see its deletionTimestamp.
 *
 * Source: k8s.io/apiserver, pkg/registry/rest/delete.go and generic/registry/store.go.
 *
 * @throws {StatusError} 409 when a precondition does not hold.
 */
export function removeObject(
  tx: Transaction,
  place: Place,
  definition: ResourceDefinition,
  options: DeleteOptions,
): Removal | undefined {
  const entry = place.table.get(place.key);
  if (entry === undefined) return undefined;
  checkPreconditions(definition, entry.object, options);
  options.admit?.(entry);
  const ending = copyOf(entry.object);
  const isGone = endObject(definition, ending, options, tx.nowMs);
  const object = inOrder(definition, ending);
  const isChanged = !sameJson(object, entry.object);
  if (options.dryRun === true) return { entry: Entry.of(entry.key, entry.revision, object), isGone };
  const marked = isChanged ? tx.put(place.table, place.key, object) : entry;
  return { entry: isGone ? (tx.remove(place.table, place.key) ?? marked) : marked, isGone };
}

function checkPreconditions(
  definition: ResourceDefinition,
  object: ApiObject,
  { preconditions }: DeleteOptions,
): void {
  const { uid, resourceVersion, name } = object.metadata;
  const isOwnKind = definition.strategy.beginDeletion !== undefined;
  const of = isOwnKind ? definition : { group: definition.group, plural: definition.kind };
  if (preconditions?.uid !== undefined && preconditions.uid !== uid) {
    const why = isOwnKind
      ? `Precondition failed: UID in precondition: ${preconditions.uid}, UID in object meta: ${uid}`
      : `the UID in the precondition (${preconditions.uid}) does not match the UID in record (${uid}). The object might have been deleted and then recreated`;
    throw conflict(of, name, why);
  }
  if (preconditions?.resourceVersion !== undefined && preconditions.resourceVersion !== resourceVersion) {
    const why = isOwnKind
      ? `Precondition failed: ResourceVersion in precondition: ${preconditions.resourceVersion}, ResourceVersion in object meta: ${resourceVersion}`
      : `the ResourceVersion in the precondition (${preconditions.resourceVersion}) does not match the ResourceVersion in record (${resourceVersion}). The object might have been modified`;
    throw conflict(of, name, why);
  }
}

/** Changes `object` as its deletion does. Returns whether it goes now. */
function endObject(
  definition: ResourceDefinition,
  object: ApiObject,
  options: DeleteOptions,
  nowMs: number,
): boolean {
  const { strategy } = definition;
  const { metadata } = object;
  const isEnding = metadata.deletionTimestamp !== undefined;
  if (strategy.beginDeletion !== undefined && !isEnding) {
    metadata.deletionTimestamp = timestamp(nowMs);
    setPropagationFinalizer(definition, object, options);
    strategy.beginDeletion(object, nowMs);
    return false;
  }
  if (isNamespaceInUse(object)) return false;
  const grace =
    strategy.gracePeriodSeconds === undefined ? "none" : setGrace(definition, object, options, nowMs);
  if (grace === "runs") return false;
  setPropagationFinalizer(definition, object, options);
  const isHeld = (metadata.finalizers ?? []).length > 0;
  if (grace === "none" && isHeld) markHeld(object, nowMs);
  return !isHeld && (metadata.deletionGracePeriodSeconds ?? 0) === 0;
}

/** Begins or shortens a grace period. "runs": the present one continues; "none": there is no grace period. */
function setGrace(
  { strategy }: ResourceDefinition,
  object: ApiObject,
  { gracePeriodSeconds: wanted }: DeleteOptions,
  nowMs: number,
): "set" | "runs" | "none" {
  const { metadata } = object;
  if (metadata.deletionTimestamp === undefined) {
    const seconds = strategy.gracePeriodSeconds?.(object, wanted) ?? 0;
    metadata.deletionTimestamp = timestamp(nowMs + seconds * 1000);
    metadata.deletionGracePeriodSeconds = seconds;
    if (metadata.generation !== undefined) metadata.generation += 1;
    return "set";
  }
  const running = metadata.deletionGracePeriodSeconds ?? 0;
  if (running === 0) return "none";
  if (wanted === undefined || wanted >= running) return "runs";
  // The moment at which the pod must be gone moves by as much as the period became shorter.
  const startedMs = Date.parse(metadata.deletionTimestamp) - running * 1000;
  metadata.deletionTimestamp = timestamp(startedMs + wanted * 1000);
  metadata.deletionGracePeriodSeconds = wanted;
  return "set";
}

/** Marks an object that only finalizers hold as deleted now. */
function markHeld({ metadata }: ApiObject, nowMs: number): void {
  const { deletionTimestamp } = metadata;
  if (deletionTimestamp === undefined && metadata.generation !== undefined) metadata.generation += 1;
  if (deletionTimestamp === undefined || Date.parse(deletionTimestamp) > nowMs) {
    metadata.deletionTimestamp = timestamp(nowMs);
  }
  metadata.deletionGracePeriodSeconds = 0;
}

/** The client's policy holds, else what the object already waits for, else that of its kind. */
function setPropagationFinalizer(
  { strategy }: ResourceDefinition,
  object: ApiObject,
  { propagationPolicy }: DeleteOptions,
): void {
  const { metadata } = object;
  const { defaultPropagation = "Background" } = strategy;
  if (defaultPropagation === "Unsupported") return;
  const policy = propagationPolicy ?? propagationOf(object) ?? defaultPropagation;
  const kept = (metadata.finalizers ?? []).filter((it) => it !== FOREGROUND && it !== ORPHAN);
  if (policy === "Foreground") kept.push(FOREGROUND);
  if (policy === "Orphan") kept.push(ORPHAN);
  if (kept.length === 0) delete metadata.finalizers;
  else metadata.finalizers = kept;
}

/** A namespace is deleted when its content is deleted and all finalizers of its spec are removed. */
function isNamespaceInUse(object: ApiObject): boolean {
  if (object.kind !== "Namespace" || object.apiVersion !== "v1") return false;
  const spec = object["spec"] as { finalizers?: readonly string[] } | undefined;
  return (spec?.finalizers ?? []).length > 0;
}

/** Whether an object that is being deleted has nothing left to wait for. */
export function isReadyToGo(object: ApiObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers = [] } = object.metadata;
  if (deletionTimestamp === undefined || finalizers.length > 0) return false;
  return (deletionGracePeriodSeconds ?? 0) === 0 && !isNamespaceInUse(object);
}

/** The propagation policy that the object's finalizers already request; an internal deletion keeps it. */
export function propagationOf({ metadata }: ApiObject): DeleteOptions["propagationPolicy"] {
  const finalizers = metadata.finalizers ?? [];
  if (finalizers.includes(ORPHAN)) return "Orphan";
  return finalizers.includes(FOREGROUND) ? "Foreground" : undefined;
}
