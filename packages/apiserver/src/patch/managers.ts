import type { ManagedFieldsEntry } from "@fairlead/kube/api/meta/types.ts";
import { isObject } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import { isEmpty, parseFieldSet, sameSet, union, type FieldSet } from "./field-set.ts";

/** The fields that one manager owns: an entry of `metadata.managedFields`. */
export interface Manager {
  readonly name: string;
  readonly operation: "Apply" | "Update";
  readonly apiVersion: string;
  readonly subresource: string;
  /** RFC 3339, whole seconds. */
  readonly time: string | undefined;
  readonly set: FieldSet;
}

/** By identity. */
export type Managers = ReadonlyMap<string, Manager>;

/** An applier is the same whatever version it applies in; updates in different versions are kept apart. */
export function identityOf(manager: Omit<Manager, "set" | "time">): string {
  const { name, operation, apiVersion, subresource } = manager;
  return JSON.stringify([name, operation, operation === "Apply" ? "" : apiVersion, subresource]);
}

/** Parses `metadata.managedFields`. Undefined if an entry is malformed; an empty map if there are no entries. */
export function readManagers(entries: unknown): Map<string, Manager> | undefined {
  const managers = new Map<string, Manager>();
  if (entries === undefined || entries === null) return managers;
  if (!Array.isArray(entries)) return undefined;
  for (const entry of entries) {
    const manager = parseManager(entry);
    if (manager === undefined) return undefined;
    managers.set(identityOf(manager), manager);
  }
  return managers;
}

function parseManager(entry: unknown): Manager | undefined {
  if (!isObject(entry) || (entry["fieldsType"] ?? "FieldsV1") !== "FieldsV1") return undefined;
  const set = parseFieldSet(entry["fieldsV1"] ?? {});
  const { operation } = entry;
  if (set === undefined || (operation !== "Apply" && operation !== "Update")) return undefined;
  return {
    name: textOr(entry["manager"], ""),
    operation,
    apiVersion: textOr(entry["apiVersion"], ""),
    subresource: textOr(entry["subresource"], ""),
    time: typeof entry["time"] === "string" ? entry["time"] : undefined,
    set,
  };
}

function textOr(value: unknown, otherwise: string): string {
  return typeof value === "string" ? value : otherwise;
}

/** The entries in the order in which the API server writes them: appliers first, then by time, then by name. */
export function writeManagers(managers: Managers): ManagedFieldsEntry[] {
  return [...managers.values()].toSorted(byEntryOrder).map((it) => ({
    manager: it.name,
    operation: it.operation,
    apiVersion: it.apiVersion,
    ...(it.time === undefined ? {} : { time: it.time }),
    fieldsType: "FieldsV1",
    fieldsV1: it.set,
    ...(it.subresource === "" ? {} : { subresource: it.subresource }),
  }));
}

function byEntryOrder(a: Manager, b: Manager): number {
  return (
    byText(a.operation, b.operation) ||
    secondsOf(a) - secondsOf(b) ||
    byText(a.name, b.name) ||
    byText(a.apiVersion, b.apiVersion) ||
    byText(a.subresource, b.subresource)
  );
}

function secondsOf(manager: Manager): number {
  const ms = manager.time === undefined ? 0 : Date.parse(manager.time);
  return Number.isNaN(ms) ? 0 : Math.trunc(ms / 1000);
}

/** Whether both are equal apart from their times: a new time alone is not a change of an object. */
export function sameManagers(a: Managers, b: Managers): boolean {
  if (a.size !== b.size) return false;
  for (const [identity, manager] of a) {
    const other = b.get(identity);
    if (other === undefined || other.apiVersion !== manager.apiVersion || !sameSet(other.set, manager.set)) {
      return false;
    }
  }
  return true;
}

/** Most entries of operation Update that an object keeps. */
const MAX_UPDATERS = 10;
const BUCKET = "ancient-changes";

/** Merges the oldest updaters, version by version, until no more than 10 are left. */
export function capUpdaters(managers: Map<string, Manager>): void {
  const updaters = [...managers].filter(([, it]) => it.operation === "Update");
  let excess = updaters.length - MAX_UPDATERS;
  if (excess <= 0) return;
  const oldest = updaters.toSorted(([a, x], [b, y]) => secondsOf(x) - secondsOf(y) || byText(a, b));
  const firsts = new Map<string, string>();
  for (const [identity, manager] of oldest) {
    if (excess <= 0) return;
    const first = firsts.get(manager.apiVersion);
    if (first === undefined) firsts.set(manager.apiVersion, identity);
    else {
      mergeInto(managers, first, manager);
      managers.delete(identity);
      excess--;
    }
  }
}

function mergeInto(managers: Map<string, Manager>, first: string, manager: Manager): void {
  const bucket: Omit<Manager, "set" | "time"> = {
    name: BUCKET,
    operation: "Update",
    apiVersion: manager.apiVersion,
    subresource: "",
  };
  const identity = identityOf(bucket);
  const before = managers.get(identity) ?? managers.get(first);
  if (!managers.has(identity)) managers.delete(first);
  managers.set(identity, { ...bucket, time: manager.time, set: union(manager.set, before?.set ?? {}) });
}

/** Drops managers that own nothing. */
export function dropEmpty(managers: Map<string, Manager>): void {
  for (const [identity, manager] of managers) if (isEmpty(manager.set)) managers.delete(identity);
}
