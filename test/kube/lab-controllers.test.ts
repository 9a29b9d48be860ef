import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DAEMON_SETS, DEPLOYMENTS, type Deployment, REPLICA_SETS } from "@fairlead/kube/api/apps/v1/types.ts";
import {
  CONFIG_MAPS,
  ENDPOINTS,
  NAMESPACES,
  NODES,
  type Pod,
  PODS,
  SERVICE_ACCOUNTS,
  type Service,
  SERVICES,
} from "@fairlead/kube/api/core/v1/types.ts";
import { JOBS } from "@fairlead/kube/api/batch/v1/types.ts";
import { POD_DISRUPTION_BUDGETS } from "@fairlead/kube/api/policy/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { startApiServer } from "@fairlead/apiserver/server.ts";
import { type Logger, silentLogger } from "@fairlead/base/log.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient, ListOptions } from "@fairlead/kube/types.ts";
import { createLabControllers, type LabControllers } from "@fairlead/lab/controllers/compose.ts";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { eventually } from "../support/waiting.ts";
import { FakeKubelet } from "./kubelet.fake.ts";

/** The lab's controllers against the embedded API server, with kubelets that only report that pods run. */

const LIMIT_MS = 15_000;
const NAMESPACE = "work";
const stack = new AsyncDisposableStack();
const faults: unknown[] = [];
const log: Logger = {
  ...silentLogger,
  error: (message, fields) => void faults.push([message, fields]),
  child: () => log,
};
const deps = systemDeps(log);
const stop = new AbortController();
let client: KubeClient;
let controllers: LabControllers;
const kubelets: FakeKubelet[] = [];

beforeAll(async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "lab-controllers-"));
  stack.defer(() => rm(dataDir, { recursive: true }));
  const server = stack.use(await startApiServer({ dataDir, journal: "none" }));
  client = stack.use(connect(await loadKubeconfig(server.kubeconfig)));
  const options = {
    loadBalancerPrefixes: [parsePrefix("192.0.2.128/25"), parsePrefix("2001:db8::/112")],
    nodeLeaseSeconds: 60,
    rootCa: server.ca,
  };
  controllers = stack.use(createLabControllers(client, options, deps));
  for (const number of [1, 2]) {
    const kubelet = stack.use(new FakeKubelet(client, `node-${number}`, deps));
    await kubelet.start(stop.signal, number);
    kubelets.push(kubelet);
  }
  await controllers.start(stop.signal);
  await client.create(NAMESPACES, { metadata: { name: NAMESPACE } });
});
afterAll(async () => {
  stop.abort();
  await stack.disposeAsync();
});

/** Waits until the objects of a kind are as `accept` wants them. */
function untilObjects<T extends KubeObject>(
  of: Resource<T>,
  select: Pick<ListOptions, "labelSelector" | "fieldSelector">,
  accept: (objects: readonly T[]) => boolean,
): Promise<readonly T[]> {
  const where = of.namespaced ? { namespace: NAMESPACE } : {};
  return eventually(client, of, accept, { ...where, ...select, timeoutMs: LIMIT_MS });
}

function deployment(
  name: string,
  replicas: number,
  spec: Partial<NonNullable<Deployment["spec"]>> = {},
): Deployment {
  const labels = { app: name };
  const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "echo:1" }] } };
  return {
    metadata: { name, namespace: NAMESPACE },
    spec: { replicas, selector: { matchLabels: labels }, template, ...spec },
  };
}

const ofApp = (name: string) => ({ labelSelector: `app=${name}` });
const isReady = (pod: Pod): boolean => isConditionTrue(pod.status?.conditions, "Ready");
const named = (name: string) => ({ fieldSelector: `metadata.name=${name}` });

async function available(name: string, replicas: number): Promise<Deployment> {
  const [found] = await untilObjects(
    DEPLOYMENTS,
    named(name),
    ([it]) =>
      it?.status?.availableReplicas === replicas &&
      it.status.replicas === replicas &&
      it.status.updatedReplicas === replicas &&
      it.status.observedGeneration === it.metadata.generation,
  );
  return found!;
}

