import { isObject } from "@fairlead/base/json.ts";
import { finish, type Steps } from "@fairlead/base/turn.ts";
import type { ManagedFieldsEntry } from "@fairlead/kube/api/meta/types.ts";
import type { ApiObject } from "#values/object.ts";
import { difference, isEmpty, union } from "./field-set.ts";
import {
  capUpdaters,
  dropEmpty,
  identityOf,
  readManagers,
  sameManagers,
  writeManagers,
  type Manager,
} from "./managers.ts";
import { ownable, Typed, withoutManagers, type WriteOrigin } from "./ownership.ts";
import type { Comparison } from "./typed-compare.ts";

export interface UpdateToTrack extends WriteOrigin {
  /** Undefined: the object is created. */
  readonly before: ApiObject | undefined;
  /** The base to compare a new object with, in addition to its kind. Default: empty. */
  readonly empty?: Readonly<Record<string, unknown>>;
  /** As it is to be stored, its `managedFields` as the client sent them. Not changed. */
  readonly after: ApiObject;
}

/**
 * Returns the object with updated `metadata.managedFields` after a write other than server-side apply: fields that
 * changed belong only to the writer (operation Update).
 *
 * An untracked object stays untracked; `[{}]` makes it so. A write that changes no field that can be owned leaves the entries, with their times, as they are.
 * Source: apimachinery, util/managedfields.
 */
export function trackUpdate(update: UpdateToTrack): ApiObject {
  return withManagers(update.after, finish(tracking(update)));
}

export function withManagers(
  object: ApiObject,
  managedFields: readonly ManagedFieldsEntry[] | undefined,
): ApiObject {
  const bare = withoutManagers(object);
  if (managedFields === undefined || managedFields.length === 0) return bare;
  return { ...bare, metadata: { ...bare.metadata, managedFields: [...managedFields] } };
}

/** The entries of `metadata.managedFields`; undefined where the object is not tracked. */
export function* tracking(update: UpdateToTrack): Steps<readonly ManagedFieldsEntry[] | undefined> {
  const { before, after, empty = {} } = update;
  const stored = readManagers(before?.metadata.managedFields) ?? new Map<string, Manager>();
  yield;
  const managers = startingManagers(update, stored);
  yield;
  // A created object is tracked from the start; one that lost its managers is left alone until someone applies.
  if (managers.size === 0 && before !== undefined) return undefined;
  const typed = new Typed(update);
  const old = before === undefined ? { ...empty, ...emptyOf(after) } : withoutManagers(before);
  typed.reconcile(managers);
  yield;
  const changes = typed.compare(old, withoutManagers(after));
  yield;
  const hasTaken = yield* giveTo(managers, update, changes);
  const isSame = before !== undefined && !hasTaken && sameManagers(stored, managers);
  return isSame ? before.metadata.managedFields : writeManagers(managers);
}

function emptyOf(object: ApiObject): Record<string, unknown> {
  return { apiVersion: object.apiVersion, kind: object.kind, metadata: {} };
}

/** The client may change the entries, but not by accident: those it left out or made unreadable come from the store. */
function startingManagers(
  { after, subresource }: UpdateToTrack,
  stored: ReadonlyMap<string, Manager>,
): Map<string, Manager> {
  const sent: unknown = after.metadata.managedFields;
  if (subresource !== "") return new Map(stored);
  if (isReset(sent)) return new Map();
  const managers = readManagers(sent);
  return managers === undefined || managers.size === 0 ? new Map(stored) : managers;
}

function isReset(entries: unknown): boolean {
  if (!Array.isArray(entries) || entries.length !== 1) return false;
  const [entry] = entries as unknown[];
  return isObject(entry) && Object.keys(entry).length === 0;
}

/** Gives what changed to the writer, and takes it from all others. Returns whether the writer owns any of it. */
export function* giveTo(
  managers: Map<string, Manager>,
  { manager, apiVersion, subresource, now }: WriteOrigin,
  changes: Comparison,
): Steps<boolean> {
  const gained = union(changes.added, changes.modified);
  yield;
  const lost = union(gained, changes.removed);
  yield;
  if (!isEmpty(lost)) {
    for (const [identity, it] of managers) managers.set(identity, { ...it, set: difference(it.set, lost) });
  }
  yield;
  const own = ownable(gained);
  const hasTaken = !isEmpty(own);
  if (hasTaken) {
    const writer = {
      name: manager === "" ? "unknown" : manager,
      operation: "Update",
      apiVersion,
      subresource,
    } as const;
    const identity = identityOf(writer);
    const before = managers.get(identity);
    managers.set(identity, {
      ...writer,
      time: now,
      set: before === undefined ? own : union(before.set, own),
    });
  }
  yield;
  dropEmpty(managers);
  capUpdaters(managers);
  return hasTaken;
}
