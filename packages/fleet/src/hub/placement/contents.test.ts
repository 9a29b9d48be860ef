import { expect, it } from "vitest";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { CallOptions } from "@fairlead/kube/types.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import type { ResourceSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { ContentsCache, type SnapshotGroup } from "./contents.ts";
import type { ScopeInformers } from "./informers.ts";
import { CLUSTER_SCOPE } from "#api/placement.kubernetes-fleet.io/scopes.ts";

const of = CLUSTER_SCOPE.resourceSnapshots;
const scope = { scope: CLUSTER_SCOPE } as ScopeInformers;

class CountingClient extends FakeKubeClient {
  gets = 0;
  override get<T extends KubeObject>(
    kind: Resource<T>,
    key: ObjectKey,
    options: CallOptions = {},
  ): Promise<T> {
    this.gets += 1;
    return super.get(kind, key, options);
  }
}

/** A snapshot whose resources are `length` characters of JSON. */
function snapshot(client: FakeKubeClient, name: string, length: number): SnapshotGroup {
  const resource = {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "x" },
    data: { x: "y".repeat(length) },
  };
  client.seed(of, { metadata: { name }, spec: { selectedResources: [resource] } });
  const found = client.objects(of).find((it): it is ResourceSnapshot => it.metadata.name === name);
  return { index: "0", hash: name, parts: found === undefined ? [] : [found] };
}

it("a snapshot is read once for all clusters that get it, also at the same time", async () => {
  const client = new CountingClient();
  const group = snapshot(client, "a", 100);
  const cache = new ContentsCache(client);
  const all = await Promise.all(Array.from({ length: 100 }, () => cache.read(scope, group, {})));
  expect(client.gets).toBe(1);
  expect(new Set(all).size).toBe(1);
});

it("what was used last is kept, within the bound", async () => {
  const client = new CountingClient();
  const groups = ["a", "b", "c"].map((it) => snapshot(client, it, 1000));
  const cache = new ContentsCache(client, 2500);
  const read = async (...at: readonly number[]): Promise<number> => {
    client.gets = 0;
    for (const it of at) await cache.read(scope, groups[it] ?? { index: "", hash: "", parts: [] }, {});
    return client.gets;
  };
  expect(await read(0, 1, 0)).toBe(2);
  expect(await read(2)).toBe(1);
  expect(await read(0, 2)).toBe(0);
  expect(await read(1)).toBe(1);
});

it("a snapshot that cannot be read is asked for again, and one that is larger than the bound is read", async () => {
  const client = new CountingClient();
  const group = snapshot(client, "a", 5000);
  const cache = new ContentsCache(client, 2500);
  client.stop();
  await expect(cache.read(scope, group, {})).rejects.toThrow(/answer|reach|unavailable|connect/i);
  client.restore();
  expect((await cache.read(scope, group, {})).parts[0]?.resources).toHaveLength(1);
  expect((await cache.read(scope, group, {})).parts).toHaveLength(1);
  expect(client.gets).toBe(3);
});

it("a snapshot that was just made is not read", async () => {
  const client = new CountingClient();
  const group = snapshot(client, "a", 100);
  const cache = new ContentsCache(client);
  cache.note(scope, group.parts);
  expect((await cache.read(scope, group, {})).parts[0]?.resources).toHaveLength(1);
  expect(client.gets).toBe(0);
});