describe("a cluster with the lab's controllers", () => {
  it("gives each namespace a ServiceAccount and the authority of the API server", async () => {
    await untilObjects(SERVICE_ACCOUNTS, named("default"), (found) => found.length === 1);
    const [root] = await untilObjects(CONFIG_MAPS, named("kube-root-ca.crt"), (found) => found.length === 1);
    expect(root?.data?.["ca.crt"]).toContain("BEGIN CERTIFICATE");
  });

  it("runs a Deployment's pods on all its nodes and reports when they are available", async () => {
    await client.create(DEPLOYMENTS, deployment("web", 4));
    const { status, metadata } = await available("web", 4);
    expect(status?.conditions?.map((it) => [it.type, it.status, it.reason])).toEqual([
      ["Available", "True", "MinimumReplicasAvailable"],
      ["Progressing", "True", "NewReplicaSetAvailable"],
    ]);
    expect(metadata.annotations?.["deployment.kubernetes.io/revision"]).toBe("1");
    const pods = (await client.list(PODS, { namespace: NAMESPACE, ...ofApp("web") })).items;
    expect(pods.map((pod) => pod.spec?.nodeName ?? "").toSorted((a, b) => (a < b ? -1 : 1))).toEqual([
      "node-1",
      "node-1",
      "node-2",
      "node-2",
    ]);
  });

  it("lists a Service's pods in a slice of each family, with their changes", async () => {
    const service: Service = {
      metadata: { name: "web", namespace: NAMESPACE },
      spec: {
        selector: { app: "web" },
        ports: [{ port: 80, targetPort: 8080 }],
        ipFamilyPolicy: "PreferDualStack",
      },
    };
    await client.create(SERVICES, service);
    const ofService = { labelSelector: "kubernetes.io/service-name=web" };
    const slices = await untilObjects(
      ENDPOINT_SLICES,
      ofService,
      (found) => found.length === 2 && found.every((it) => it.endpoints.length === 4),
    );
    expect(slices.map((it) => it.addressType).toSorted()).toEqual(["IPv4", "IPv6"]);
    expect(slices[0]?.endpoints[0]).toMatchObject({
      conditions: { ready: true },
      zone: expect.stringMatching(/^zone-/) as string,
    });
    await client.mergePatch(DEPLOYMENTS, objectKey(NAMESPACE, "web"), { spec: { replicas: 1 } });
    await untilObjects(ENDPOINT_SLICES, ofService, (found) => found.every((it) => it.endpoints.length === 1));
    await client.delete(SERVICES, objectKey(NAMESPACE, "web"));
    await untilObjects(ENDPOINT_SLICES, ofService, (found) => found.length === 0);
  });

  it("rolls out a new template without fewer pods than allowed, keeps the history and rolls back", async () => {
    const strategy = { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } } as const;
    await client.create(DEPLOYMENTS, deployment("roll", 3, { strategy }));
    await available("roll", 3);
    const image = (tag: string) => ({
      spec: { template: { spec: { containers: [{ name: "c", image: `echo:${tag}` }] } } },
    });
    const fewest = { ready: 3, most: 0 };
    const watching = new AbortController();
    const observed = observePods("roll", watching.signal, (pods) => {
      fewest.ready = Math.min(
        fewest.ready,
        pods.filter((it) => isReady(it) && it.metadata.deletionTimestamp === undefined).length,
      );
      fewest.most = Math.max(
        fewest.most,
        pods.filter((it) => it.metadata.deletionTimestamp === undefined).length,
      );
    });
    const key = objectKey(NAMESPACE, "roll");
    await client.mergePatch(DEPLOYMENTS, key, image("2"));
    await untilObjects(REPLICA_SETS, ofApp("roll"), (sets) => sets.length === 2);
    await available("roll", 3);
    watching.abort();
    await observed;
    expect(fewest).toEqual({ ready: 3, most: 4 });
    await client.mergePatch(DEPLOYMENTS, key, image("1"));
    await untilObjects(
      DEPLOYMENTS,
      named("roll"),
      ([it]) => it?.metadata.annotations?.["deployment.kubernetes.io/revision"] === "3",
    );
    await available("roll", 3);
    const sets = (await client.list(REPLICA_SETS, { namespace: NAMESPACE, ...ofApp("roll") })).items;
    const revisions = sets.map((it) => [
      it.metadata.annotations?.["deployment.kubernetes.io/revision"],
      it.spec?.replicas,
    ]);
    expect(Object.fromEntries(revisions)).toEqual({ 2: 0, 3: 3 });
  });

  it("removes the old pods of a Deployment with strategy Recreate before it creates new ones", async () => {
    await client.create(DEPLOYMENTS, deployment("again", 2, { strategy: { type: "Recreate" } }));
    await available("again", 2);
    const template = { spec: { containers: [{ name: "c", image: "echo:2" }] } };
    await client.mergePatch(DEPLOYMENTS, objectKey(NAMESPACE, "again"), { spec: { template } });
    await untilObjects(REPLICA_SETS, ofApp("again"), (sets) => sets.length === 2);
    await available("again", 2);
  });

  it("does not roll out while a Deployment is paused, and scales it all the same", async () => {
    await client.create(DEPLOYMENTS, deployment("paused", 1));
    await available("paused", 1);
    const template = { spec: { containers: [{ name: "c", image: "echo:2" }] } };
    const key = objectKey(NAMESPACE, "paused");
    await client.mergePatch(DEPLOYMENTS, key, { spec: { paused: true, replicas: 3, template } });
    await untilObjects(PODS, ofApp("paused"), (pods) => pods.filter(isReady).length === 3);
    expect(
      (await client.list(REPLICA_SETS, { namespace: NAMESPACE, ...ofApp("paused") })).items,
    ).toHaveLength(1);
    await client.mergePatch(DEPLOYMENTS, key, { spec: { paused: false } });
    await untilObjects(REPLICA_SETS, ofApp("paused"), (sets) => sets.length === 2);
    await available("paused", 3);
  });

  it("gives a Service of type LoadBalancer an address of each family, and releases it", async () => {
    const service = (name: string): Service => ({
      metadata: { name, namespace: NAMESPACE },
      spec: { type: "LoadBalancer", ports: [{ port: 80 }], ipFamilyPolicy: "PreferDualStack" },
    });
    await client.create(SERVICES, service("lb-1"));
    const ips = async (name: string) => {
      const [found] = await untilObjects(
        SERVICES,
        named(name),
        ([it]) => (it?.status?.loadBalancer?.ingress ?? []).length === 2,
      );
      return found?.status?.loadBalancer?.ingress?.map((it) => it.ip);
    };
    expect(await ips("lb-1")).toEqual(["192.0.2.129", "2001:db8::1"]);
    await client.create(SERVICES, service("lb-2"));
    expect(await ips("lb-2")).toEqual(["192.0.2.130", "2001:db8::2"]);
    await client.delete(SERVICES, objectKey(NAMESPACE, "lb-1"));
    await client.create(SERVICES, service("lb-3"));
    expect(await ips("lb-3")).toEqual(["192.0.2.129", "2001:db8::1"]);
    await client.mergePatch(SERVICES, objectKey(NAMESPACE, "lb-3"), { spec: { type: "ClusterIP" } });
    await untilObjects(
      SERVICES,
      named("lb-3"),
      ([it]) => (it?.status?.loadBalancer?.ingress ?? []).length === 0,
    );
  });

  it("reports why a pod has no node, and schedules it as soon as a node fits", async () => {
    const spec = { containers: [{ name: "c", image: "echo:1" }], nodeSelector: { disk: "fast" } };
    await client.create(PODS, { metadata: { name: "picky", namespace: NAMESPACE }, spec });
    const [waiting] = await untilObjects(
      PODS,
      named("picky"),
      ([it]) => it?.status?.conditions?.length === 1,
    );
    expect(waiting?.status?.conditions?.[0]).toMatchObject({
      status: "False",
      reason: "Unschedulable",
      message: expect.stringMatching(
        /^0\/2 nodes are available: 2 node\(s\) didn't match Pod's node affinity\/selector\. /,
      ) as string,
    });
    await client.mergePatch(NODES, objectKey(undefined, "node-2"), {
      metadata: { labels: { disk: "fast" } },
    });
    await untilObjects(PODS, named("picky"), ([it]) => it?.spec?.nodeName === "node-2" && isReady(it));
  });

  it("runs a daemon on each node, pods of Jobs, and reports how many pods may be evicted", async () => {
    const template = (app: string, restartPolicy: "Always" | "Never") => ({
      metadata: { labels: { app } },
      spec: { restartPolicy, containers: [{ name: "c", image: "echo:1" }] },
    });
    await client.create(DAEMON_SETS, {
      metadata: { name: "agent", namespace: NAMESPACE },
      spec: { selector: { matchLabels: { app: "agent" } }, template: template("agent", "Always") },
    });
    await client.create(JOBS, {
      metadata: { name: "batch", namespace: NAMESPACE },
      spec: { parallelism: 2, completions: 3, template: template("batch", "Never") },
    });
    await client.create(POD_DISRUPTION_BUDGETS, {
      metadata: { name: "agent", namespace: NAMESPACE },
      spec: { minAvailable: 1, selector: { matchLabels: { app: "agent" } } },
    });
    const [set] = await untilObjects(
      DAEMON_SETS,
      named("agent"),
      ([it]) => it?.status?.numberAvailable === 2,
    );
    expect(set?.status).toMatchObject({ desiredNumberScheduled: 2, updatedNumberScheduled: 2 });
    const [job] = await untilObjects(JOBS, named("batch"), ([it]) => it?.status?.ready === 2);
    expect(job?.status).toMatchObject({ active: 2, uncountedTerminatedPods: {} });
    const [budget] = await untilObjects(
      POD_DISRUPTION_BUDGETS,
      named("agent"),
      ([it]) => it?.status?.disruptionsAllowed === 1,
    );
    expect(budget?.status).toMatchObject({ currentHealthy: 2, desiredHealthy: 1, expectedPods: 2 });
    await client.delete(JOBS, objectKey(NAMESPACE, "batch"), { propagationPolicy: "Background" });
    await untilObjects(PODS, ofApp("batch"), (pods) => pods.length === 0);
  });

  it("mirrors Endpoints that users write to EndpointSlices", async () => {
    const metadata = { name: "outside", namespace: NAMESPACE };
    await client.create(SERVICES, { metadata, spec: { ports: [{ port: 80 }] } });
    const subsets = [{ addresses: [{ ip: "192.0.2.9" }], ports: [{ port: 80 }] }];
    await client.create(ENDPOINTS, { metadata, subsets });
    const ofService = { labelSelector: "kubernetes.io/service-name=outside" };
    const [slice] = await untilObjects(ENDPOINT_SLICES, ofService, (found) => found.length === 1);
    expect(slice?.endpoints[0]?.addresses).toEqual(["192.0.2.9"]);
    await client.delete(SERVICES, objectKey(NAMESPACE, "outside"));
    await untilObjects(ENDPOINT_SLICES, ofService, (found) => found.length === 0);
  });

  it("writes nothing when nothing changed, and has no errors", async () => {
    const version = async () => (await client.list(NAMESPACES)).metadata.resourceVersion;
    const settled = () =>
      Promise.all(controllers.controllers.map((it) => it.idle(AbortSignal.timeout(LIMIT_MS))));
    await settled();
    let before = "";
    for (let after = await version(); after !== before; after = await version()) {
      before = after;
      await settled();
    }
    const kinds = [NAMESPACES, NODES, PODS, SERVICES, DEPLOYMENTS, REPLICA_SETS, DAEMON_SETS];
    for (const kind of [...kinds, POD_DISRUPTION_BUDGETS, ENDPOINTS] as Resource[]) {
      const keys = (await client.list(kind)).items.map((it) => keyOf(it));
      for (const controller of controllers.controllers) for (const key of keys) controller.enqueue(key);
    }
    await settled();
    expect(await version()).toBe(before);
    expect(faults).toEqual([]);
  });

  it("removes the pods of a deleted node, and replaces those that have a controller", async () => {
    await client.create(DEPLOYMENTS, deployment("moved", 2));
    await available("moved", 2);
    await kubelets[1]?.[Symbol.asyncDispose]();
    await client.delete(NODES, objectKey(undefined, "node-2"));
    await untilObjects(
      PODS,
      ofApp("moved"),
      (pods) => pods.length === 2 && pods.every((it) => it.spec?.nodeName === "node-1" && isReady(it)),
    );
    await untilObjects(PODS, named("picky"), (pods) => pods.length === 0);
  });
});

describe("a deleted namespace", () => {
  it("is removed with its workloads, without an error", async () => {
    faults.length = 0;
    await client.create(SERVICES, {
      metadata: { name: "last", namespace: NAMESPACE },
      spec: { selector: { app: "moved" }, ports: [{ port: 80 }] },
    });
    await client.delete(NAMESPACES, objectKey(undefined, NAMESPACE));
    await untilObjects(PODS, {}, (pods) => pods.length === 0);
    await untilObjects(NAMESPACES, named(NAMESPACE), (found) => found.length === 0);
    expect(faults).toEqual([]);
  });
});

async function observePods(
  app: string,
  signal: AbortSignal,
  look: (pods: readonly Pod[]) => void,
): Promise<void> {
  const pods = new Map<string, Pod>();
  const options = { namespace: NAMESPACE, ...ofApp(app), sendInitialEvents: true, allowWatchBookmarks: true };
  let isComplete = false;
  try {
    for await (const event of client.watch(PODS, options, signal)) {
      if (event.type === "ERROR") return;
      if (event.type === "BOOKMARK") isComplete = true;
      else if (event.type === "DELETED") pods.delete(keyOf(event.object));
      else pods.set(keyOf(event.object), event.object);
      if (isComplete) look([...pods.values()]);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
