import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { EVENTS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { FINALIZERS } from "#api/networking.fleet.azure.com/names.ts";
import {
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  type InternalServiceExportSpec,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import {
  TRAFFIC_MANAGER_BACKENDS,
  TRAFFIC_MANAGER_PROFILES,
  type TrafficManagerBackend,
  type TrafficManagerProfile,
} from "#api/networking.fleet.azure.com/v1beta1/traffic-manager.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { createMetrics, type MetricsRegistry } from "@fairlead/base/metrics.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createEventRecorder } from "@fairlead/kube/events/events.ts";
import type { Controller } from "@fairlead/kube/types.ts";
import { createHubInformers } from "../informers.ts";
import { createTrafficManager } from "./controller.ts";
import { FakeTrafficProvider } from "./providers/provider.fake.ts";

let clock: FakeClock;
let client: FakeKubeClient;
let provider: FakeTrafficProvider;
let metrics: MetricsRegistry;
let stop: AbortController;
let controller: Controller;
/** Hosts that do not answer. */
const down = new Set<string>();

async function startProgram(): Promise<void> {
  stop = new AbortController();
  metrics = createMetrics();
  const deps = { clock, rng: seededRng(1), log: silentLogger, metrics };
  const informers = createHubInformers(client, {}, deps);
  controller = createTrafficManager(
    { client, informers, events: createEventRecorder(client, "test", deps), deps },
    { provider, ttlSeconds: 60, check: (host) => Promise.resolve(!down.has(host)) },
  );
  await controller.start(stop.signal);
}

async function stopProgram(): Promise<void> {
  stop.abort();
  await controller[Symbol.asyncDispose]();
}

beforeEach(async () => {
  down.clear();
  clock = new FakeClock();
  client = new FakeKubeClient(clock);
  provider = new FakeTrafficProvider();
  exportFrom("a", "b");
  await startProgram();
});
afterEach(() => stopProgram());

function specOf(cluster: string, more: Partial<InternalServiceExportSpec>): InternalServiceExportSpec {
  const service = { namespace: "work", name: "app", namespacedName: "work/app" };
  const version = { kind: "Service", uid: `uid-${cluster}`, resourceVersion: "1", generation: 1 };
  return {
    ports: [{ port: 80 }],
    serviceReference: { clusterId: cluster, ...service, ...version },
    type: "LoadBalancer",
    loadBalancerIngress: [{ ip: addressIn(cluster) }],
    ...more,
  };
}

function addressIn(cluster: string): string {
  return `192.0.2.${cluster.charCodeAt(0) - 96}`;
}

/** As the hub's other controllers leave it. */
function exportFrom(...clusters: readonly string[]): void {
  client.seed(FLEET_SERVICE_IMPORTS, {
    metadata: { namespace: "work", name: "app" },
    status: { type: "ClusterSetIP", clusters: clusters.map((cluster) => ({ cluster })) },
  });
  for (const cluster of clusters)
    client.seed(INTERNAL_SERVICE_EXPORTS, {
      metadata: { namespace: `fleet-member-${cluster}`, name: "work-app" },
      spec: specOf(cluster, {}),
    });
}

const APP = objectKey("work", "app");
const PROFILE = objectKey("work", "web");

async function createProfile(namespace = "work", name = "web"): Promise<void> {
  await client.create(TRAFFIC_MANAGER_PROFILES, {
    metadata: { namespace, name },
    spec: { resourceGroup: "any", monitorConfig: { intervalInSeconds: 30, toleratedNumberOfFailures: 1 } },
  });
  await settled();
}

async function createBackend(name = "app", more: Partial<TrafficManagerBackend["spec"]> = {}): Promise<void> {
  await client.create(TRAFFIC_MANAGER_BACKENDS, {
    metadata: { namespace: "work", name },
    spec: { profile: { name: "web" }, backend: { name: "app" }, weight: 100, ...more },
  });
  await settled();
}

async function changeExport(cluster: string, spec: Partial<InternalServiceExportSpec>): Promise<void> {
  const key = objectKey(`fleet-member-${cluster}`, "work-app");
  await client.mergePatch(INTERNAL_SERVICE_EXPORTS, key, { spec });
  await settled();
}

/** Everything that was written is seen and acted on. */
async function settled(): Promise<void> {
  for (let round = 0; round < 10; round++) {
    await clock.advance(0);
    // While the provider fails there is always a retry to wait for.
    if (provider.fails === undefined) await controller.idle(stop.signal);
  }
}

async function profile(key = PROFILE): Promise<TrafficManagerProfile> {
  return client.get(TRAFFIC_MANAGER_PROFILES, key);
}
async function backend(name = "app"): Promise<TrafficManagerBackend> {
  return client.get(TRAFFIC_MANAGER_BACKENDS, objectKey("work", name));
}
function said(conditions: readonly Condition[] | undefined): string | undefined {
  const [condition] = conditions ?? [];
  return condition === undefined ? undefined : `${condition.type}=${condition.status}:${condition.reason}`;
}
async function acceptedOf(name = "app"): Promise<string | undefined> {
  return said((await backend(name)).status?.conditions);
}
/** Weights by cluster, as its status has them. */
async function endpoints(name = "app"): Promise<Record<string, number | undefined>> {
  const { status } = await backend(name);
  return Object.fromEntries(
    (status?.endpoints ?? []).map((it) => [it.from?.cluster ?? "", it.weight] as const),
  );
}
/** Addresses and weights, as the provider has them. */
function answers(label = "work-web"): Record<string, number> | undefined {
  const targets = provider.names.get(label);
  if (targets === undefined) return undefined;
  return Object.fromEntries(
    targets.filter((it) => it.degraded !== true).map((it) => [it.addresses?.[0] ?? "", it.weight]),
  );
}

describe("a profile", () => {
  it("is programmed under a name made of its own and its namespace's", async () => {
    await createProfile();
    const { status, metadata } = await profile();
    expect(said(status?.conditions)).toBe("Programmed=True:Programmed");
    expect(status?.dnsName).toBe("work-web.tm.example");
    expect(status?.conditions?.[0]?.observedGeneration).toBe(metadata.generation);
    expect(answers()).toEqual({});
  });

  it("whose name another profile has reports it, and gets the name when the other is deleted", async () => {
    await createProfile("work-a", "b");
    await clock.advance(2000);
    await createProfile("work", "a-b");
    const late = objectKey("work", "a-b");
    expect(said((await profile(late)).status?.conditions)).toBe("Programmed=False:DNSNameNotAvailable");
    expect((await profile(late)).status?.dnsName).toBeUndefined();
    await client.delete(TRAFFIC_MANAGER_PROFILES, objectKey("work-a", "b"));
    await settled();
    expect(said((await profile(late)).status?.conditions)).toBe("Programmed=True:Programmed");
    expect(answers("work-a-b")).toEqual({});
  });

  it("whose name has another owner at the provider reports it, and so do its backends", async () => {
    provider.foreign.add("work-web");
    await createProfile();
    await createBackend();
    expect(said((await profile()).status?.conditions)).toBe("Programmed=False:DNSNameNotAvailable");
    expect(await acceptedOf()).toBe("Accepted=False:Invalid");
    expect(await endpoints()).toEqual({});
  });

  it("that the provider refuses is invalid, and can be deleted all the same", async () => {
    provider.refuses = "the key is not known";
    await createProfile();
    expect(said((await profile()).status?.conditions)).toBe("Programmed=False:Invalid");
    provider.fails = new FleetError("DNS_REFUSED", "the key is not known");
    await client.delete(TRAFFIC_MANAGER_PROFILES, PROFILE);
    await settled();
    expect(client.objects(TRAFFIC_MANAGER_PROFILES)).toEqual([]);
  });

  it("whose name would not be a DNS label is invalid", async () => {
    await createProfile("work", "w".repeat(60));
    const { status } = await profile(objectKey("work", "w".repeat(60)));
    expect(said(status?.conditions)).toBe("Programmed=False:Invalid");
    expect(provider.names.size).toBe(0);
  });

  it("is pending while its provider is unavailable, still resolves, and is programmed when the provider is back", async () => {
    await createProfile();
    await createBackend();
    provider.fails = new FleetError("API_UNAVAILABLE", "no answer");
    await changeExport("a", { weight: 3 });
    expect(said((await profile()).status?.conditions)).toBe("Programmed=Unknown:Pending");
    expect((await profile()).status?.dnsName).toBe("work-web.tm.example");
    expect(await acceptedOf()).toBe("Accepted=Unknown:Pending");
    expect(await endpoints()).toEqual({ a: 50, b: 50 });
    provider.fails = undefined;
    await clock.advance(20_000);
    await settled();
    expect(said((await profile()).status?.conditions)).toBe("Programmed=True:Programmed");
    expect(await endpoints()).toEqual({ a: 75, b: 25 });
  });

  it("whose records another client changes is repaired", async () => {
    await createProfile();
    await createBackend();
    provider.damage("work-web");
    await settled();
    expect(answers()).toEqual({ "192.0.2.1": 50, "192.0.2.2": 50 });
  });

  it("deletes its name when it is deleted, and its backends report it", async () => {
    await createProfile();
    await createBackend();
    await client.delete(TRAFFIC_MANAGER_PROFILES, PROFILE);
    await settled();
    expect(client.objects(TRAFFIC_MANAGER_PROFILES)).toEqual([]);
    expect(provider.names.size).toBe(0);
    expect(await acceptedOf()).toBe("Accepted=False:Invalid");
    expect(await endpoints()).toEqual({});
    await createProfile();
    expect(await acceptedOf()).toBe("Accepted=True:Accepted");
  });
});

describe("a backend", () => {
  it("made before its profile is invalid, and accepted once the profile is there", async () => {
    await createBackend();
    expect(await acceptedOf()).toBe("Accepted=False:Invalid");
    await createProfile();
    expect(await acceptedOf()).toBe("Accepted=True:Accepted");
  });

  it("of weight 100 is shared evenly by two clusters, and says so", async () => {
    await createProfile();
    await createBackend();
    expect(await endpoints()).toEqual({ a: 50, b: 50 });
    const { metadata, status } = await backend();
    expect(status?.endpoints?.[0]).toMatchObject({
      name: `fleet-${metadata.uid}#app#a`,
      target: "192.0.2.1",
      from: { cluster: "a", weight: 1 },
    });
    expect(answers()).toEqual({ "192.0.2.1": 50, "192.0.2.2": 50 });
  });

  it("for a service that another backend has is invalid until that one is deleted", async () => {
    await createProfile();
    await createBackend();
    await clock.advance(2000);
    await createBackend("again");
    expect([await acceptedOf(), await acceptedOf("again")]).toEqual([
      "Accepted=True:Accepted",
      "Accepted=False:Invalid",
    ]);
    await client.delete(TRAFFIC_MANAGER_BACKENDS, APP);
    await settled();
    expect(await acceptedOf("again")).toBe("Accepted=True:Accepted");
    expect(answers()).toEqual({ "192.0.2.1": 50, "192.0.2.2": 50 });
  });

  it.each<[string, Partial<InternalServiceExportSpec>]>([
    ["is not a load balancer any more", { type: "ClusterIP", loadBalancerIngress: [] }],
    ["moved inside the network", { isInternalLoadBalancer: true }],
    ["lost its address", { loadBalancerIngress: [] }],
  ])("loses the endpoint of a Service that %s, keeps the other, and gets it back", async (_, change) => {
    await createProfile();
    await createBackend();
    await changeExport("a", change);
    expect(await acceptedOf()).toBe("Accepted=False:Invalid");
    expect(await endpoints()).toEqual({ b: 100 });
    expect(answers()).toEqual({ "192.0.2.2": 100 });
    await changeExport("a", specOf("a", { isInternalLoadBalancer: false }));
    expect(await acceptedOf()).toBe("Accepted=True:Accepted");
    expect(await endpoints()).toEqual({ a: 50, b: 50 });
  });

  it("loses all endpoints when its exports are deleted", async () => {
    await createProfile();
    await createBackend();
    await client.delete(FLEET_SERVICE_IMPORTS, APP);
    await settled();
    expect(await acceptedOf()).toBe("Accepted=False:Invalid");
    expect(answers()).toEqual({});
    await client.create(FLEET_SERVICE_IMPORTS, { metadata: { namespace: "work", name: "app" } });
    await settled();
    expect(await acceptedOf()).toBe("Accepted=Unknown:Pending");
  });

  it("of weight 0, or with an export of weight 0, has the endpoints out", async () => {
    await createProfile();
    await createBackend();
    await changeExport("a", { weight: 0 });
    expect(await acceptedOf()).toBe("Accepted=True:Accepted");
    expect(answers()).toEqual({ "192.0.2.2": 100 });
    await client.mergePatch(TRAFFIC_MANAGER_BACKENDS, APP, { spec: { weight: 0 } });
    await settled();
    expect(await acceptedOf()).toBe("Accepted=True:Accepted");
    expect(answers()).toEqual({});
  });

  it("goes only after its endpoints did", async () => {
    await createProfile();
    await createBackend();
    provider.fails = new FleetError("API_UNAVAILABLE", "no answer");
    await client.delete(TRAFFIC_MANAGER_BACKENDS, APP);
    await settled();
    expect(client.objects(TRAFFIC_MANAGER_BACKENDS)).toHaveLength(1);
    provider.fails = undefined;
    await clock.advance(20_000);
    await settled();
    expect(client.objects(TRAFFIC_MANAGER_BACKENDS)).toEqual([]);
    expect(answers()).toEqual({});
  });

  it("is released although a legacy controller left its finalizer", async () => {
    await createProfile();
    await createBackend();
    const finalizers = [FINALIZERS.trafficManagerBackend, FINALIZERS.trafficManagerMetrics];
    await client.mergePatch(TRAFFIC_MANAGER_BACKENDS, APP, { metadata: { finalizers } });
    await client.delete(TRAFFIC_MANAGER_BACKENDS, APP);
    await clock.advance(20_000);
    await settled();
    expect(client.objects(TRAFFIC_MANAGER_BACKENDS)).toEqual([]);
  });

  it("does not send clients to a drained cluster while there is another", async () => {
    client.seed(MEMBER_CLUSTERS, { metadata: { name: "a" }, spec: {} } as never);
    await createProfile();
    await createBackend();
    const annotations = { "fairlead.dev/drain": "true" };
    await client.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "a"), { metadata: { annotations } });
    await settled();
    expect(provider.names.get("work-web")?.map((it) => it.drained)).toEqual([true, undefined]);
  });
});

