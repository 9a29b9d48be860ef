import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { PlainForm } from "#http/forms.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { Entry } from "#storage/entry.ts";
import type { Retention } from "#storage/event-log.ts";
import { noJournal } from "#storage/journal.ts";
import { Store } from "#storage/store.ts";
import { storageKey } from "#storage/table.ts";
import { WatchHub } from "#watch/hub.ts";
import type { WatchSink } from "#watch/watcher.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";

/** Random writes and random watchers, against the plainest model there is: the list of everything that happened. */

const definition: ResourceDefinition = {
  group: "",
  version: "v1",
  plural: "things",
  singular: "thing",
  kind: "Thing",
  listKind: "ThingList",
  namespaced: true,
  shortNames: [],
  categories: [],
  verbs: [],
  schema: {},
  strategy: { generation: "none", allowUnconditionalUpdate: true, allowCreateOnUpdate: false },
  columns: [],
  hasStatus: false,
  isCustom: true,
};

interface Received {
  readonly type: string;
  readonly object: ApiObject;
}

/** A socket that accepts a set number of writes, and then reports that it is full. */
class SlowSink implements WatchSink {
  readonly events: Received[] = [];
  isEnded = false;
  room: number;
  #drained = (): void => {};
  constructor(room: number) {
    this.room = room;
  }
  write(pieces: readonly Buffer[]): boolean {
    for (const line of Buffer.concat(pieces).toString("utf8").split("\n")) {
      if (line !== "") this.events.push(JSON.parse(line) as Received);
    }
    this.room -= 1;
    return this.room > 0;
  }
  onDrain(drained: () => void): void {
    this.#drained = drained;
  }
  drain(room: number): void {
    this.room = room;
    this.#drained();
  }
  end(): void {
    this.isEnded = true;
  }
}

interface Happened {
  readonly revision: number;
  readonly type: string;
  readonly key: string;
  readonly isRed: boolean;
  readonly wasRed: boolean;
}

type Step =
  | { readonly do: "write"; readonly changes: readonly Change[] }
  | { readonly do: "watch"; readonly back: number; readonly room: number; readonly spec: Scope }
  | { readonly do: "drain"; readonly watcher: number; readonly room: number }
  | { readonly do: "bookmark"; readonly watcher: number };

interface Change {
  readonly namespace: string;
  readonly name: string;
  readonly act: "put" | "remove" | "fail";
  readonly isRed: boolean;
}

interface Scope {
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly onlyRed: boolean;
}

const change = fc.record({
  namespace: fc.constantFrom("a", "b", "ab"),
  name: fc.constantFrom("x", "y", "z"),
  act: fc.constantFrom("put" as const, "put" as const, "remove" as const, "fail" as const),
  isRed: fc.boolean(),
});
const scope = fc.record({
  namespace: fc.constantFrom(undefined, "a", "b"),
  name: fc.constantFrom(undefined, undefined, "x"),
  onlyRed: fc.boolean(),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant("write" as const), changes: fc.array(change, { minLength: 1, maxLength: 6 }) }),
  fc.record({ do: fc.constant("watch" as const), back: fc.nat(20), room: fc.nat(4), spec: scope }),
  fc.record({ do: fc.constant("drain" as const), watcher: fc.nat(10), room: fc.nat(4) }),
  fc.record({ do: fc.constant("bookmark" as const), watcher: fc.nat(10) }),
);

class World {
  readonly clock = new FakeClock();
  readonly store: Store;
  readonly hub: WatchHub;
  readonly form = new PlainForm(definition);
  readonly history: Happened[] = [];
  readonly watchers: { sink: SlowSink; from: number; scope: Scope; watcher: ReturnType<WatchHub["open"]> }[] =
    [];

  constructor(retention?: Retention) {
    const shared = { journal: noJournal, clock: this.clock };
    this.store = new Store(retention === undefined ? shared : { ...shared, retention });
    this.hub = new WatchHub(this.store, this.clock);
    this.store.onCommit((events) => {
      for (const { event } of events) {
        const { revision, type, key } = event;
        const before = event.before !== undefined && isRed(event.before);
        this.history.push({
          revision,
          type,
          key,
          isRed: type !== "DELETED" && isRed(event.entry),
          wasRed: before,
        });
      }
    });
  }

  async run(steps: readonly Step[]): Promise<void> {
    for (const it of steps) await this.#run(it);
  }

