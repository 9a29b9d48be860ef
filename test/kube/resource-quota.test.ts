import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import {
  type CustomResourceDefinition,
  CUSTOM_RESOURCE_DEFINITIONS,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { SECRETS, NAMESPACES, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { type Resource, resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { ApiObject } from "@fairlead/apiserver/values/object.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import { createLabControllers } from "@fairlead/lab/controllers/compose.ts";
import { RESOURCE_QUOTAS } from "@fairlead/lab/controllers/informers.ts";
import {
  KUBECTL,
  NO_KUBECTL,
  startTestServer,
  type TestServer,
} from "../../packages/apiserver/test/support.ts";

/** Quotas from end to end: the API server enforces them, the lab's controller counts. */

const LIMIT_MS = 15_000;
const WIDGETS = resource<ApiObject>("example.io/v1", "Widget", "widgets");
const stack = new AsyncDisposableStack();
const stop = new AbortController();
let test: TestServer;
let client: KubeClient;
let controller: Controller;

beforeAll(async () => {
  test = stack.use(await startTestServer());
  client = stack.use(connect(await loadKubeconfig(test.server.kubeconfig)));
  const deps = systemDeps(silentLogger);
  const controllers = stack.use(
    createLabControllers(
      client,
      { loadBalancerPrefixes: [], nodeLeaseSeconds: 60, rootCa: test.server.ca },
      deps,
    ),
  );
  const found = controllers.controllers.find((it) => it.name === "resource-quota");
  if (found === undefined) throw new Error("no controller counts");
  controller = found;
  await controllers.start(stop.signal);
});
afterAll(async () => {
  stop.abort();
  await stack.disposeAsync();
});

let count = 0;
async function namespace(): Promise<string> {
  count += 1;
  const name = `work-${count}`;
  await client.create(NAMESPACES, { metadata: { name } });
  return name;
}

async function limit(ns: string, hard: Readonly<Record<string, string>>, spec: object = {}): Promise<void> {
  await client.create(RESOURCE_QUOTAS, {
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: { namespace: ns, name: "q" },
    spec: { hard, ...spec },
  });
}

const statusOf = (quota: ApiObject): unknown => quota["status"];

/** Waits until an object of the namespace is as `accept` wants it. */
async function become<T extends KubeObject>(
  of: Resource<T>,
  ns: string,
  accept: (object: T) => boolean,
): Promise<void> {
  let last: unknown;
  const options = { namespace: ns, sendInitialEvents: true, allowWatchBookmarks: true };
  try {
    for await (const { type, object } of client.watch(of, options, AbortSignal.timeout(LIMIT_MS))) {
      if (type === "BOOKMARK" || type === "ERROR") continue;
      last = object;
      if (accept(object)) return;
    }
  } catch (cause) {
    throw new Error(`it is ${JSON.stringify(last)}`, { cause });
  }
}

const used = (ns: string, wanted: Readonly<Record<string, string>>): Promise<void> =>
  become(RESOURCE_QUOTAS, ns, (quota) => {
    const now = (statusOf(quota) as { used?: Readonly<Record<string, string>> }).used ?? {};
    return Object.entries(wanted).every(([name, text]) => now[name] === text);
  });

const pod = (ns: string, name: string): Pod => ({
  metadata: { namespace: ns, name },
  spec: {
    containers: [{ name: "c", image: "echo:1", resources: { requests: { cpu: "500m", memory: "64Mi" } } }],
  },
});
const secret = (ns: string, name: string) => ({ metadata: { namespace: ns, name } });

describe("a quota", () => {
  it("counts objects that existed before it, and later creations and deletions", async () => {
    const ns = await namespace();
    await client.create(SECRETS, secret(ns, "a"));
    await limit(ns, { secrets: "2", "count/secrets": "5" });
    await used(ns, { secrets: "1", "count/secrets": "1" });
    await client.create(SECRETS, secret(ns, "b"));
    await expect(client.create(SECRETS, secret(ns, "c"))).rejects.toMatchObject({ code: "API_FORBIDDEN" });
    await client.delete(SECRETS, objectKey(ns, "a"));
    await used(ns, { secrets: "1", "count/secrets": "1" });
    await client.create(SECRETS, secret(ns, "c"));
    await used(ns, { secrets: "2" });
  });

  it("never admits more than its limit for many concurrent requests", async () => {
    const ns = await namespace();
    await limit(ns, { secrets: "5" });
    await used(ns, { secrets: "0" });
    const results = await Promise.allSettled(
      Array.from({ length: 40 }, (_, at) => client.create(SECRETS, secret(ns, `m-${at}`))),
    );
    expect(results.filter((it) => it.status === "fulfilled")).toHaveLength(5);
    expect((await client.list(SECRETS, { namespace: ns })).items).toHaveLength(5);
  });

  it("never admits more than its limit while objects are created and deleted", async () => {
    const ns = await namespace();
    await limit(ns, { secrets: "4" });
    await used(ns, { secrets: "0" });
    const counts: number[] = [];
    const churn = async (name: string): Promise<void> => {
      for (let round = 0; round < 15; round += 1) {
        try {
          await client.create(SECRETS, secret(ns, name));
        } catch {
          continue;
        }
        counts.push((await client.list(SECRETS, { namespace: ns })).items.length);
        await client.delete(SECRETS, objectKey(ns, name));
      }
    };
    await Promise.all(Array.from({ length: 8 }, (_, at) => churn(`m-${at}`)));
    expect(Math.max(...counts)).toBeLessThanOrEqual(4);
    await used(ns, { secrets: "0" });
  });

  it("counts a finished pod only towards count/pods", async () => {
    const ns = await namespace();
    await limit(ns, { pods: "1", "count/pods": "3", "requests.cpu": "500m", "requests.memory": "1Gi" });
    await used(ns, { pods: "0" });
    await client.create(PODS, pod(ns, "a"));
    await used(ns, { pods: "1", "count/pods": "1", "requests.cpu": "500m", "requests.memory": "64Mi" });
    await expect(client.create(PODS, pod(ns, "b"))).rejects.toThrow("exceeded quota: q");
    await client.mergePatch(
      PODS,
      objectKey(ns, "a"),
      { status: { phase: "Succeeded" } },
      { subresource: "status" },
    );
    await used(ns, { pods: "0", "count/pods": "1", "requests.cpu": "0", "requests.memory": "0" });
    await client.create(PODS, pod(ns, "b"));
    await used(ns, { pods: "1", "count/pods": "2" });
  });

  it("counts custom resources from the time that their CRD exists", async () => {
    const ns = await namespace();
    await limit(ns, { "count/widgets.example.io": "1", secrets: "9" });
    await used(ns, { secrets: "0" });
    const names = { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList" };
    const schema = { openAPIV3Schema: { type: "object" as const } };
    const definition: CustomResourceDefinition = {
      metadata: { name: "widgets.example.io" },
      spec: {
        group: "example.io",
        scope: "Namespaced",
        names,
        versions: [{ name: "v1", served: true, storage: true, schema }],
      },
    };
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition);
    await used(ns, { "count/widgets.example.io": "0" });
    const widget = (name: string): ApiObject => ({
      apiVersion: "example.io/v1",
      kind: "Widget",
      ...secret(ns, name),
    });
    await client.create(WIDGETS, widget("a"));
    await expect(client.create(WIDGETS, widget("b"))).rejects.toThrow("exceeded quota: q");
    await client.delete(WIDGETS, objectKey(ns, "a"));
    await used(ns, { "count/widgets.example.io": "0" });
  });

  it("that is changed applies its new limit", async () => {
    const ns = await namespace();
    await limit(ns, { secrets: "1" });
    await used(ns, { secrets: "0" });
    await client.create(SECRETS, secret(ns, "a"));
    await client.mergePatch(RESOURCE_QUOTAS, objectKey(ns, "q"), {
      spec: { hard: { secrets: null, services: "1" } },
    });
    await used(ns, { services: "0" });
    const quota = await client.get(RESOURCE_QUOTAS, objectKey(ns, "q"));
    expect(statusOf(quota)).toEqual({ hard: { services: "1" }, used: { services: "0" } });
    await client.create(SECRETS, secret(ns, "b"));
  });

  it("stops a Deployment at the limit, which reports it and continues when the limit allows", async () => {
    const ns = await namespace();
    await limit(ns, { pods: "1" });
    await used(ns, { pods: "0" });
    const labels = { app: "web" };
    await client.create(DEPLOYMENTS, {
      metadata: { namespace: ns, name: "web" },
      spec: {
        replicas: 2,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [{ name: "c", image: "echo:1" }] } },
      },
    });
    await become(DEPLOYMENTS, ns, ({ status }) =>
      (status?.conditions ?? []).some(
        (it) =>
          it.type === "ReplicaFailure" && (it.message ?? "").includes("exceeded quota: q, requested: pods=1"),
      ),
    );
    await client.mergePatch(RESOURCE_QUOTAS, objectKey(ns, "q"), { spec: { hard: { pods: "2" } } });
    await used(ns, { pods: "2" });
  });

  it("is not written when nothing of it changes", async () => {
    const ns = await namespace();
    await limit(ns, { pods: "5" }, { scopes: ["NotTerminating"] });
    await used(ns, { pods: "0" });
    await client.create(PODS, pod(ns, "a"));
    await used(ns, { pods: "1" });
    const before = await client.get(RESOURCE_QUOTAS, objectKey(ns, "q"));
    await client.mergePatch(
      PODS,
      objectKey(ns, "a"),
      { status: { phase: "Running" } },
      { subresource: "status" },
    );
    await client.create(SECRETS, secret(ns, "a"));
    controller.enqueue(objectKey(ns, "q"));
    await controller.idle(AbortSignal.timeout(LIMIT_MS));
    const after = await client.get(RESOURCE_QUOTAS, objectKey(ns, "q"));
    expect(after.metadata.resourceVersion).toBe(before.metadata.resourceVersion);
  });

  it.skipIf(KUBECTL === undefined)(
    KUBECTL === undefined ? NO_KUBECTL : "is described by kubectl",
    async () => {
      const ns = await namespace();
      const run = async (...args: readonly string[]) => test.kubectl(["-n", ns, ...args]);
      expect(
        (await run("create", "quota", "q", "--hard=pods=2,requests.cpu=1,count/deployments.apps=1")).exitCode,
      ).toBe(0);
      await used(ns, { pods: "0", "requests.cpu": "0", "count/deployments.apps": "0" });
      await client.create(PODS, pod(ns, "a"));
      await used(ns, { pods: "1" });
      const { stdout } = await run("describe", "quota");
      expect(stdout).toMatch(/^count\/deployments\.apps +0 +1$/m);
      expect(stdout).toMatch(/^pods +1 +2$/m);
      expect(stdout).toMatch(/^requests\.cpu +500m +1$/m);
      expect((await run("get", "quota")).stdout).toMatch(/pods: 1\/2, requests\.cpu: 500m\/1/);
      const refused = await run("run", "b", "--image=echo:1");
      expect(refused.stderr).toContain(
        'pods "b" is forbidden: failed quota: q: must specify requests.cpu for: b',
      );
      expect((await run("create", "deployment", "d", "--image=echo:1")).exitCode).toBe(0);
      const second = await run("create", "deployment", "e", "--image=echo:1");
      expect(second.stderr).toContain(
        "exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=1, limited: count/deployments.apps=1",
      );
    },
  );
});
