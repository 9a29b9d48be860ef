import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { CONFIG_MAPS, type ConfigMap } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { startApiServer } from "@fairlead/apiserver/server.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { Change } from "@fairlead/kube/types.ts";
import { describeKubeClient } from "./contract.ts";

const LIMIT_MS = 20_000;

describeKubeClient("the client against the embedded API server", async () => {
  const stack = new AsyncDisposableStack();
  const dataDir = await mkdtemp(join(tmpdir(), "kube-contract-"));
  stack.defer(() => rm(dataDir, { recursive: true }));
  const server = stack.use(await startApiServer({ dataDir, journal: "none" }));
  const client = stack.use(connect(await loadKubeconfig(server.kubeconfig)));
  return { client, [Symbol.asyncDispose]: () => stack.disposeAsync() };
});

it("an informer survives a restart of the API server: no event is lost, repeated or reverted", async () => {
  await using stack = new AsyncDisposableStack();
  const dataDir = await mkdtemp(join(tmpdir(), "kube-restart-"));
  stack.defer(() => rm(dataDir, { recursive: true }));
  const first = await startApiServer({ dataDir });
  const client = stack.use(connect(await loadKubeconfig(first.kubeconfig)));
  const signal = AbortSignal.timeout(LIMIT_MS);
  const informer = stack.use(
    createInformer(client, CONFIG_MAPS, { namespace: "default" }, systemDeps(silentLogger)),
  );
  informer.start(signal);
  await informer.synced(signal);
  const reported: string[] = [];
  let onReported: () => void = () => {};
  informer.subscribe((change: Change<ConfigMap>) => {
    const name = change.after?.metadata.name ?? `-${change.before?.metadata.name}`;
    if (!name.includes("kube-root-ca")) reported.push(name);
    onReported();
  });
  const untilReported = (count: number): Promise<void> =>
    new Promise((resolve) => {
      onReported = () => {
        if (reported.length >= count) resolve();
      };
      onReported();
    });
  const create = (name: string) => client.create(CONFIG_MAPS, { metadata: { name, namespace: "default" } });
  await create("one");
  await create("two");
  await untilReported(2);
  await first.close();
  stack.use(await startApiServer({ dataDir, port: first.port }));
  await client.delete(CONFIG_MAPS, objectKey("default", "one"));
  await create("three");
  await untilReported(4);
  expect(reported).toEqual(["one", "two", "-one", "three"]);
});

it("an apply that requests only metadata receives only that, and still changes the object", async () => {
  await using stack = new AsyncDisposableStack();
  const dataDir = await mkdtemp(join(tmpdir(), "kube-apply-"));
  stack.defer(() => rm(dataDir, { recursive: true }));
  const server = stack.use(await startApiServer({ dataDir, journal: "none" }));
  const client = stack.use(connect(await loadKubeconfig(server.kubeconfig)));
  const metadata = { name: "one", namespace: "default" };
  const data = { text: "x".repeat(10_000) };
  const by = { fieldManager: "me", returns: "metadata" } as const;
  const { data: answered, ...after } = await client.apply(CONFIG_MAPS, { metadata, data }, by);
  const stored = await client.get(CONFIG_MAPS, objectKey("default", "one"));
  expect(answered).toBeUndefined();
  expect(after.metadata).toEqual(stored.metadata);
  expect(stored.data).toEqual(data);
});
