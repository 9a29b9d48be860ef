import { beforeEach, describe, expect, it, vi } from "vitest";
import { CONFIG_MAPS, type ConfigMap } from "#api/core/v1/types.ts";
import { objectKey } from "#api/meta/key.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "#client/client.fake.ts";
import { createInformer } from "./informer.ts";
import type { Change, InformerOptions, KubeClient, ListOptions, WatchEvent } from "#types.ts";
import type { KubeObject } from "#api/meta/types.ts";
import type { Resource } from "#api/meta/resource.ts";
import { delay } from "@fairlead/base/clock.ts";

const clock = new FakeClock();
const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
const forever = new AbortController().signal;
const key = objectKey("work", "one");
const LONGEST_WATCH_MS = 601_000;

function configMap(
  name: string,
  data: Record<string, string> = {},
  labels: Record<string, string> = {},
): ConfigMap {
  return { metadata: { name, namespace: "work", labels }, data };
}

let client: FakeKubeClient;
beforeEach(() => {
  client = new FakeKubeClient(clock);
});

async function started(options: InformerOptions<ConfigMap> = {}, log = silentLogger) {
  const informer = createInformer(client, CONFIG_MAPS, options, { ...deps, log });
  const changes: Change<ConfigMap>[] = [];
  informer.subscribe((change) => changes.push(change));
  informer.start(forever);
  await clock.advance(0);
  const names = (): string[] => [...informer.store.list()].map((it) => it.metadata.name).toSorted();
  const reported = (): string[] =>
    changes.splice(0).map((it) => `${it.before?.data?.["v"] ?? "-"}>${it.after?.data?.["v"] ?? "-"}`);
  return { informer, names, reported };
}

