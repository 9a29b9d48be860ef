import {
  CoreV1Api,
  KubeConfig,
  type KubernetesObject,
  makeInformer,
  type V1ConfigMap,
} from "@kubernetes/client-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestServer, type TestServer } from "./support.ts";

/** The official JavaScript client, as an outside judge of lists and watches. */
describe("@kubernetes/client-node", () => {
  let test: TestServer;
  let config: KubeConfig;
  let core: CoreV1Api;
  beforeAll(async () => {
    test = await startTestServer();
    config = new KubeConfig();
    config.loadFromFile(test.server.kubeconfig);
    core = config.makeApiClient(CoreV1Api);
  });
  afterAll(() => test[Symbol.asyncDispose]());

  const namespace = "default";

  it("creates, lists and deletes", async () => {
    await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: "a" }, data: { x: "1" } } });
    const { items } = await core.listNamespacedConfigMap({ namespace });
    expect(items.map((it) => it.data)).toEqual([{ x: "1" }]);
    expect(items[0]?.metadata?.creationTimestamp).toBeInstanceOf(Date);
    await core.deleteNamespacedConfigMap({ namespace, name: "a" });
    await expect(core.readNamespacedConfigMap({ namespace, name: "a" })).rejects.toMatchObject({ code: 404 });
  });

  it("keeps a cache by list and watch", async () => {
    await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: "before" } } });
    const path = `/api/v1/namespaces/${namespace}/configmaps`;
    const informer = makeInformer<V1ConfigMap>(config, path, () =>
      core.listNamespacedConfigMap({ namespace }),
    );
    const seen: string[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    const note = (what: string) => (object: KubernetesObject) => {
      seen.push(`${what} ${object.metadata?.name}`);
      if (what === "delete") resolve();
    };
    informer.on("add", note("add"));
    informer.on("update", note("update"));
    informer.on("delete", note("delete"));
    const { promise: connected, resolve: connect } = Promise.withResolvers<void>();
    informer.on("connect", () => connect());
    await informer.start();
    await connected;
    await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: "after" } } });
    await core.replaceNamespacedConfigMap({
      namespace,
      name: "after",
      body: { metadata: { name: "after" }, data: { x: "2" } },
    });
    await core.deleteNamespacedConfigMap({ namespace, name: "after" });
    await promise;
    await informer.stop();
    expect(seen).toEqual(["add before", "add after", "update after", "delete after"]);
  });
});
