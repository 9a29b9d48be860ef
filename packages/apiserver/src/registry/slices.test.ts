import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { nextTurn } from "@fairlead/base/turn.ts";
import { configMapStrategy } from "#builtin/config/strategy.ts";
import { define } from "#builtin/define.ts";
import { noJournal } from "#storage/journal.ts";
import { Store } from "#storage/store.ts";
import type { ApiObject } from "#values/object.ts";
import { Catalog } from "./catalog.ts";
import { Registry } from "./registry.ts";
import { PIECE_MS } from "./size.ts";
import { copyOf, type WriteRequest, type WriteResult } from "./write.ts";

const CONFIG_MAP = define("v1", "ConfigMap", { plural: "configmaps", strategy: configMapStrategy });

/** A clock on which each look takes longer than a piece of work may: every step is a slice of its own. */
class SlowClock extends FakeClock {
  #ms = 0;
  override monotonic(): number {
    this.#ms += PIECE_MS;
    return this.#ms;
  }
}

class World {
  readonly registry: Registry;

  constructor(clock: FakeClock = new SlowClock()) {
    const store = new Store({ journal: noJournal, clock });
    const parts = { store, clock, rng: seededRng(1), newUid: () => "uid" };
    this.registry = new Registry({ ...parts, catalog: new Catalog([CONFIG_MAP], []) });
  }

  put(object: ApiObject, of: Partial<WriteRequest> = {}): Promise<WriteResult> {
    return this.registry.put({ ...REQUEST, isLarge: true, ...of }, copyOf(object));
  }

  /** A patch of one key, as small as the object. */
  set(key: string, value: string, of: Partial<WriteRequest> = {}): Promise<WriteResult> {
    return this.registry.change({ ...REQUEST, ...of }, (entry) => {
      if (entry === undefined) return undefined;
      const input = copyOf(entry.object);
      input["data"] = { ...(input["data"] as object), [key]: value };
      return { input };
    });
  }

  get object(): ApiObject {
    return this.registry.get(CONFIG_MAP, "default", "a").object;
  }
}

const REQUEST: WriteRequest = {
  definition: CONFIG_MAP,
  namespace: "default",
  name: "a",
  subresource: "",
  user: { name: "u", groups: [] },
  dryRun: false,
  fieldManager: "m",
  warn() {},
};

const configMap = (data: Readonly<Record<string, string>>): ApiObject => ({
  kind: "ConfigMap",
  apiVersion: "v1",
  metadata: { name: "a", namespace: "default" },
  data,
});

/** An object in the store, and a large write that is in progress. */
async function begin(
  world: World,
  change: (stored: ApiObject) => ApiObject,
): Promise<{ result: Promise<WriteResult> }> {
  await world.registry.create({ ...REQUEST, name: undefined }, configMap({ a: "1", b: "1" }));
  const result = world.put(change(world.object), { fieldManager: "large" });
  let isOver = false;
  const over = (): void => void (isOver = true);
  result.then(over, over);
  for (let turns = 0; turns < 3; turns += 1) await nextTurn();
  expect(isOver).toBe(false);
  return { result };
}

describe("a large write, which is worked out in slices", () => {
  it("is refused with a conflict when another write of its revision was faster", async () => {
    const world = new World();
    const { result } = await begin(world, (stored) => ({ ...stored, data: { a: "2" } }));
    await world.set("b", "2");
    await expect(result).rejects.toMatchObject({ code: 409 });
    expect(world.object["data"]).toEqual({ a: "1", b: "2" });
  });

  it("begins again on the state that another write has left, and takes only the fields that it changes", async () => {
    const world = new World();
    const { result } = await begin(world, () => configMap({ a: "1", b: "2", c: "1" }));
    await world.set("b", "2", { fieldManager: "small" });
    await result;
    const managers = world.object.metadata.managedFields?.map((it) => [it.manager, it.fieldsV1]);
    expect(Object.fromEntries(managers ?? [])).toEqual({
      m: { "f:data": { ".": {}, "f:a": {} } },
      small: { "f:data": { "f:b": {} } },
      large: { "f:data": { "f:c": {} } },
    });
  });

  it("is not found when the object is deleted in the meantime", async () => {
    const world = new World();
    const { result } = await begin(world, (stored) => ({ ...stored, data: { a: "2" } }));
    await world.registry.delete(REQUEST, {});
    await expect(result).rejects.toMatchObject({ code: 404 });
  });

  it("stores what a write in one piece does", async () => {
    const [sliced, whole] = [new World(), new World(new FakeClock())];
    for (const world of [sliced, whole]) {
      await world.registry.create(
        { ...REQUEST, name: undefined, isLarge: true },
        configMap({ a: "1", b: "1" }),
      );
      await world.put(configMap({ a: "2", c: "1" }), { fieldManager: "other" });
      await world.set("b", "3", { isLarge: true });
    }
    expect(sliced.object).toEqual(whole.object);
  });

  it("waits for the large write before it of the same object, so that none begins again and again", async () => {
    const world = new World();
    const { result } = await begin(world, () => configMap({ a: "large" }));
    const others = ["1", "2", "3"].map((it) => world.put(configMap({ a: it }), { fieldManager: "large" }));
    const results = await Promise.all([result, ...others]);
    const revisions = results.map(({ object }) => Number(object.metadata.resourceVersion));
    expect(revisions).toEqual(revisions.toSorted((a, b) => a - b));
    expect(world.object["data"]).toEqual({ a: "3" });
  });
});