describe("an informer", () => {
  it("contains the objects from before its start, and reports when it has synced", async () => {
    client.seed(CONFIG_MAPS, configMap("one", { v: "1" }), configMap("two", { v: "2" }));
    const { informer, names, reported } = await started();
    expect(informer.hasSynced).toBe(true);
    expect(names()).toEqual(["one", "two"]);
    expect(reported()).toEqual(["->1", "->2"]);
  });

  it("reports each change with the object before and after it", async () => {
    const { reported } = await started();
    await client.create(CONFIG_MAPS, configMap("one", { v: "1" }));
    await client.mergePatch(CONFIG_MAPS, key, { data: { v: "2" } });
    await client.delete(CONFIG_MAPS, key);
    await clock.advance(0);
    expect(reported()).toEqual(["->1", "1>2", "2>-"]);
  });

  it("resumes after a broken watch without a new list and without losing a change", async () => {
    const { reported } = await started();
    client.stop();
    await clock.advance(0);
    client.restore();
    client.seed(CONFIG_MAPS, configMap("one", { v: "1" }));
    expect(reported()).toEqual([]);
    client.reads.length = 0;
    await clock.advance(200);
    expect(reported()).toEqual(["->1"]);
    expect(client.reads).toEqual([{ verb: "watch", resource: "configmaps", from: "100" }]);
  });

  it("reports what became of objects while its watch was broken, not what they were in between", async () => {
    client.seed(CONFIG_MAPS, configMap("one", { v: "1" }), configMap("replaced", { v: "old" }));
    const { reported } = await started();
    reported();
    client.stop();
    await clock.advance(0);
    client.state.update(CONFIG_MAPS, configMap("one", { v: "2" }), undefined);
    client.seed(CONFIG_MAPS, configMap("brief", { v: "gone" }));
    client.state.delete(CONFIG_MAPS, objectKey("work", "brief"));
    client.state.delete(CONFIG_MAPS, objectKey("work", "replaced"));
    client.seed(CONFIG_MAPS, configMap("replaced", { v: "new" }));
    client.state.update(CONFIG_MAPS, configMap("one", { v: "3" }), undefined);
    client.restore();
    await clock.advance(1000);
    expect(reported()).toEqual(["old>-", "->new", "1>3"]);
    await client.mergePatch(CONFIG_MAPS, key, { data: { v: "4" } });
    await client.mergePatch(CONFIG_MAPS, key, { data: { v: "5" } });
    await clock.advance(0);
    expect(reported()).toEqual(["3>4", "4>5"]);
  });

  it("does not wait for a server whose objects never stop changing", async () => {
    client.seed(CONFIG_MAPS, configMap("one", { v: "0" }));
    const { reported } = await started();
    client.stop();
    await clock.advance(0);
    client.restore();
    reported();
    for (let v = 1; v <= 100; v += 1) {
      client.state.update(CONFIG_MAPS, configMap("one", { v: String(v) }), undefined);
      await clock.advance(10);
    }
    const changes = reported();
    expect(changes.length).toBeGreaterThan(20);
    expect(changes.at(-1)).toBe("99>100");
  });

  it("reports since when it watches, so that silence before that is not counted", async () => {
    const { informer } = await started();
    expect(informer.watchingSinceMs).toBe(clock.monotonic());
    client.stop();
    await clock.advance(10_000);
    expect(informer.watchingSinceMs).toBeUndefined();
    client.restore();
    await clock.advance(60_000);
    expect(informer.watchingSinceMs).toBeGreaterThan(clock.monotonic() - 60_000);
  });

  it("lists again after compaction, and reports only the difference", async () => {
    client.seed(CONFIG_MAPS, configMap("one", { v: "1" }), configMap("two", { v: "2" }));
    const { reported } = await started();
    reported();
    client.stop();
    await clock.advance(0);
    client.state.delete(CONFIG_MAPS, key);
    client.seed(CONFIG_MAPS, configMap("three", { v: "3" }));
    client.state.compact();
    client.restore();
    await clock.advance(1000);
    expect(reported()).toEqual(["1>-", "->3"]);
  });

  it("lists again if a watch brought nothing for its whole time: the server was restored from a backup", async () => {
    const restored = new (class extends FakeKubeClient {
      override async *watch<T extends KubeObject>(
        ...[of, options, signal]: Parameters<KubeClient["watch"]> & [Resource<T>, unknown, unknown]
      ): AsyncGenerator<WatchEvent<T>> {
        // It waits for a version that is to come.
        if (Number(options.resourceVersion ?? 0) > this.state.version)
          await delay(clock, (options.timeoutSeconds ?? 0) * 1000, signal);
        else yield* super.watch(of, options, signal);
      }
    })(clock);
    client = restored;
    client.seed(CONFIG_MAPS, configMap("one", { v: "1" }));
    const { reported } = await started();
    const restore = client.state.backup();
    client.seed(CONFIG_MAPS, configMap("two", { v: "2" }));
    await client.mergePatch(CONFIG_MAPS, key, { data: { v: "3" } });
    await clock.advance(0);
    expect(reported()).toEqual(["->1", "->2", "1>3"]);
    restore();
    await clock.advance(LONGEST_WATCH_MS);
    expect(reported()).toEqual(["2>-", "3>1"]);
  });

  it("reports an object that was replaced by another of its name as a deletion and a creation", async () => {
    client.seed(CONFIG_MAPS, configMap("one", { v: "old" }));
    const { reported } = await started();
    reported();
    client.stop();
    await clock.advance(0);
    client.state.delete(CONFIG_MAPS, key);
    client.seed(CONFIG_MAPS, configMap("one", { v: "new" }));
    client.state.compact();
    client.restore();
    await clock.advance(1000);
    expect(reported()).toEqual(["old>-", "->new"]);
  });

  it("keeps a deleted object for a while, and reports one that is recreated within that time as a change", async () => {
    client.seed(CONFIG_MAPS, configMap("one", { v: "1" }));
    const { reported, names } = await started({ lingerMs: 300 });
    reported();
    await client.delete(CONFIG_MAPS, key);
    await clock.advance(299);
    expect([names(), reported()]).toEqual([["one"], []]);
    await client.create(CONFIG_MAPS, configMap("one", { v: "2" }));
    await clock.advance(1000);
    expect([names(), reported()]).toEqual([["one"], ["1>2"]]);
    await client.delete(CONFIG_MAPS, key);
    await clock.advance(299);
    expect(reported()).toEqual([]);
    await clock.advance(1);
    expect([names(), reported()]).toEqual([[], ["2>-"]]);
  });

  it("keeps objects that a new list lacks for a while too, except those that were terminating", async () => {
    const leaving = configMap("two", { v: "2" });
    leaving.metadata.finalizers = ["example.com/wait"];
    client.seed(CONFIG_MAPS, configMap("one", { v: "1" }), leaving);
    const { reported, names } = await started({ lingerMs: 60_000 });
    await client.delete(CONFIG_MAPS, objectKey("work", "two"));
    await clock.advance(0);
    reported();
    client.stop();
    await clock.advance(0);
    const { finalizers: _held, ...metadata } = client.state.get(
      CONFIG_MAPS,
      objectKey("work", "two"),
    ).metadata;
    client.state.update(CONFIG_MAPS, { ...leaving, metadata }, undefined);
    client.state.delete(CONFIG_MAPS, key);
    client.seed(CONFIG_MAPS, configMap("three", { v: "3" }));
    client.state.compact();
    client.restore();
    await clock.advance(5000);
    expect([names(), reported()]).toEqual([
      ["one", "three"],
      ["2>-", "->3"],
    ]);
    await clock.advance(60_000);
    expect([names(), reported()]).toEqual([["three"], ["1>-"]]);
  });

  it("lists in pages if the server does not support streaming lists", async () => {
    client.canStreamLists = false;
    client.pageSize = 2;
    client.seed(CONFIG_MAPS, ...["a", "b", "c", "d", "e"].map((name) => configMap(name)));
    const { names } = await started();
    expect(names()).toEqual(["a", "b", "c", "d", "e"]);
  });

  it("waits longer after every failure, from 50 ms up to a minute at most", async () => {
    client.stop();
    const { informer } = await started();
    await clock.advance(600_000);
    client.restore();
    await clock.advance(60_000);
    expect(informer.hasSynced).toBe(true);
  });

  it("retries as soon as any other call reaches the server again", async () => {
    const { reported } = await started();
    client.stop();
    await clock.advance(600_000);
    client.restore();
    client.seed(CONFIG_MAPS, configMap("one", { v: "1" }));
    await client.find(CONFIG_MAPS, key);
    await clock.advance(150);
    expect(reported()).toEqual(["->1"]);
  });

  it("that starts without its server reads it within ten seconds once it is there, however long that took", async () => {
    client.stop();
    const { informer } = await started();
    await clock.advance(3_600_000);
    client.restore();
    await clock.advance(10_000);
    expect(informer.hasSynced).toBe(true);
  });

  it("finds a kind within seconds once it is served, however late", async () => {
    const notServed = new FleetError("API_NOT_FOUND", "the server could not find the requested resource");
    client.refuseReads = notServed;
    const { informer } = await started();
    await clock.advance(3_600_000);
    client.refuseReads = undefined;
    await clock.advance(2000);
    expect(informer.hasSynced).toBe(true);
  });

  it("asks seldom for an optional kind that stays unserved, and finds it soon after it was absent for a short time", async () => {
    client.refuseReads = new FleetError("API_NOT_FOUND", "the server could not find the requested resource");
    const asked = vi.spyOn(client, "watch");
    const { informer } = await started({ isOptional: () => true });
    await clock.advance(20_000);
    client.seed(CONFIG_MAPS, configMap("one"));
    client.refuseReads = undefined;
    await clock.advance(2000);
    expect(informer.store.size).toBe(1);
    client.refuseReads = new FleetError("API_NOT_FOUND", "the server could not find the requested resource");
    client.dropWatches();
    await clock.advance(3_600_000);
    asked.mockClear();
    await clock.advance(3_600_000);
    expect(asked.mock.calls.length).toBeLessThanOrEqual(3600 / 15);
  });

  it("updates indexes as objects change, and rejects an undeclared index", async () => {
    const { informer } = await started({ indexes: { app: (it) => Object.values(it.metadata.labels ?? {}) } });
    const of = (app: string): string[] =>
      [...informer.store.byIndex("app", app)].map((it) => it.metadata.name);
    client.seed(CONFIG_MAPS, configMap("one", {}, { app: "web" }), configMap("two", {}, { app: "web" }));
    await clock.advance(0);
    expect(of("web")).toEqual(["one", "two"]);
    await client.mergePatch(CONFIG_MAPS, key, { metadata: { labels: { app: "db" } } });
    await clock.advance(0);
    expect([of("web"), of("db")]).toEqual([["two"], ["one"]]);
    expect(() => informer.store.byIndex("zone", "a")).toThrow('no index "zone"');
  });

  it("sees only objects that match its selectors, and one that ceases to match as deleted", async () => {
    client.seed(CONFIG_MAPS, configMap("one", {}, { app: "web" }), configMap("two"));
    const { names } = await started({ labelSelector: "app=web" });
    expect(names()).toEqual(["one"]);
    await client.mergePatch(CONFIG_MAPS, key, { metadata: { labels: { app: "db" } } });
    await clock.advance(0);
    expect(names()).toEqual([]);
  });

  it("drops managedFields except those of objects that the given manager applied, then trims", async () => {
    await client.apply(CONFIG_MAPS, configMap("one", { v: "1" }), { fieldManager: "mine" });
    await client.apply(CONFIG_MAPS, configMap("one", { w: "1" }), { fieldManager: "other" });
    const plain = await started({ trim: (it) => ({ metadata: it.metadata }) });
    expect(plain.informer.store.get(key)).not.toHaveProperty("metadata.managedFields");
    expect(plain.informer.store.get(key)).not.toHaveProperty("data");
    const mine = await started({ fieldManager: "mine" });
    const managers = (): unknown =>
      mine.informer.store.get(key)?.metadata.managedFields?.map((it) => it.manager);
    expect(managers()).toEqual(["mine", "other"]);
    const third = await started({ fieldManager: "third" });
    expect(third.informer.store.get(key)).not.toHaveProperty("metadata.managedFields");
  });

  it("trims each object of its first state as it arrives, streamed or in pages: it never has all of them in full", async () => {
    let trimmed = 0;
    const seen: number[] = [];
    client = new (class extends FakeKubeClient {
      override async *watch<T extends KubeObject>(
        ...[of, options, signal]: Parameters<KubeClient["watch"]> & [Resource<T>, unknown, unknown]
      ): AsyncGenerator<WatchEvent<T>> {
        for await (const event of super.watch(of, options, signal)) {
          yield event;
          seen.push(trimmed);
        }
      }
      override async list<T extends KubeObject>(of: Resource<T>, options?: ListOptions) {
        seen.push(trimmed);
        return super.list(of, options);
      }
    })(clock);
    client.seed(CONFIG_MAPS, configMap("one"), configMap("two"), configMap("three"));
    const trim = (it: ConfigMap): ConfigMap => {
      trimmed += 1;
      return it;
    };
    await started({ trim });
    expect(seen.slice(0, 3)).toEqual([1, 2, 3]);
    expect(trimmed).toBe(3);
    trimmed = 0;
    seen.length = 0;
    client.canStreamLists = false;
    client.pageSize = 1;
    await started({ trim });
    expect(seen).toEqual([0, 1, 2]);
    expect(trimmed).toBe(3);
  });

  it("still notifies the other readers when one fails", async () => {
    const { informer, reported } = await started();
    informer.subscribe(() => {
      throw new Error("a reader's fault");
    });
    client.seed(CONFIG_MAPS, configMap("one", { v: "1" }), configMap("two", { v: "2" }));
    await clock.advance(0);
    expect(reported()).toEqual(["->1", "->2"]);
  });

  it("stops for good when its signal aborts, and rejects the calls that wait for it", async () => {
    client.stop();
    const stop = new AbortController();
    const informer = createInformer(client, CONFIG_MAPS, {}, deps);
    informer.start(stop.signal);
    const waiting = informer.synced(stop.signal);
    stop.abort();
    await expect(waiting).rejects.toMatchObject({ code: "ABORTED" });
    await informer[Symbol.asyncDispose]();
  });

  it("reports that its kind stays unreadable, and when it is read, also if there is nothing", async () => {
    const told: unknown[] = [];
    client.refuseReads = new FleetError("API_UNAVAILABLE", "no answer");
    const { informer } = await started({ onUnreadable: (why) => told.push(why) });
    await clock.advance(60_000);
    expect(told).toEqual([]);
    const forbidden = new FleetError("API_FORBIDDEN", "may not list");
    client.refuseReads = forbidden;
    await clock.advance(60_000);
    expect(new Set(told)).toEqual(new Set([forbidden]));
    client.refuseReads = undefined;
    await clock.advance(60_000);
    expect([informer.hasSynced, told.at(-1)]).toEqual([true, undefined]);
    const { length } = told;
    await clock.advance(60_000);
    expect(told).toHaveLength(length);
  });

  it("of an optional kind that is not served writes nothing into the log, and a line where it may not be read", async () => {
    const lines: string[] = [];
    const write = (message: string): void => void lines.push(message);
    const log = { ...silentLogger, info: write, warn: write, error: write };
    for (const code of ["API_NOT_FOUND", "API_FORBIDDEN"] as const) {
      client.refuseReads = new FleetError(code, "no");
      await started({ isOptional: () => true }, log);
      await clock.advance(60_000);
    }
    expect(lines).toEqual(["continuing without an unreadable resource"]);
  });

  it("of an optional kind syncs without it after repeated errors, and reads it once it is served", async () => {
    let isOptional = false;
    client.refuseReads = new FleetError("API_FORBIDDEN", "may not list");
    const { informer, names } = await started({ isOptional: () => isOptional });
    await clock.advance(60_000);
    expect(informer.hasSynced).toBe(false);
    isOptional = true;
    await clock.advance(60_000);
    expect([informer.hasSynced, names()]).toEqual([true, []]);
    client.refuseReads = undefined;
    client.seed(CONFIG_MAPS, configMap("one"));
    await clock.advance(60_000);
    expect(names()).toEqual(["one"]);
    const fresh = new FakeKubeClient(clock);
    fresh.refuseReads = new FleetError("API_NOT_FOUND", "no such kind");
    client = fresh;
    const second = await started({ isOptional: () => true });
    await clock.advance(500);
    expect(second.informer.hasSynced).toBe(false);
    await clock.advance(5000);
    expect(second.informer.hasSynced).toBe(true);
  });
});
