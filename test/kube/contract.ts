import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CONFIG_MAPS, type ConfigMap, NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/**
 * What controllers may rely on, whichever API server is behind the client. The fake and the real client against the
 * embedded server both pass it; so must any other server.
 */

export interface Backend extends AsyncDisposable {
  readonly client: KubeClient;
}

const NAMESPACE = "contract";
const LIMIT_MS = 10_000;

export function describeKubeClient(name: string, open: () => Promise<Backend>): void {
  describe(name, () => {
    let backend: Backend;
    let client: KubeClient;
    let serial = 0;
    beforeAll(async () => {
      backend = await open();
      client = backend.client;
      await client.create(NAMESPACES, { metadata: { name: NAMESPACE } });
    });
    afterAll(() => backend[Symbol.asyncDispose]());

    const freshName = (): string => `object-${++serial}`;
    const keyIn = (objectName: string) => objectKey(NAMESPACE, objectName);
    function configMap(objectName: string, data: Record<string, string> = {}): ConfigMap {
      return { metadata: { name: objectName, namespace: NAMESPACE }, data };
    }

    it("gives a created object a uid, a version and a time, and the object itself back on get", async () => {
      const object = configMap(freshName(), { v: "1" });
      const created = await client.create(CONFIG_MAPS, object);
      expect(created).toMatchObject({ ...object, apiVersion: "v1", kind: "ConfigMap" });
      expect(created.metadata.uid).toMatch(/^[0-9a-f-]{36}$/);
      expect(created.metadata.creationTimestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
      expect(await client.get(CONFIG_MAPS, keyIn(object.metadata.name))).toEqual(created);
    });

    it("generates a name from generateName", async () => {
      const metadata = { namespace: NAMESPACE, generateName: "some-" } as ConfigMap["metadata"];
      const created = await client.create(CONFIG_MAPS, { metadata });
      expect(created.metadata.name).toMatch(/^some-[a-z0-9]{5}$/);
    });

    it("reports that an object exists already, does not exist, or was changed concurrently", async () => {
      const objectName = freshName();
      const key = keyIn(objectName);
      await expect(client.get(CONFIG_MAPS, key)).rejects.toMatchObject({ code: "API_NOT_FOUND" });
      expect(await client.find(CONFIG_MAPS, key)).toBeUndefined();
      const first = await client.create(CONFIG_MAPS, configMap(objectName));
      const again = client.create(CONFIG_MAPS, configMap(objectName));
      await expect(again).rejects.toMatchObject({ code: "API_ALREADY_EXISTS" });
      await client.update(CONFIG_MAPS, { ...first, data: { v: "2" } });
      const stale = client.update(CONFIG_MAPS, { ...first, data: { v: "3" } });
      await expect(stale).rejects.toMatchObject({ code: "API_CONFLICT", retriable: true });
    });

    it("refuses a patch that carries an older version", async () => {
      const created = await client.create(CONFIG_MAPS, configMap(freshName()));
      const key = keyIn(created.metadata.name);
      await client.mergePatch(CONFIG_MAPS, key, { data: { v: "2" } });
      const metadata = { resourceVersion: created.metadata.resourceVersion, labels: { a: "b" } };
      const stale = client.mergePatch(CONFIG_MAPS, key, { metadata });
      await expect(stale).rejects.toMatchObject({ code: "API_CONFLICT" });
    });

    it("keeps the version of an object that a write leaves as it is", async () => {
      const created = await client.create(CONFIG_MAPS, configMap(freshName(), { v: "1" }));
      const key = keyIn(created.metadata.name);
      const updated = await client.update(CONFIG_MAPS, created);
      const patched = await client.mergePatch(CONFIG_MAPS, key, { data: { v: "1" } });
      expect(updated.metadata.resourceVersion).toBe(created.metadata.resourceVersion);
      expect(patched.metadata.resourceVersion).toBe(created.metadata.resourceVersion);
    });

    it("merges, and removes what a merge patch sets to null", async () => {
      const created = await client.create(CONFIG_MAPS, configMap(freshName(), { a: "1", b: "2" }));
      const key = keyIn(created.metadata.name);
      expect((await client.mergePatch(CONFIG_MAPS, key, { data: { a: null, c: "3" } })).data).toEqual({
        b: "2",
        c: "3",
      });
      const patch = [
        { op: "test", path: "/data/b", value: "2" },
        { op: "replace", path: "/data/b", value: "4" },
      ];
      expect((await client.jsonPatch(CONFIG_MAPS, key, patch)).data).toEqual({ b: "4", c: "3" });
    });

    it("lets only the status subresource change the status, and only the spec raise the generation", async () => {
      const objectName = freshName();
      const ports = [{ port: 80 }];
      const spec = { type: "LoadBalancer", ports } as const;
      const service = { metadata: { name: objectName, namespace: NAMESPACE }, spec };
      const created = await client.create(SERVICES, service);
      const status = { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } };
      const ignored = await client.mergePatch(SERVICES, keyIn(objectName), { status });
      expect(ignored.status?.loadBalancer?.ingress ?? []).toEqual([]);
      const written = await client.update(SERVICES, { ...created, status }, { subresource: "status" });
      expect(written.status).toMatchObject(status);
      expect(written.metadata.generation).toBe(created.metadata.generation);
    });

    it("applies, removes what the same manager no longer applies, and leaves others' fields alone", async () => {
      const objectName = freshName();
      const as = (fieldManager: string, data: Record<string, string>) =>
        client.apply(CONFIG_MAPS, configMap(objectName, data), { fieldManager });
      await as("one", { a: "1", b: "1" });
      await as("two", { c: "2" });
      const after = await as("one", { b: "1" });
      expect(after.data).toEqual({ b: "1", c: "2" });
      expect(after.metadata.managedFields?.map((it) => it.manager).toSorted()).toEqual(["one", "two"]);
    });

    it("does not send an apply that would change nothing, and sends one that removes a field", async () => {
      const objectName = freshName();
      const desired = configMap(objectName, { a: "1", b: "1" });
      const request = { fieldManager: "one", desired };
      const first = await applyIfChanged(client, CONFIG_MAPS, { ...request, current: undefined });
      expect(await applyIfChanged(client, CONFIG_MAPS, { ...request, current: first })).toBe(first);
      const less = { fieldManager: "one", desired: configMap(objectName, { a: "1" }) };
      const second = await applyIfChanged(client, CONFIG_MAPS, { ...less, current: first });
      expect(second.data).toEqual({ a: "1" });
      expect(await applyIfChanged(client, CONFIG_MAPS, { ...less, current: second })).toBe(second);
    });

    it("keeps an object with a finalizer until the finalizer is gone", async () => {
      const objectName = freshName();
      const key = keyIn(objectName);
      const object = configMap(objectName);
      object.metadata.finalizers = ["fairlead.dev/contract"];
      await client.create(CONFIG_MAPS, object);
      await client.delete(CONFIG_MAPS, key);
      const dying = await client.get(CONFIG_MAPS, key);
      expect(dying.metadata.deletionTimestamp).toBeDefined();
      await client.mergePatch(CONFIG_MAPS, key, { metadata: { finalizers: null } });
      expect(await client.find(CONFIG_MAPS, key)).toBeUndefined();
    });

    it("deletes an object, ignores a missing one, but honours a uid precondition", async () => {
      const created = await client.create(CONFIG_MAPS, configMap(freshName()));
      const key = keyIn(created.metadata.name);
      const other = client.delete(CONFIG_MAPS, key, { uid: "00000000-0000-4000-8000-00000000dead" });
      await expect(other).rejects.toMatchObject({ code: "API_CONFLICT" });
      await client.delete(CONFIG_MAPS, key, { uid: created.metadata.uid ?? "" });
      await client.delete(CONFIG_MAPS, key);
      expect(await client.find(CONFIG_MAPS, key)).toBeUndefined();
    });

    it("deletes what an object owned with it", async () => {
      const owner = await client.create(CONFIG_MAPS, configMap(freshName()));
      const owned = configMap(freshName());
      const { name: ownerName, uid = "" } = owner.metadata;
      owned.metadata.ownerReferences = [{ apiVersion: "v1", kind: "ConfigMap", name: ownerName, uid }];
      await client.create(CONFIG_MAPS, owned);
      const fieldSelector = `metadata.name=${owned.metadata.name}`;
      const options = { namespace: NAMESPACE, fieldSelector, sendInitialEvents: true };
      const seen: string[] = [];
      for await (const event of client.watch(CONFIG_MAPS, options, AbortSignal.timeout(LIMIT_MS))) {
        if (event.type === "BOOKMARK") continue;
        seen.push(event.type);
        if (event.type === "DELETED") break;
        // Only now is the watch sure to see what follows.
        await client.delete(CONFIG_MAPS, keyIn(ownerName));
      }
      expect(seen).toEqual(["ADDED", "DELETED"]);
    });

    it("keeps the six digits of a lease's times", async () => {
      const metadata = { name: freshName(), namespace: NAMESPACE };
      const spec = {
        holderIdentity: "a",
        leaseDurationSeconds: 15,
        renewTime: "2026-01-02T03:04:05.600000Z",
      };
      expect((await client.create(LEASES, { metadata, spec })).spec).toEqual(spec);
    });

    it("lists by labels, and watches from the list's version", async () => {
      const labels = { batch: freshName() };
      const make = async (objectName: string): Promise<void> => {
        const object = configMap(objectName);
        await client.create(CONFIG_MAPS, { ...object, metadata: { ...object.metadata, labels } });
      };
      const [first, second] = [freshName(), freshName()];
      await make(first);
      const select = { namespace: NAMESPACE, labelSelector: `batch=${labels.batch}` };
      const list = await client.list(CONFIG_MAPS, select);
      expect(list.items.map((it) => [it.kind, it.metadata.name])).toEqual([["ConfigMap", first]]);
      const stop = new AbortController();
      const from = { ...select, resourceVersion: list.metadata.resourceVersion };
      const events = client.watch(CONFIG_MAPS, from, stop.signal)[Symbol.asyncIterator]();
      const next = events.next();
      await make(second);
      expect((await next).value).toMatchObject({ type: "ADDED", object: { metadata: { name: second } } });
      await client.mergePatch(CONFIG_MAPS, keyIn(second), { metadata: { labels: { batch: "other" } } });
      expect((await events.next()).value).toMatchObject({
        type: "DELETED",
        object: { metadata: { name: second } },
      });
      stop.abort();
      await expect(events.next()).rejects.toMatchObject({ code: "ABORTED" });
    });

    it("streams the present state first on request, and marks its end", async () => {
      const created = await client.create(CONFIG_MAPS, configMap(freshName()));
      const stop = new AbortController();
      const options = {
        namespace: NAMESPACE,
        fieldSelector: `metadata.name=${created.metadata.name}`,
        sendInitialEvents: true,
        allowWatchBookmarks: true,
      };
      const seen: string[] = [];
      for await (const event of client.watch(CONFIG_MAPS, options, stop.signal)) {
        seen.push(event.type);
        if (event.type !== "BOOKMARK") continue;
        expect(event.object.metadata.annotations).toEqual({ "k8s.io/initial-events-end": "true" });
        break;
      }
      expect(seen).toEqual(["ADDED", "BOOKMARK"]);
    });

    it("stops a call whose signal aborts", async () => {
      const signal = AbortSignal.abort();
      await expect(client.list(CONFIG_MAPS, { signal })).rejects.toMatchObject({ code: "ABORTED" });
    });
  });
}
