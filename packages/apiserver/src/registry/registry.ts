import type { Clock } from "@fairlead/base/clock.ts";
import { cloneJson } from "@fairlead/base/json.ts";
import type { Rng } from "@fairlead/base/rng.ts";
import { forbidden, notFound } from "#status.ts";
import { Entry } from "#storage/entry.ts";
import type { Store, StoreChange, Transaction } from "#storage/store.ts";
import { storageKey, type Table } from "#storage/table.ts";
import { type Admission, attributesOf, NO_ADMISSION, type Subject } from "./admission.ts";
import { type Catalog, tableId } from "./catalog.ts";
import { createObject } from "./create.ts";
import { type Deleter, GarbageCollector } from "./garbage.ts";
import { IMMORTAL_NAMESPACES, NAMESPACES, NamespaceCleaner } from "./namespaces.ts";
import type { Place } from "./owners.ts";
import { untilSettled } from "./pending.ts";
import { Prerequisites } from "./prerequisites.ts";
import { type DeleteOptions, isReadyToGo, propagationOf, type Removal, removeObject } from "./removal.ts";
import { Replay } from "./replay.ts";
import { LARGE_BYTES } from "./size.ts";
import type { ResourceDefinition } from "./types.ts";
import type { ApiObject, ObjectReader } from "#values/object.ts";
import { putObject, replaceObject, type Replacement } from "./update.ts";
import {
  tableOf,
  viewOf,
  type Write,
  type WriteEnvironment,
  type WriteRequest,
  type WriteResult,
} from "./write.ts";

function withOwnMetadata(object: ApiObject): ApiObject {
  return { ...object, metadata: { ...object.metadata } };
}

/** Objects that follow-up work (garbage, namespaces) may touch in one transaction; the rest follows in the next. */
const FOLLOW_UP_BUDGET = 500;

export interface RegistryOptions {
  readonly store: Store;
  readonly catalog: Catalog;
  readonly rng: Rng;
  readonly clock: Clock;
  readonly newUid: () => string;
  /** Default: none. */
  readonly admission?: Admission;
}

/** Work that a change makes due, done in the transaction of that change as far as the budget goes. */
export interface FollowUp {
  readonly isIdle: boolean;
  observe(change: StoreChange): void;
  collect(tx: Transaction, budget: number): void;
}

/** The verbs, on the store: each write with everything that follows from it in one transaction. */
export class Registry {
  readonly store: Store;
  readonly catalog: Catalog;
  readonly env: WriteEnvironment;
  readonly deleter: Deleter;
  readonly #followUps: FollowUp[] = [];
  readonly #prerequisites: Prerequisites;
  readonly #clock: Clock;
  /** Of each object, the last of its large writes that wait or run. */
  readonly #lines = new Map<string, Promise<void>>();
  #isFollowingUp = false;

