import { cloneJson } from "#base/json.ts";
import { conflict } from "../status.ts";
import type { Entry } from "../storage/entry.ts";
import type { Transaction } from "../storage/store.ts";
import { FOREGROUND, ORPHAN } from "./garbage.ts";
import { timestamp } from "./metadata.ts";
import type { Place } from "./owners.ts";
import type { ApiObject, ResourceDefinition } from "./types.ts";

/** What a DELETE asks for. Source: `metav1.DeleteOptions`. */
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
 * One DELETE: at once, or by a deletionTimestamp where finalizers or a grace period have to run out first.
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
  const object = cloneJson(entry.object);
  const graceSeconds = planGrace(definition, object, options);
  addPropagationFinalizer(object, options);
  const mustWait =
    graceSeconds > 0 || (object.metadata.finalizers ?? []).length > 0 || isNamespaceInUse(object);
  if (!mustWait) {
    if (options.dryRun === true) return { entry, isGone: true };
    return { entry: tx.remove(place.table, place.key) ?? entry, isGone: true };
  }
  if (!markDeleted(object, graceSeconds, tx.nowMs) && !hasNewFinalizer(object, entry.object)) {
    return { entry, isGone: false };
  }
  if (options.dryRun === true) return { entry, isGone: false };
  return { entry: tx.put(place.table, place.key, object), isGone: false };
}

function checkPreconditions(
  definition: ResourceDefinition,
  object: ApiObject,
  { preconditions }: DeleteOptions,
): void {
  const { uid, resourceVersion, name } = object.metadata;
  if (preconditions?.uid !== undefined && preconditions.uid !== uid) {
    const why = `the UID in the precondition (${preconditions.uid}) does not match the UID in record (${uid}). The object might have been deleted and then recreated`;
    throw conflict({ group: definition.group, plural: definition.kind }, name, why);
  }
  if (preconditions?.resourceVersion !== undefined && preconditions.resourceVersion !== resourceVersion) {
    const why = `the ResourceVersion in the precondition (${preconditions.resourceVersion}) does not match the ResourceVersion in record (${resourceVersion}). The object might have been modified`;
    throw conflict({ group: definition.group, plural: definition.kind }, name, why);
  }
}

/** A grace period that runs can only become shorter. */
function planGrace(definition: ResourceDefinition, object: ApiObject, options: DeleteOptions): number {
  const wanted = definition.strategy.gracePeriodSeconds?.(object, options.gracePeriodSeconds) ?? 0;
  const { deletionTimestamp, deletionGracePeriodSeconds } = object.metadata;
  if (deletionTimestamp === undefined) return wanted;
  const running = deletionGracePeriodSeconds ?? 0;
  return options.gracePeriodSeconds === undefined ? running : Math.min(wanted, running);
}

function addPropagationFinalizer(object: ApiObject, { propagationPolicy }: DeleteOptions): void {
  if (propagationPolicy === undefined) return;
  const kept = (object.metadata.finalizers ?? []).filter((it) => it !== FOREGROUND && it !== ORPHAN);
  if (propagationPolicy === "Foreground") kept.push(FOREGROUND);
  if (propagationPolicy === "Orphan") kept.push(ORPHAN);
  if (kept.length === 0) delete object.metadata.finalizers;
  else object.metadata.finalizers = kept;
}

function hasNewFinalizer(object: ApiObject, old: ApiObject): boolean {
  return (object.metadata.finalizers ?? []).join(",") !== (old.metadata.finalizers ?? []).join(",");
}

/** A namespace goes when its content is gone and every finalizer of its spec was taken away. */
function isNamespaceInUse(object: ApiObject): boolean {
  if (object.kind !== "Namespace" || object.apiVersion !== "v1") return false;
  const spec = object["spec"] as { finalizers?: readonly string[] } | undefined;
  return (spec?.finalizers ?? []).length > 0;
}

/** False when the object already waits and no shorter. */
function markDeleted(object: ApiObject, graceSeconds: number, nowMs: number): boolean {
  const { metadata } = object;
  if (metadata.deletionTimestamp !== undefined) {
    if ((metadata.deletionGracePeriodSeconds ?? 0) <= graceSeconds) return false;
    // The moment at which the pod must be gone moves by as much as the period became shorter.
    const endMs = Date.parse(metadata.deletionTimestamp);
    const startedMs = endMs - (metadata.deletionGracePeriodSeconds ?? 0) * 1000;
    metadata.deletionTimestamp = timestamp(startedMs + graceSeconds * 1000);
    metadata.deletionGracePeriodSeconds = graceSeconds;
    return true;
  }
  metadata.deletionTimestamp = timestamp(nowMs + graceSeconds * 1000);
  metadata.deletionGracePeriodSeconds = graceSeconds;
  if (metadata.generation !== undefined) metadata.generation += 1;
  if (object.kind === "Namespace" && object.apiVersion === "v1") {
    object["status"] = { ...(object["status"] as object | undefined), phase: "Terminating" };
  }
  return true;
}

/** Whether an object that is being deleted has nothing left to wait for. */
export function isReadyToGo(object: ApiObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers = [] } = object.metadata;
  if (deletionTimestamp === undefined || finalizers.length > 0) return false;
  return (deletionGracePeriodSeconds ?? 0) === 0 && !isNamespaceInUse(object);
}