  async #run(it: Step): Promise<void> {
    const target = it.do === "drain" || it.do === "bookmark" ? this.watchers[it.watcher] : undefined;
    if (it.do === "write") await this.#write(it.changes);
    else if (it.do === "watch") this.#watch(it.back, it.room, it.spec);
    else if (it.do === "drain") target?.sink.drain(it.room);
    else if (target !== undefined) this.hub.bookmark(target.watcher);
  }

  /** All in one turn, so that they share a transaction; failing ones must leave no trace. */
  async #write(changes: readonly Change[]): Promise<void> {
    const table = this.store.table("things");
    const writes = changes.map(({ namespace, name, act, isRed: red }) =>
      this.store.write((tx) => {
        const key = storageKey(namespace, name);
        if (act === "remove") tx.remove(table, key);
        else tx.put(table, key, thing(namespace, name, red));
        if (act === "fail") throw new Error("refused after the change");
      }),
    );
    await Promise.allSettled(writes);
  }

  #watch(back: number, room: number, wanted: Scope): void {
    const from = Math.max(1, this.store.revision - back);
    const sink = new SlowSink(room);
    const matches = wanted.onlyRed ? isRed : undefined;
    const spec = {
      table: this.store.table("things"),
      namespace: wanted.namespace,
      name: wanted.name,
      matches,
      encoder: this.form.events,
      revision: from,
      initial: undefined,
      marksInitialEnd: false,
    };
    this.watchers.push({ sink, from, scope: wanted, watcher: this.hub.open(spec, sink) });
  }

  drainAll(): void {
    for (const { sink } of this.watchers) for (let tries = 0; tries < 50; tries += 1) sink.drain(100);
  }

  expected(from: number, { namespace, name, onlyRed }: Scope): string[] {
    return this.history
      .filter((it) => it.revision > from)
      .filter((it) => namespace === undefined || it.key.startsWith(`${namespace}/`))
      .filter((it) => name === undefined || it.key.endsWith(`/${name}`))
      .flatMap((it) => {
        const type = onlyRed ? seenType(it) : it.type;
        return type === undefined ? [] : [`${type} ${it.key} ${it.revision}`];
      });
  }
}

function seenType({ type, isRed: is, wasRed: was }: Happened): string | undefined {
  if (is) return was ? type : "ADDED";
  return was ? "DELETED" : undefined;
}

function isRed({ object }: Entry): boolean {
  return object.metadata.labels?.["colour"] === "red";
}

function thing(namespace: string, name: string, red: boolean): ApiObject {
  return {
    kind: "Thing",
    apiVersion: "v1",
    metadata: { namespace, name, labels: { colour: red ? "red" : "blue" } },
  };
}

function reported(events: readonly Received[]): string[] {
  return events
    .filter((it) => it.type !== "BOOKMARK")
    .map(
      ({ type, object: { metadata } }) =>
        `${type} ${metadata.namespace}/${metadata.name} ${metadata.resourceVersion}`,
    );
}

describe("watching", () => {
  it("sends every watcher each change once, in order, for any start revision and reading speed", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const world = new World();
        await world.run(steps);
        world.drainAll();
        for (const { sink, from, scope: wanted } of world.watchers) {
          expect(reported(sink.events)).toEqual(world.expected(from, wanted));
        }
      }),
      { numRuns: 150 },
    );
  });

  it("gives every change a higher revision than the one before", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const world = new World();
        await world.run(steps);
        const revisions = world.history.map((it) => it.revision);
        expect(revisions).toEqual([...new Set(revisions)].toSorted((a, b) => a - b));
        expect(world.store.revision).toBe(revisions.at(-1) ?? 1);
      }),
    );
  });

  it("never sends a bookmark ahead of the events", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const world = new World();
        await world.run(steps);
        world.drainAll();
        for (const { sink } of world.watchers) {
          let highest = 0;
          for (const { type, object } of sink.events) {
            const revision = Number(object.metadata.resourceVersion);
            if (type === "BOOKMARK") highest = revision;
            else expect(revision).toBeGreaterThan(highest);
          }
        }
      }),
    );
  });

  it("rebuilds the state at any revision that the log covers", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), fc.nat(30), async (steps, back) => {
        const world = new World();
        await world.run(steps);
        const table = world.store.table("things");
        const revision = Math.max(1, world.store.revision - back);
        const live = new Set<string>();
        for (const it of world.history.filter((event) => event.revision <= revision)) {
          if (it.type === "DELETED") live.delete(it.key);
          else live.add(it.key);
        }
        const keys = Array.from(table.stateAt(revision).entries(), (it) => it.key);
        expect(keys).toEqual([...live].toSorted());
        for (const it of table.stateAt(revision).entries()) expect(it.revision).toBeLessThanOrEqual(revision);
      }),
    );
  });

  it("ends a watcher that has fallen behind the log", async () => {
    const world = new World({ minEvents: 4, minAgeMs: 0, maxEvents: 4, maxBytes: 1_000_000 });
    await world.run([
      { do: "watch", back: 0, room: 1, spec: { namespace: undefined, name: undefined, onlyRed: false } },
    ]);
    for (let at = 0; at < 20; at += 1) {
      await world.run([{ do: "write", changes: [{ namespace: "a", name: "x", act: "put", isRed: false }] }]);
    }
    const sink = world.watchers[0]?.sink;
    expect(sink?.events).toHaveLength(1);
    sink?.drain(100);
    expect(sink?.isEnded).toBe(true);
    expect(world.hub.size).toBe(0);
  });
});
