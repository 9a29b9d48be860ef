import { isObject, sameJson } from "@fairlead/base/json.ts";
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
import { checkTyped } from "./typed-check.ts";
import { Changes, otherVersions, requireOwnFit, requireStoredFit, UnfitForVersion } from "./versions.ts";

export interface UpdateToTrack extends WriteOrigin {
  /** Undefined: the object is created. */
  readonly before: ApiObject | undefined;
  /** The base to compare a new object with, in addition to its kind. Default: empty. */
  readonly empty?: Readonly<Record<string, unknown>>;
  /** The object as the client sent it, with its `managedFields` and a status that is reset. Not changed. */
  readonly after: ApiObject;
}

/**
 * Returns the object with updated `metadata.managedFields` after a write other than server-side apply: fields that
 * changed belong only to the writer (operation Update).
 *
 * An untracked object stays untracked; `[]` and `[{}]` make it so, and a write of which the owners cannot be worked out: with a status that is not one, or
 * values for which the version of a manager has no place. A write that changes no field that can be owned leaves the entries, with their times, as they are.
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
  const { before } = update;
  const stored = readManagers(before?.metadata.managedFields) ?? new Map<string, Manager>();
  yield;
  const managers = startingManagers(update, stored);
  yield;
  // A created object is tracked from the start; one that lost its managers is left alone until someone applies.
  if (managers.size === 0 && before !== undefined) return undefined;
  if (hasUnfitStatus(update)) return undefined;
  try {
    return yield* ownersAfter(update, stored, managers);
  } catch (error) {
    if (error instanceof UnfitForVersion) return undefined;
    throw error;
  }
}

/** @throws {UnfitForVersion} */
function* ownersAfter(
  update: UpdateToTrack,
  stored: ReadonlyMap<string, Manager>,
  managers: Map<string, Manager>,
): Steps<readonly ManagedFieldsEntry[] | undefined> {
  const { before, after, empty = {} } = update;
  const typed = new Typed(update);
  const old = before === undefined ? { ...empty, ...emptyOf(after) } : withoutManagers(before);
  const now = withoutManagers(after);
  if (otherVersions(typed, managers).length > 0) for (const it of [old, now]) requireOwnFit(typed, it, "");
  requireStoredFit(typed, old, managers);
  typed.reconcile(managers);
  yield;
  const changes = new Changes(typed, old, now);
  yield;
  const hasTaken = yield* giveTo(managers, update, changes);
  const isSame = before !== undefined && !hasTaken && sameManagers(stored, managers);
  return isSame ? before.metadata.managedFields : writeManagers(managers);
}

/** A status that a write of a custom object drops before it is validated may be anything. */
function hasUnfitStatus({ before, after, isCustom, hasStatus, subresource, ...of }: UpdateToTrack): boolean {
  const { status } = after;
  const schema = of.schema.properties?.["status"];
  if (isCustom !== true || !hasStatus || subresource !== "") return false;
  if (schema === undefined || status === undefined || sameJson(status, before?.["status"])) return false;
  return checkTyped(status, schema, of.resolve, { allowsDuplicates: true }).length > 0;
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
  if (!Array.isArray(entries)) return false;
  const [entry] = entries as unknown[];
  if (entries.length !== 1) return entries.length === 0;
  return isObject(entry) && Object.keys(entry).length === 0;
}

/** Gives what changed to the writer, and takes it from all others. Returns whether the writer owns any of it. */
export function* giveTo(
  managers: Map<string, Manager>,
  { manager, apiVersion, subresource, now }: WriteOrigin,
  changes: Changes,
): Steps<boolean> {
  const { gained } = changes.own;
  yield;
  for (const [identity, it] of managers) {
    const { lost } = changes.in(it.apiVersion);
    if (!isEmpty(lost)) managers.set(identity, { ...it, set: difference(it.set, lost) });
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
