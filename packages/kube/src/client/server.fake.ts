import { keyOf, type ObjectKey } from "#api/meta/key.ts";
import { apiVersionOf, type Resource } from "#api/meta/resource.ts";
import type { KubeObject, Status } from "#api/meta/types.ts";
import { cloneJson, sameJson } from "@fairlead/base/json.ts";
import { statusError } from "./status-error.ts";
import { timestamp } from "#objects/conditions.ts";

/** One committed change. `object` is the state after it, or the last one with the version of the deletion. */
export interface HistoryEntry {
  readonly version: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly of: string;
  readonly before: KubeObject | undefined;
  readonly object: KubeObject;
}

/** The key of the objects of one kind. */
export function storeName(of: Resource): string {
  return `${of.plural}.${of.group}`;
}

/**
 * The state of an API server in memory: versions, history, finalizers, owners. The fake client and the tests' faults
 * act on it. It checks no schema, needs no namespaces, and knows no access rules.
 */
export class FakeApiState {
  readonly #objects = new Map<string, Map<ObjectKey, KubeObject>>();
  readonly #nowMs: () => number;
  /** The changes that watches may still ask for, oldest first. */
  history: HistoryEntry[] = [];
  /** Changes up to this version are gone. */
  compactedTo = 0;
  version = 100;
  #nextUid = 1;
  readonly #listeners = new Set<(entry: HistoryEntry | undefined) => void>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  all(of: Resource): ReadonlyMap<ObjectKey, KubeObject> {
    return this.#table(storeName(of));
  }

  get(of: Resource, key: ObjectKey): KubeObject {
    const found = this.all(of).get(key);
    if (found === undefined) throw refuse("NotFound", 404, `${of.plural} "${key}" not found`);
    return found;
  }

  /** @param object - Stored without a copy: the caller must not use it afterwards. */
  create(of: Resource, object: KubeObject): KubeObject {
    const { metadata } = object;
    if (metadata.generateName !== undefined && (metadata.name ?? "") === "")
      metadata.name = `${metadata.generateName}${(this.#nextUid * 7919).toString(36).padStart(5, "0").slice(-5)}`;
    const key = keyOf(object);
    if (of.namespaced !== (metadata.namespace !== undefined))
      throw refuse("BadRequest", 400, `${of.plural} "${key}": wrong scope`);
    if (this.all(of).has(key)) throw refuse("AlreadyExists", 409, `${of.plural} "${key}" already exists`);
    metadata.uid = `00000000-0000-4000-8000-${String(this.#nextUid++).padStart(12, "0")}`;
    metadata.creationTimestamp = timestamp(this.#nowMs());
    metadata.generation = 1;
    delete metadata.deletionTimestamp;
    return this.#commit(of, undefined, object);
  }

  /** Puts `object` as it is, with its uid and all: what a test has from elsewhere. */
  put(of: Resource, object: KubeObject): void {
    this.#commit(of, this.all(of).get(keyOf(object)), object);
  }

  /** Puts `object` in the place of what is there, by the rules of the main resource or of `status`. */
  update(of: Resource, object: KubeObject, subresource: string | undefined): KubeObject {
    const key = keyOf(object);
    const before = this.get(of, key);
    const { resourceVersion, uid } = object.metadata;
    if ((resourceVersion ?? "") !== "" && resourceVersion !== before.metadata.resourceVersion)
      throw refuse("Conflict", 409, `${of.plural} "${key}": the object has been modified`);
    if (uid !== undefined && uid !== before.metadata.uid)
      throw refuse("Conflict", 409, `${of.plural} "${key}": another uid`);
    const after = subresource === "status" ? withStatusOf(before, object) : withSpecOf(before, object);
    if (sameContent(before, after)) return before;
    if (before.metadata.deletionTimestamp !== undefined && (after.metadata.finalizers ?? []).length === 0) {
      this.#remove(of, { ...after, metadata: { ...after.metadata } });
      return after;
    }
    return this.#commit(of, before, after);
  }

  delete(of: Resource, key: ObjectKey): void {
    const before = this.get(of, key);
    if ((before.metadata.finalizers ?? []).length === 0) {
      this.#remove(of, before);
      return;
    }
    if (before.metadata.deletionTimestamp !== undefined) return;
    const generation = (before.metadata.generation ?? 0) + 1;
    const metadata = { ...before.metadata, deletionTimestamp: timestamp(this.#nowMs()), generation };
    this.#commit(of, before, { ...before, metadata });
  }

  /** Drops past events, as compaction does: watches from an earlier revision fail as expired. */
  compact(): void {
    this.history = [];
    this.compactedTo = this.version;
  }

  /** @returns A function that brings the present state back, with its versions, as a restore from a backup does. Watches break. */
  backup(): () => void {
    const objects = [...this.#objects].map(([of, table]) => [of, new Map(table)] as const);
    const { version } = this;
    return () => {
      this.#objects.clear();
      for (const [of, table] of objects) this.#objects.set(of, new Map(table));
      this.history = this.history.filter((it) => it.version <= version);
      this.version = version;
      this.fail();
    };
  }

  /** Calls back with each change; with undefined on a fault. */
  onChange(listener: (entry: HistoryEntry | undefined) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** Tells those who listen of a fault. */
  fail(): void {
    for (const listener of this.#listeners) listener(undefined);
  }

  #record(entry: HistoryEntry): void {
    this.history.push(entry);
    for (const listener of this.#listeners) listener(entry);
  }

  #commit(of: Resource, before: KubeObject | undefined, after: KubeObject): KubeObject {
    const version = ++this.version;
    const object = { ...after, apiVersion: apiVersionOf(of), kind: of.kind };
    object.metadata = { ...after.metadata, resourceVersion: String(version) };
    this.#table(storeName(of)).set(keyOf(object), object);
    const type = before === undefined ? "ADDED" : "MODIFIED";
    this.#record({ version, type, of: storeName(of), before, object });
    return object;
  }

  #remove(of: Resource, before: KubeObject): void {
    const version = ++this.version;
    const object = { ...before, metadata: { ...before.metadata, resourceVersion: String(version) } };
    this.#table(storeName(of)).delete(keyOf(before));
    this.#record({ version, type: "DELETED", of: storeName(of), before, object });
    this.#collectGarbage();
  }

  /** An object all of whose owners are gone goes too. */
  #collectGarbage(): void {
    const tables = [...this.#objects].map(([name, table]) => ({ name, objects: [...table.values()] }));
    const uids = new Set(tables.flatMap((it) => it.objects.map((object) => object.metadata.uid)));
    for (const { name, objects } of tables) {
      for (const object of objects) {
        const owners = object.metadata.ownerReferences ?? [];
        if (owners.length === 0 || owners.some((owner) => uids.has(owner.uid))) continue;
        const [plural = "", ...group] = name.split(".");
        const apiVersion = object.apiVersion ?? "";
        const of = {
          plural,
          group: group.join("."),
          version: apiVersion.slice(apiVersion.indexOf("/") + 1),
          kind: object.kind ?? "",
          namespaced: object.metadata.namespace !== undefined,
        };
        if (this.#table(name).has(keyOf(object))) this.delete(of, keyOf(object));
      }
    }
  }

  #table(name: string): Map<ObjectKey, KubeObject> {
    let table = this.#objects.get(name);
    if (table === undefined) {
      table = new Map();
      this.#objects.set(name, table);
    }
    return table;
  }
}

export function refuse(reason: string, code: number, message: string): Error {
  const status: Status = {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    reason,
    code,
    message,
  };
  return statusError("fake API server", status);
}

type Loose = KubeObject & { status?: unknown };

function withStatusOf(before: Loose, object: Loose): KubeObject {
  const after: Loose = cloneJson(before);
  if (object.status === undefined) delete after.status;
  else after.status = object.status;
  const { managedFields } = object.metadata;
  if (managedFields !== undefined) after.metadata.managedFields = managedFields;
  return after;
}

function withSpecOf(before: Loose, object: Loose): KubeObject {
  const after: Loose = cloneJson(object);
  const { metadata } = before;
  for (const key of [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "managedFields",
  ] as const) {
    if (key === "managedFields" && after.metadata.managedFields !== undefined) continue;
    delete after.metadata[key];
    if (metadata[key] !== undefined) Object.assign(after.metadata, { [key]: metadata[key] });
  }
  if (before.status === undefined) delete after.status;
  else after.status = before.status;
  if (!sameJson(specOf(before), specOf(after))) after.metadata.generation = (metadata.generation ?? 0) + 1;
  return after;
}

function specOf(object: Loose): unknown {
  const { apiVersion: _apiVersion, kind: _kind, metadata: _metadata, status: _status, ...rest } = object;
  return rest;
}

function sameContent(a: KubeObject, b: KubeObject): boolean {
  const bare = (object: KubeObject) => {
    const { apiVersion: _apiVersion, kind: _kind, ...rest } = object;
    const { resourceVersion: _version, ...metadata } = object.metadata;
    return { ...rest, metadata };
  };
  return sameJson(bare(a), bare(b));
}
