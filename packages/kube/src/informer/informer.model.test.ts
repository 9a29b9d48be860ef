import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CONFIG_MAPS, type ConfigMap } from "#api/core/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "#api/meta/key.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "#client/client.fake.ts";
import { createInformer } from "./informer.ts";
import type { Change, Informer } from "#types.ts";

/**
 * Random interleavings of writes and faults. The reader under test keeps a replica from the changes alone; it must never
 * receive a change that contradicts earlier ones.
 */
class Reader {
  readonly replica = new Map<ObjectKey, ConfigMap>();
  readonly #newest = new Map<ObjectKey, number>();
  readonly #gone = new Set<string>();

  readonly onChange = ({ key, before, after }: Change<ConfigMap>): void => {
    expect(before).toBe(this.replica.get(key));
    if (before === undefined && after === undefined) throw new Error("a change of nothing");
    if (after === undefined) {
      this.replica.delete(key);
      this.#gone.add(before?.metadata.uid ?? "");
      return;
    }
    expect(keyOf(after)).toBe(key);
    if (before !== undefined) expect(after.metadata.uid).toBe(before.metadata.uid);
    // A deleted object does not return, and no object goes back in time.
    expect(this.#gone).not.toContain(after.metadata.uid);
    const version = Number(after.metadata.resourceVersion);
    expect(version).toBeGreaterThan(this.#newest.get(key) ?? 0);
    this.#newest.set(key, version);
    this.replica.set(key, after);
  };
}

interface Real {
  readonly clock: FakeClock;
  readonly client: FakeKubeClient;
}
type Model = Record<string, never>;

const write = (run: (real: Real) => void | Promise<void>, text: string): fc.AsyncCommand<Model, Real> => ({
  check: () => true,
  run: async (_, real) => run(real),
  toString: () => text,
});

function put({ state }: FakeKubeClient, name: string, value: number): void {
  const object: ConfigMap = { metadata: { name, namespace: "work", labels: { app: `${value % 3}` } } };
  object.data = { v: `${value}` };
  if (state.all(CONFIG_MAPS).has(objectKey("work", name))) state.update(CONFIG_MAPS, object, undefined);
  else state.create(CONFIG_MAPS, object);
}

function remove({ state }: FakeKubeClient, name: string): void {
  const key = objectKey("work", name);
  if (state.all(CONFIG_MAPS).has(key)) state.delete(CONFIG_MAPS, key);
}

const nameOf = fc.constantFrom("a", "b", "c");
const valueOf = fc.integer({ min: -1000, max: 1000 });
const commands = [
  fc
    .tuple(nameOf, valueOf)
    .map(([name, value]) => write(({ client }) => put(client, name, value), `put(${name}, ${value})`)),
  nameOf.map((name) => write(({ client }) => remove(client, name), `delete(${name})`)),
  fc.tuple(nameOf, valueOf).map(([name, value]) =>
    write(({ client }) => {
      remove(client, name);
      put(client, name, value);
    }, `recreate(${name}, ${value})`),
  ),
  fc
    .tuple(fc.nat(2), nameOf, valueOf)
    .map(([at, name, value]) =>
      write(
        ({ client }) =>
          client.interruptList(at, () => (value % 2 === 0 ? put(client, name, value) : remove(client, name))),
        `duringList(${at}, ${name}, ${value})`,
      ),
    ),
  fc.constant(write(({ client }) => client.dropWatches(), "drop")),
  fc.constant(write(({ client }) => client.state.compact(), "compact")),
  fc.constant(write(({ client }) => client.stop(), "stop")),
  fc.constant(write(({ client }) => client.restore(), "restore")),
  fc.boolean().map((can) => write(({ client }) => void (client.canStreamLists = can), `streams(${can})`)),
  fc
    .integer({ min: 1, max: 3 })
    .map((size) => write(({ client }) => void (client.pageSize = size), `page(${size})`)),
  fc
    .constantFrom(0, 1, 60, 500, 40_000)
    .map((ms) => write(({ clock }) => clock.advance(ms), `advance(${ms})`)),
];

describe("an informer under any interleaving of writes, broken watches, outages and compactions", () => {
  it("converges to the state of the server, and never reports a change that did not happen", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.commands(commands, { maxCommands: 50, size: "max" }),
        fc.nat(),
        fc.boolean(),
        async (run, seed, streams) => {
          const clock = new FakeClock();
          const client = new FakeKubeClient(clock);
          client.canStreamLists = streams;
          client.pageSize = 1;
          const deps = { clock, rng: seededRng(seed), log: silentLogger, metrics: noMetrics };
          const indexes = { app: (it: ConfigMap) => Object.values(it.metadata.labels ?? {}) };
          await using informer = createInformer(client, CONFIG_MAPS, { indexes }, deps);
          const reader = new Reader();
          const faults: unknown[] = [];
          informer.subscribe((change) => {
            try {
              reader.onChange(change);
            } catch (error) {
              faults.push(error);
            }
          });
          informer.start(new AbortController().signal);
          await fc.asyncModelRun(() => ({ model: {}, real: { clock, client } }), run);
          client.restore();
          await clock.advance(120_000);
          expect(faults).toEqual([]);
          const expected = new Map(client.objects(CONFIG_MAPS).map((object) => [keyOf(object), object]));
          expect(new Map([...informer.store.list()].map((object) => [keyOf(object), object]))).toEqual(
            expected,
          );
          expect(reader.replica).toEqual(expected);
          expectIndexesToAgree(informer);
        },
      ),
      { numRuns: 1000 },
    );
  });
});

function expectIndexesToAgree(informer: Informer<ConfigMap>): void {
  for (const app of ["0", "1", "2", "-1", "-2"]) {
    const scanned = [...informer.store.list()].filter((it) => it.metadata.labels?.["app"] === app);
    expect(new Set(informer.store.byIndex("app", app))).toEqual(new Set(scanned));
  }
}