describe("an endpoint that does not answer", () => {
  beforeEach(async () => {
    await createProfile();
    await createBackend();
  });

  it("leaves after more failures than are tolerated, and comes back with the first success", async () => {
    down.add("192.0.2.1");
    await clock.advance(33_000);
    await settled();
    expect(answers()).toEqual({ "192.0.2.1": 50, "192.0.2.2": 50 });
    await clock.advance(33_000);
    await settled();
    expect(answers()).toEqual({ "192.0.2.2": 50 });
    const { status } = await backend();
    expect(status?.endpoints?.map((it) => it.health)).toEqual(["Degraded", "Online"]);
    expect(status?.conditions?.[0]).toMatchObject({ status: "True" });
    expect(status?.conditions?.[0]?.message).toContain("degraded: a");
    down.clear();
    await clock.advance(33_000);
    await settled();
    expect(answers()).toEqual({ "192.0.2.1": 50, "192.0.2.2": 50 });
    const reasons = client.objects(EVENTS).map((it) => it.reason);
    expect(reasons).toContain("EndpointDegraded");
    expect(reasons).toContain("EndpointOnline");
  });

  it("stays out over a restart of the hub, until it answers", async () => {
    down.add("192.0.2.1");
    await clock.advance(70_000);
    await settled();
    await stopProgram();
    await startProgram();
    await settled();
    expect(answers()).toEqual({ "192.0.2.2": 50 });
    down.clear();
    await clock.advance(33_000);
    await settled();
    expect(answers()).toEqual({ "192.0.2.1": 50, "192.0.2.2": 50 });
  });
});

describe("what is settled", () => {
  it("is written once: neither time nor a restart writes anything", async () => {
    await createProfile();
    await createBackend();
    await clock.advance(33_000);
    await settled();
    const provided = provider.writes;
    client.writes.length = 0;
    await clock.advance(600_000);
    await stopProgram();
    await startProgram();
    await clock.advance(600_000);
    await settled();
    expect(client.writes).toEqual([]);
    expect(provider.writes).toBe(provided);
  });

  it("shows in gauges under the names that dashboards know, and goes with the objects", async () => {
    await createProfile();
    await createBackend();
    const name = "fleet_networking_traffic_manager_backend_status_last_timestamp_seconds";
    const labels =
      'namespace="work",name="app",generation="1",condition="Accepted",status="True",reason="Accepted"';
    expect(await metrics.render()).toContain(`${name}{${labels}} 17`);
    await client.delete(TRAFFIC_MANAGER_BACKENDS, APP);
    await settled();
    expect(await metrics.render()).not.toContain(`${name}{`);
    expect(await metrics.render()).toContain(
      'fleet_networking_traffic_manager_profile_status_last_timestamp_seconds{namespace="work",name="web"',
    );
  });
});
