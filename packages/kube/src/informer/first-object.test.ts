import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { CONFIG_MAPS, NAMESPACES, SECRETS } from "#api/core/v1/types.ts";
import { FakeKubeClient } from "#client/client.fake.ts";
import { untilFirstObject } from "./first-object.ts";

const deps = systemDeps(silentLogger);
const KINDS = { awaited: [CONFIG_MAPS, SECRETS], left: [NAMESPACES] };
const metadata = { namespace: "default", name: "one" };
let stop: AbortController;
let client: FakeKubeClient;

beforeEach(() => {
  stop = new AbortController();
  client = new FakeKubeClient();
});
afterEach(() => stop.abort());

it("watches the metadata of empty kinds until one has an object, and then none of them", async () => {
  const signals: AbortSignal[] = [];
  const watch = vi.spyOn(client, "watch").mockImplementation((of, options, signal) => {
    signals.push(signal);
    return FakeKubeClient.prototype.watch.call(client, of, options, signal) as never;
  });
  const found = untilFirstObject(client, KINDS, deps, stop.signal);
  await expect.poll(() => watch.mock.calls.length).toBe(KINDS.awaited.length);
  expect(watch.mock.calls.map(([of, options]) => [of.plural, options.returns])).toEqual([
    ["configmaps", "metadata"],
    ["secrets", "metadata"],
  ]);
  await client.create(SECRETS, { metadata });
  await found;
  expect(signals.every((it) => it.aborted)).toBe(true);
});

it.each([
  ["an awaited kind", CONFIG_MAPS],
  ["a kind whose objects are left of others", NAMESPACES],
])("resolves where %s has an object, after one request for each kind", async (_, of) => {
  await client.create(of, { metadata: of === NAMESPACES ? { name: "one" } : metadata });
  const [watch, list] = [vi.spyOn(client, "watch"), vi.spyOn(client, "list")];
  await untilFirstObject(client, KINDS, deps, stop.signal);
  expect(watch).toHaveBeenCalledTimes(KINDS.awaited.length);
  expect(list).toHaveBeenCalledTimes(KINDS.left.length);
});

it("rejects where a kind whose objects are left of others cannot be read", async () => {
  vi.spyOn(client, "list").mockRejectedValue(new Error("no answer"));
  await expect(untilFirstObject(client, KINDS, deps, stop.signal)).rejects.toThrow("no answer");
});

it("rejects when it is stopped", async () => {
  const found = untilFirstObject(client, KINDS, deps, stop.signal);
  stop.abort();
  await expect(found).rejects.toThrow("cancelled");
});
