import { beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { CONFIG_MAPS, type ConfigMap } from "#api/core/v1/types.ts";
import { objectKey } from "#api/meta/key.ts";
import type { Resource } from "#api/meta/resource.ts";
import type { KubeObject, ObjectList } from "#api/meta/types.ts";
import { FakeKubeClient } from "#client/client.fake.ts";
import type { ChangeColumn, ListOptions, WatchEvent, WatchOptions } from "#types.ts";
import { createInformer } from "./informer.ts";

const clock = new FakeClock();
const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
const key = objectKey("work", "one");

/** Sends Tables as API servers do: columns in the first event only, no objects. */
class TableServer extends FakeKubeClient {
  columns = ["Name", "Change"];
  readonly asked: string[] = [];

  override async *watch<T extends KubeObject>(
    of: Resource<T>,
    options: WatchOptions,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<T>> {
    this.asked.push(options.returns ?? "objects");
    let withColumns = true;
    for await (const event of super.watch(of, options, signal)) {
      if (options.returns !== "rows" || event.type === "ERROR") {
        yield event;
        continue;
      }
      const { metadata } = event.object;
      const data = (event.object as ConfigMap).data ?? {};
      const table = {
        kind: "Table",
        metadata: { resourceVersion: metadata.resourceVersion },
        ...(withColumns ? { columnDefinitions: this.columns.map((name) => ({ name })) } : {}),
        rows: [{ cells: [metadata.name, data["change"] ?? null] }],
      };
      withColumns = false;
      yield { type: event.type, object: table as unknown as T };
    }
  }

  override list<T extends KubeObject>(of: Resource<T>, options: ListOptions = {}): Promise<ObjectList<T>> {
    this.asked.push(options.fieldSelector ?? "list");
    return super.list(of, options);
  }
}

/** "1>2": of v. A change of something else cannot be read. */
const changes: ChangeColumn<ConfigMap> = {
  column: "Change",
  read(before, change) {
    const [from = "", to = ""] = change.split(">");
    return from === (before?.data?.["v"] ?? "") ? { data: { v: to, change } } : undefined;
  },
};

let server: TableServer;
beforeEach(() => {
  server = new TableServer(clock);
});

async function started() {
  const informer = createInformer(server, CONFIG_MAPS, { namespace: "work", changes }, deps);
  const reported: string[] = [];
  informer.subscribe(({ before, after }) =>
    reported.push(`${before?.data?.["v"] ?? "-"} to ${after?.data?.["v"] ?? "-"}`),
  );
  informer.start(new AbortController().signal);
  await clock.advance(0);
  const seen = async (): Promise<string[]> => {
    await clock.advance(0);
    return reported.splice(0);
  };
  await seen();
  server.asked.splice(0);
  return { informer, seen };
}

const write = (v: string, change?: string) =>
  server.mergePatch(CONFIG_MAPS, key, { data: { v, change: change ?? null } });
const create = (v: string, change: string) =>
  server.create(CONFIG_MAPS, { metadata: { namespace: "work", name: "one" }, data: { v, change } });

describe("an informer that is sent what changed", () => {
  it("has each change of objects from before and after its start, and reads no object", async () => {
    server.seed(CONFIG_MAPS, {
      metadata: { namespace: "work", name: "one", labels: { a: "b" } },
      data: { v: "1" },
    });
    const { informer, seen } = await started();
    await write("2", "1>2");
    await write("3", "2>3");
    expect(await seen()).toEqual(["1 to 2", "2 to 3"]);
    const [one] = informer.store.list();
    expect(one?.metadata).toMatchObject({ name: "one", namespace: "work", labels: { a: "b" } });
    await server.delete(CONFIG_MAPS, key);
    await create("4", ">4");
    await write("5", "4>5");
    expect(await seen()).toEqual(["3 to -", "- to 4", "4 to 5"]);
    expect(server.asked).toEqual([]);
    await informer[Symbol.asyncDispose]();
  });

  it.each([
    ["is one of something else", "7>8"],
    ["is not there", undefined],
  ])("reads an object of which the change %s", async (_, change) => {
    server.seed(CONFIG_MAPS, { metadata: { namespace: "work", name: "one" }, data: { v: "1" } });
    const { informer, seen } = await started();
    await write("2", change);
    expect(await seen()).toEqual(["1 to 2"]);
    expect(server.asked).toEqual(["metadata.name=one"]);
    await write("3", "2>3");
    expect(await seen()).toEqual(["2 to 3"]);
    expect(server.asked).toEqual(["metadata.name=one"]);
    await informer[Symbol.asyncDispose]();
  });

  it("is up to date after a watch that broke, whatever it missed", async () => {
    server.seed(CONFIG_MAPS, { metadata: { namespace: "work", name: "one" }, data: { v: "1" } });
    const { informer, seen } = await started();
    await write("2", "1>2");
    server.dropWatches();
    await write("3", "2>3");
    await write("4", "3>4");
    await clock.advance(60_000);
    expect((await seen()).at(-1)).toMatch(/ to 4$/);
    await write("5", "4>5");
    await clock.advance(10_000);
    expect((await seen()).at(-1)).toBe("4 to 5");
    await informer[Symbol.asyncDispose]();
  });

  it("is sent whole objects by a server whose kind does not have the column, without a gap", async () => {
    server.columns = ["Name", "Age"];
    const { informer, seen } = await started();
    await create("1", ">1");
    await write("2", "1>2");
    expect((await seen()).at(-1)).toMatch(/ to 2$/);
    await write("3", "2>3");
    expect(await seen()).toEqual(["2 to 3"]);
    expect(server.asked).toEqual(["objects"]);
    await informer[Symbol.asyncDispose]();
  });
});
