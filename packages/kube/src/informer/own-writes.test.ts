import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { CONFIG_MAPS, type ConfigMap } from "#api/core/v1/types.ts";
import { objectKey } from "#api/meta/key.ts";
import { FakeKubeClient } from "#client/client.fake.ts";
import type { Informer } from "#types.ts";
import { createInformer } from "./informer.ts";
import { OwnWrites } from "./own-writes.ts";

const clock = new FakeClock();
const key = objectKey("team", "one");
let client: FakeKubeClient;
let informer: Informer<ConfigMap>;
let writes: OwnWrites<ConfigMap>;
/** Of a program that creates none. */
let others: OwnWrites<ConfigMap>;
const stop = new AbortController();

beforeEach(async () => {
  client = new FakeKubeClient(clock);
  const indexes = { group: (it: ConfigMap) => [it.metadata.labels?.["group"] ?? ""] };
  informer = createInformer(
    client,
    CONFIG_MAPS,
    { indexes },
    { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics },
  );
  client.seed(CONFIG_MAPS, configMap("1"));
  informer.start(stop.signal);
  await informer.synced(stop.signal);
  const valueOf = (it: ConfigMap): string => it.metadata.labels?.["group"] ?? "";
  writes = new OwnWrites({ informer, index: "group", valueOf, isCreator: true, clock });
  others = new OwnWrites({ informer, index: "group", valueOf, clock });
  client.deafTo.add("configmaps");
});
afterEach(() => informer[Symbol.asyncDispose]());

function configMap(v: string, name = "one"): ConfigMap {
  return { metadata: { namespace: "team", name, labels: { group: "a" } }, data: { v } };
}
const listed = (): string[] => writes.list("a").map((it) => `${it.metadata.name}=${it.data?.["v"]}`);
const write = (v: string): Promise<ConfigMap> => client.mergePatch(CONFIG_MAPS, key, { data: { v } });

describe("own writes", () => {
  it("are seen before the watch brings them", async () => {
    writes.note(await write("2"));
    writes.note(await client.create(CONFIG_MAPS, configMap("1", "two")));
    expect(informer.store.get(key)?.data).toEqual({ v: "1" });
    expect(writes.get(key)?.data).toEqual({ v: "2" });
    expect(listed()).toEqual(["one=2", "two=1"]);
  });
  it("do not hide what the watch brings later, nor what is as new already", async () => {
    const [older, newer] = [await write("2"), await write("3")];
    client.deafTo.clear();
    writes.note(newer);
    client.dropWatches();
    await clock.advance(10_000);
    await write("4");
    await clock.advance(0);
    writes.note(older);
    expect(listed()).toEqual(["one=4"]);
  });
  it("include deletions, which others may delay by finalizers", async () => {
    const [seen] = writes.list("a");
    if (seen === undefined) throw new Error("nothing listed");
    writes.noteDeleted(seen);
    expect(writes.get(key)?.metadata.deletionTimestamp).toBeDefined();
    client.deafTo.clear();
    client.dropWatches();
    await client.delete(CONFIG_MAPS, key);
    await clock.advance(10_000);
    expect(writes.get(key)).toBeUndefined();
    expect(listed()).toEqual([]);
  });
  it("of what is gone do not bring it back, where others create such objects", async () => {
    others.note(await client.create(CONFIG_MAPS, configMap("1", "two")));
    others.note(await write("2"));
    expect(others.list("a").map((it) => `${it.metadata.name}=${it.data?.["v"]}`)).toEqual(["one=2"]);
  });
  it("are forgotten after a time: an object that came and went while no watch was open is not there for ever", async () => {
    writes.note(await client.create(CONFIG_MAPS, configMap("1", "two")));
    await clock.advance(30_000);
    expect(listed()).toEqual(["one=1"]);
  });
});