  constructor({ store, catalog, rng, clock, newUid, admission = NO_ADMISSION }: RegistryOptions) {
    this.store = store;
    this.catalog = catalog;
    this.#clock = clock;
    this.env = { store, reader: this.#reader(), random: () => rng.random(), newUid, admission };
    this.#prerequisites = new Prerequisites(store, this.env.reader, clock);
    this.deleter = this.#makeDeleter();
    this.#followUps.push(
      new GarbageCollector(catalog, this.deleter),
      new NamespaceCleaner(store, catalog, this.deleter),
    );
    store.onChange((change) => {
      this.#runStoredHook(change);
      for (const it of this.#followUps) it.observe(change);
    });
    store.onCommit(() => this.#continueFollowUps());
  }

  addFollowUp(followUp: FollowUp): void {
    this.#followUps.push(followUp);
  }

  get reader(): ObjectReader {
    return this.env.reader;
  }

  /** Gives strategies and follow-ups everything that a restored store holds. */
  replay(): void {
    for (const table of this.store.tables()) {
      for (const after of table.entries()) {
        const change = { table, key: after.key, before: undefined, after };
        this.#runStoredHook(change);
        for (const it of this.#followUps) it.observe(change);
      }
    }
    this.#continueFollowUps();
  }

  #runStoredHook({ table, before, after }: StoreChange): void {
    this.catalog.ofTable(table.id)?.strategy.onStored?.(after?.object, before?.object);
  }

  /** One write with what follows from it. */
  write<T>(work: (tx: Transaction) => T): Promise<T> {
    return this.store.write((tx) => {
      const result = work(tx);
      for (const it of this.#followUps) it.collect(tx, FOLLOW_UP_BUDGET);
      return result;
    });
  }

  /** Has follow-ups do what became due by time alone. */
  wake(): void {
    this.#continueFollowUps();
  }

  /** Continues with the work that did not fit into the transaction that caused it. */
  #continueFollowUps(): void {
    if (this.#isFollowingUp || this.#followUps.every((it) => it.isIdle)) return;
    this.#isFollowingUp = true;
    const settled = (): void => {
      this.#isFollowingUp = false;
      this.#continueFollowUps();
    };
    // A failed transaction leaves the work due; the next commit takes it up again.
    this.write(() => {}).then(settled, () => {
      this.#isFollowingUp = false;
    });
  }

  get(definition: ResourceDefinition, namespace: string | undefined, name: string): Entry {
    const entry = tableOf(this.env, definition).get(storageKey(namespace, name));
    if (entry === undefined) throw notFound(definition, name);
    return entry;
  }

  /** Whether what a request addresses is there. */
  has({ definition, namespace, name = "" }: WriteRequest): boolean {
    return tableOf(this.env, definition).get(storageKey(namespace, name)) !== undefined;
  }

  /** An object that is not in the store, as if it were: the answer to a dry run. */
  unstored(object: ApiObject): Entry {
    return Entry.of(storageKey(object.metadata.namespace, object.metadata.name), this.store.revision, object);
  }

  /** To be awaited before a new object is written: it may need something that is about to be made. */
  awaitPrerequisites(request: WriteRequest, object: ApiObject): Promise<void> {
    return this.#prerequisites.wait(request, object);
  }

  /** One write of a request: whenever it had to wait for an answer, it runs again on the current state. */
  attempt<T>(request: WriteRequest, work: (write: Write) => T): Promise<T> {
    const isSliced = request.isLarge === true || this.#isOfLarge(request);
    const replay = new Replay(isSliced ? this.#clock : undefined);
    const run = (): Promise<T> =>
      this.write((tx) => work({ ...replay.attempt(this.env, tx), request, replay }));
    const settled = (): Promise<T> => untilSettled(run, this.#patience(request));
    // A webhook may write the object itself, and would wait for the write that waits for it.
    if (this.#mayWait(request)) return settled();
    if (isSliced) return this.#inLine(request, settled);
    return this.write((tx) => work({ env: this.env, tx, request, replay }));
  }

  /** Large writes of one object follow each other: otherwise each that is done would have all others begin again. */
  #inLine<T>({ definition, namespace, name }: WriteRequest, write: () => Promise<T>): Promise<T> {
    if (name === undefined) return write();
    const key = `${tableId(definition)}\n${storageKey(namespace, name)}`;
    const result = (this.#lines.get(key) ?? Promise.resolve()).then(write);
    const over = (): void => {
      if (this.#lines.get(key) === last) this.#lines.delete(key);
    };
    const last = result.then(over, over);
    this.#lines.set(key, last);
    return result;
  }

  #isOfLarge({ definition, namespace, name }: WriteRequest): boolean {
    if (name === undefined) return false;
    const entry = tableOf(this.env, definition).get(storageKey(namespace, name));
    return entry !== undefined && entry.json.length > LARGE_BYTES;
  }

  #mayWait({ definition }: WriteRequest): boolean {
    return definition.isConverted === true || this.env.admission.isActive(definition);
  }

  #patience({ signal }: Pick<WriteRequest, "signal">): Parameters<typeof untilSettled>[1] {
    return { clock: this.#clock, signal };
  }

  /** Each attempt has an input of its own to change; one that was cut has changed nothing but metadata and defaults. */
  #inputs(request: WriteRequest, input: ApiObject): (write: Write) => ApiObject {
    const isKept = !this.#mayWait(request);
    let last = input;
    return ({ replay }) => {
      if (!isKept && !replay.isContinued) last = cloneJson(input);
      return withOwnMetadata(last);
    };
  }

  /** A read of objects in a version that a webhook may have to convert them to. */
  read<T>(read: () => T | Promise<T>, signal: () => AbortSignal): Promise<T> {
    return untilSettled(read, this.#patience({ signal }));
  }

  create(request: WriteRequest, input: ApiObject): Promise<WriteResult> {
    const next = this.#inputs(request, input);
    return this.attempt(request, (write) => createObject(write, next(write)));
  }

  put(request: WriteRequest, input: ApiObject): Promise<WriteResult> {
    const next = this.#inputs(request, input);
    return this.attempt(request, (write) => putObject(write, next(write)));
  }

  /** For patches: `change` reads the stored state and says what it is to become, in the same transaction. */
  change(
    request: WriteRequest,
    change: (
      entry: Entry | undefined,
      write: Write,
    ) => Pick<Replacement, "input" | "isApplied" | "part"> | undefined,
  ): Promise<WriteResult> {
    return this.attempt(request, (write) => {
      const { definition, namespace, name = "" } = request;
      const entry = tableOf(this.env, definition).get(storageKey(namespace, name));
      const planned = change(entry, write);
      if (planned === undefined) throw notFound(definition, name);
      const input = withOwnMetadata(planned.input);
      if (entry === undefined) {
        return createObject(write, input, { isApplied: planned.isApplied ?? false });
      }
      return replaceObject(write, { entry, ...planned, input });
    });
  }

  delete(request: WriteRequest, options: DeleteOptions): Promise<Removal> {
    const { definition, namespace, name = "" } = request;
    return this.attempt(request, (write) =>
      this.deleteIn(write.tx, { definition, namespace, name }, options, (old) =>
        this.#admitDelete(write, old),
      ),
    );
  }

  #admitDelete(write: Write, { object }: Entry): void {
    const { definition, isCollection } = write.request;
    const old = definition.fromStored === undefined ? object : definition.fromStored(object);
    const attributes = attributesOf(write, {
      operation: "DELETE",
      object: undefined,
      old,
      ...(isCollection === true ? { name: "" } : {}),
    });
    this.env.admission.mutate(attributes);
    this.env.admission.validate(attributes);
  }

  /** Runs admission for a request that does not write the object it names: a Binding, a connection. */
  admit(write: Write, subject: Subject): ApiObject | undefined {
    const { admission } = this.env;
    const object = admission.mutate(attributesOf(write, subject));
    admission.validate(attributesOf(write, { ...subject, object }));
    return object;
  }

  deleteIn(
    tx: Transaction,
    of: { definition: ResourceDefinition; namespace: string | undefined; name: string },
    options: DeleteOptions,
    admit?: (entry: Entry) => void,
  ): Removal {
    const { definition, namespace, name } = of;
    if (tableId(definition) === NAMESPACES && IMMORTAL_NAMESPACES.has(name)) {
      throw forbidden(definition, name, "this namespace may not be deleted");
    }
    const place = { table: tableOf(this.env, definition), key: storageKey(namespace, name) };
    const removal = removeObject(
      tx,
      place,
      definition,
      admit === undefined ? options : { ...options, admit },
    );
    if (removal === undefined) throw notFound(definition, name);
    return removal;
  }

  #makeDeleter(): Deleter {
    const definitionOf = (table: Table): ResourceDefinition | undefined => this.catalog.ofTable(table.id);
    return {
      remove: (tx: Transaction, place: Place, propagation) => {
        const definition = definitionOf(place.table);
        if (definition === undefined) return;
        const entry = place.table.get(place.key);
        const asked = entry === undefined ? undefined : propagationOf(entry.object);
        const propagationPolicy = propagation === "Foreground" ? propagation : (asked ?? propagation);
        removeObject(tx, place, definition, { propagationPolicy });
      },
      store: (tx: Transaction, place: Place, object: ApiObject) => {
        if (isReadyToGo(object)) tx.remove(place.table, place.key);
        else tx.put(place.table, place.key, object);
      },
    };
  }

  #reader(): ObjectReader {
    const { catalog, store } = this;
    const definitionOf = (group: string, plural: string): ResourceDefinition | undefined =>
      catalog.ofTable(tableId({ group, plural }));
    return {
      get(group, plural, namespace, name) {
        const definition = definitionOf(group, plural);
        if (definition === undefined) return undefined;
        const entry = store.table(tableId(definition)).get(storageKey(namespace, name));
        return entry === undefined ? undefined : viewOf(definition, entry);
      },
      *list(group, plural, namespace) {
        const definition = definitionOf(group, plural);
        if (definition === undefined) return;
        for (const entry of store.table(tableId(definition)).entries(namespace)) {
          yield viewOf(definition, entry);
        }
      },
    };
  }
}
