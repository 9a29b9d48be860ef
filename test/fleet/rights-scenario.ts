import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { EVENTS, NODES, PODS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import {
  ENDPOINTS,
  FORCE_LEAVE_ANNOTATION,
  ISOLATION_ANNOTATION,
} from "@fairlead/fleet/api/fairlead.dev/names.ts";
import {
  ADDRESS_BLOCKS,
  CLUSTER_MESH_PROFILES,
  type Gateway,
  GATEWAYS,
  MESH_NETWORKS,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import {
  AUTO_UPGRADE_PROFILES,
  type GateConfiguration,
  GATES,
  RELEASE_CATALOGS,
  UPDATE_GROUP_LABEL,
  UPDATE_RUNS,
  UPGRADER_ANNOTATION,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { IDENTITY_SLICES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/identities.ts";
import { NETWORK_POLICIES } from "@fairlead/kube/api/networking/v1/types.ts";
import { TRAFFIC_ROUTES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/traffic-route.ts";
import { IMPORTED_SERVICES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { POLICY_CRDS } from "@fairlead/fleet/api/crds.ts";
import {
  CILIUM_CLUSTERWIDE_NETWORK_POLICIES,
  CILIUM_NETWORK_POLICIES,
} from "@fairlead/fleet/api/cilium.io/v2/types.ts";
import { CLUSTER_NETWORK_POLICIES } from "@fairlead/fleet/api/policy.networking.k8s.io/v1alpha2/types.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FINALIZERS } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import {
  TRAFFIC_MANAGER_BACKENDS,
  TRAFFIC_MANAGER_PROFILES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/traffic-manager.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  deploy,
  ensureNamespace,
  exportBy,
  PATIENCE_MS,
  sliceOf,
  testDeps,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

import {
  addNode,
  createProfile,
  newPublicKey,
  reportPaths,
  setProfile,
  showGateway,
} from "../support/mesh.ts";
import { admit, runPod } from "../support/pods.ts";

/** The life of a fleet of a and b, in which its programs use all their functions. */

const HELLO = objectKey("work", "hello");

/** Services by both APIs, their changes, a load balancer, and what users get wrong. */
export async function useServices(fleet: TestFleet): Promise<void> {
  const [a, b] = [fleet.client("a"), fleet.client("b")];
  await deploy(a, { addresses: ["10.1.0.1"] });
  await deploy(b, { addresses: ["10.2.0.1"] });
  await exportBy("fleet", a);
  await exportBy("mcs", b);
  for (const client of [a, b])
    await eventuallyOne(client, MCS_SERVICE_IMPORTS, HELLO, (it) => it.status?.clusters?.length === 2);
  await a.update(ENDPOINT_SLICES, {
    ...(await a.get(ENDPOINT_SLICES, objectKey("work", "hello-abcde"))),
    endpoints: sliceOf({ addresses: ["10.1.0.1", "10.1.0.2"] }).endpoints,
  });
  await shareByAnnotation(a);
  await balance(b);
  await getWrong(a);
}

async function shareByAnnotation(client: KubeClient): Promise<void> {
  const reported = (isReported: boolean) =>
    eventuallyOne(client, SERVICES, HELLO, ({ status }) => {
      const found = status?.conditions?.some((it) => it.type === "fairlead.dev/GlobalService") === true;
      return found === isReported;
    });
  const annotate = (value: string | null) =>
    client.mergePatch(SERVICES, HELLO, { metadata: { annotations: { "service.cilium.io/global": value } } });
  await annotate("true");
  await reported(true);
  await annotate(null);
  await reported(false);
}

/** Also switches to another import and back, and leaves objects as legacy agents leave them. */
async function balance(client: KubeClient): Promise<void> {
  const metadata = { namespace: "work", name: "web", finalizers: [FINALIZERS.multiClusterService] };
  const importing = (name: string) => ({ spec: { serviceImport: { name } } });
  const valid = (reason: string) =>
    eventuallyOne(
      client,
      MULTI_CLUSTER_SERVICES,
      objectKey("work", "web"),
      (it) => it.status?.conditions?.[0]?.reason === reason,
    );
  await client.create(MULTI_CLUSTER_SERVICES, { metadata, ...importing("hello") });
  await valid("FoundServiceImport");
  await client.mergePatch(MULTI_CLUSTER_SERVICES, objectKey("work", "web"), importing("other"));
  await valid("UnknownServiceImport");
  await eventually(client, FLEET_SERVICE_IMPORTS, (all) => !all.some((it) => it.metadata.name === "hello"));
  await client.mergePatch(MULTI_CLUSTER_SERVICES, objectKey("work", "web"), importing("hello"));
  await valid("FoundServiceImport");
  const byHand = { namespace: "work", name: "by-hand", finalizers: [FINALIZERS.serviceImport] };
  await client.create(FLEET_SERVICE_IMPORTS, { metadata: byHand });
  await client.delete(FLEET_SERVICE_IMPORTS, objectKey("work", "by-hand"));
  await gone(client, FLEET_SERVICE_IMPORTS, "by-hand");
}

async function getWrong(client: KubeClient): Promise<void> {
  const finalizers = [FINALIZERS.serviceExport];
  await client.create(FLEET_SERVICE_EXPORTS, { metadata: { namespace: "work", name: "old", finalizers } });
  await client.delete(FLEET_SERVICE_EXPORTS, objectKey("work", "old"));
  await gone(client, FLEET_SERVICE_EXPORTS, "old");
  const reported = (times: number) =>
    eventually(client, EVENTS, (all) =>
      all.some((it) => it.involvedObject.name === "ghost" && it.count === times),
    );
  await exportBy("mcs", client, { name: "ghost" });
  await reported(1);
  await deploy(client, { name: "ghost", addresses: ["10.1.0.9"] });
  await eventuallyOne(client, MCS_SERVICE_EXPORTS, objectKey("work", "ghost"), (it) =>
    (it.status?.conditions ?? []).some(({ type, status }) => type === "Valid" && status === "True"),
  );
  await client.delete(SERVICES, objectKey("work", "ghost"));
  // The same event occurs again: the first event's count rises.
  await reported(2);
  await client.delete(MCS_SERVICE_EXPORTS, objectKey("work", "ghost"));
  await exportNothing(client);
}

/** A Service whose selector matches no pod. */
async function exportNothing(client: KubeClient): Promise<void> {
  await deploy(client, { name: "empty", addresses: [] });
  await exportBy("fleet", client, { name: "empty" });
  const cause = "no endpoints: no pod matches the selector app=empty of the Service";
  await eventuallyOne(client, FLEET_SERVICE_EXPORTS, objectKey("work", "empty"), (it) =>
    (it.status?.conditions ?? []).some(
      ({ type, message }) => type === ENDPOINTS && message.startsWith(cause),
    ),
  );
  await client.delete(FLEET_SERVICE_EXPORTS, objectKey("work", "empty"));
}

async function gone(client: KubeClient, of: Resource, name: string): Promise<void> {
  await eventually(client, of, (all) => !all.some((it) => it.metadata.name === name));
}

/** The writes of a legacy agent in the mailbox of b, with the identity of b. */
export async function actAsOtherAgent(fleet: TestFleet): Promise<void> {
  const hub = fleet.client("hub");
  const namespace = "fleet-member-b";
  // Such an agent gets copies: it knows no view.
  const isolate = (value: string | null) =>
    hub.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "b"), {
      metadata: { annotations: { [ISOLATION_ANNOTATION]: value } },
    });
  await isolate("strict");
  await eventually(hub, ENDPOINT_SLICE_IMPORTS, (all) => all.length > 0, { namespace });
  await eventually(hub, IMPORTED_SERVICES, (all) => all.length > 0, { namespace });
  const agent = fleet.running.get("b")?.session.hub;
  if (agent === undefined) throw new Error("b does not run");
  const rewrite = async <T extends KubeObject>(of: Resource<T>, finalizers: string[]) => {
    const [first] = await eventually(hub, of, (all) => all.length > 0, { namespace });
    if (first === undefined) throw new Error("unreachable");
    await whileInConflict(async () => {
      const now = await agent.get(of, keyOf(first));
      const metadata = { ...now.metadata, finalizers, annotations: { measured: "1" } };
      await agent.update(of, { ...now, metadata });
    });
    return keyOf(first);
  };
  await rewrite(INTERNAL_SERVICE_EXPORTS, [FINALIZERS.internalServiceExport]);
  await rewrite(ENDPOINT_SLICE_EXPORTS, [FINALIZERS.endpointSliceExport]);
  await rewrite(INTERNAL_SERVICE_IMPORTS, [FINALIZERS.internalServiceImport]);
  const copy = await rewrite(ENDPOINT_SLICE_IMPORTS, [FINALIZERS.endpointSliceImport]);
  await agent.mergePatch(ENDPOINT_SLICE_IMPORTS, copy, { metadata: { annotations: { measured: "2" } } });
  await whileInConflict(async () => {
    const internalMember = await agent.get(INTERNAL_MEMBER_CLUSTERS, objectKey(namespace, "b"));
    await agent.update(INTERNAL_MEMBER_CLUSTERS, internalMember, { subresource: "status" });
  });
  const involvedObject = { kind: "EndpointSliceImport", namespace, name: "x" };
  const event = await agent.create(EVENTS, {
    metadata: { namespace, name: "x.1" },
    involvedObject,
    reason: "Imported",
    message: "",
    type: "Normal",
  });
  await agent.mergePatch(EVENTS, keyOf(event), { count: 2 });
  await isolate(null);
}

/** The last writer of an object may write again concurrently: the object is read again, as agents do. */
async function whileInConflict(write: () => Promise<void>): Promise<void> {
  for (;;)
    try {
      return await write();
    } catch (error) {
      if (!hasCode(error, "API_CONFLICT")) throw error;
    }
}

/** A profile with a backend, until both are deleted. */
export async function manageTraffic(fleet: TestFleet): Promise<void> {
  const [hub, a] = [fleet.client("hub"), fleet.client("a")];
  await deploy(a, { name: "site", addresses: ["10.1.0.7"], service: { type: "LoadBalancer" } });
  const status = { loadBalancer: { ingress: [{ ip: "203.0.113.7" }] } };
  await a.mergePatch(SERVICES, objectKey("work", "site"), { status }, { subresource: "status" });
  await exportBy("fleet", a, { name: "site" });
  await hub.create(TRAFFIC_MANAGER_PROFILES, {
    metadata: { namespace: "work", name: "site" },
    spec: { resourceGroup: "r" },
  });
  await hub.create(TRAFFIC_MANAGER_BACKENDS, {
    metadata: { namespace: "work", name: "site" },
    spec: { profile: { name: "site" }, backend: { name: "site" } },
  });
  await eventually(hub, TRAFFIC_ROUTES, (all) => all.some((it) => (it.spec.targets?.length ?? 0) > 0));
  await hub.delete(TRAFFIC_MANAGER_BACKENDS, objectKey("work", "site"));
  await hub.delete(TRAFFIC_MANAGER_PROFILES, objectKey("work", "site"));
  await gone(hub, TRAFFIC_MANAGER_PROFILES, "site");
  await eventually(hub, TRAFFIC_ROUTES, (all) => all.length === 0);
}

/** A parallel network of b alone, one of whose gateways goes with its node, until its profile is deleted. */
export async function connectClusters(fleet: TestFleet): Promise<void> {
  const [hub, b] = [fleet.client("hub"), fleet.client("b")];
  for (const name of ["n1", "n2"]) await addNode(b, name, { address: "192.168.9.1" });
  await createProfile(hub, "site");
  await setProfile(hub, "b", "site");
  await showGateway(b, "b-0", { keys: [{ epoch: 1, publicKey: newPublicKey() }] });
  const shown = (count: number) =>
    eventually(hub, GATEWAYS, (all) => all.length === 2 * count && all.every((it) => it.spec.node !== ""));
  await shown(2);
  const isAccepted = (it: Gateway) => it.status?.conditions?.[0]?.status === "True";
  await eventually(b, GATEWAYS, (all) => all.length === 2 && all.every(isAccepted));
  await reportPaths({ client: b, hub, cluster: "b" }, []);
  await b.delete(NODES, objectKey(undefined, "n1"));
  await shown(1);
  await hub.delete(CLUSTER_MESH_PROFILES, objectKey(undefined, "site"));
  for (const kind of [GATEWAYS, MESH_NETWORKS, ADDRESS_BLOCKS] as readonly Resource[])
    await eventually(b, kind, (all) => all.length === 0);
  await eventually(hub, GATEWAYS, (all) => all.length === 0);
  await setProfile(hub, "b", null);
  await b.delete(NODES, objectKey(undefined, "n2"));
}

/** A run whose gate is skipped, and one whose engine the member does not have. */
export async function upgradeCluster(fleet: TestFleet): Promise<void> {
  const hub = fleet.client("hub");
  const member = objectKey(undefined, "a");
  const labels = { [UPDATE_GROUP_LABEL]: "a" };
  const annotations = { [UPGRADER_ANNOTATION]: "Hammer:" };
  await hub.mergePatch(MEMBER_CLUSTERS, member, { metadata: { labels, annotations } });
  const key = objectKey(undefined, "run");
  const run = (beforeGates: GateConfiguration[]) =>
    hub.create(UPDATE_RUNS, {
      metadata: { name: "run" },
      spec: {
        strategy: { stages: [{ name: "one", groups: [{ name: "a" }], beforeGates }] },
        managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: "1.36.1" } },
        state: "Run",
      },
    });
  await run([{ displayName: "go", type: "Approval" }]);
  await eventually(hub, GATES, (all) => all.length === 1);
  await eventuallyOne(hub, UPDATE_RUNS, key, (it) => it.status?.status.state === "Pending");
  await hub.mergePatch(UPDATE_RUNS, key, { spec: { skip: [{ type: "Stage", name: "one" }] } });
  await eventually(hub, GATES, (all) => all.every((it) => it.spec.state === "Skipped"));
  await hub.delete(UPDATE_RUNS, key);
  await eventually(hub, GATES, (all) => all.length === 0);
  await run([]);
  await eventuallyOne(hub, UPDATE_RUNS, key, (it) => it.status?.outcome === "Failed");
  await hub.delete(UPDATE_RUNS, key);
  const kubernetesVersions = [{ version: "1.36.99" }];
  await hub.create(RELEASE_CATALOGS, { metadata: { name: "all" }, spec: { kubernetesVersions } });
  await hub.create(AUTO_UPGRADE_PROFILES, { metadata: { name: "rapid" }, spec: { channel: "Rapid" } });
  await eventually(hub, UPDATE_RUNS, (all) => all.some((it) => it.status?.outcome === "Failed"));
  await eventuallyOne(
    hub,
    AUTO_UPGRADE_PROFILES,
    objectKey(undefined, "rapid"),
    (it) => it.status !== undefined,
  );
}

/** A policy of a for pods of b, one of which changes, until there is no such policy. */
export async function knowPods(fleet: TestFleet): Promise<void> {
  const [hub, a, b] = [fleet.client("hub"), fleet.client("a"), fleet.client("b")];
  await addNode(b, "n3", { address: "192.168.9.3", podCIDR: "10.2.0.0/16" });
  await runPod(b, "web", { labels: { app: "web" }, address: "10.2.0.9" });
  await admit(a, "web-of-b", { labels: { app: "web", "io.cilium.k8s.policy.cluster": "b" } });
  const known = (address: string) =>
    eventually(a, IDENTITY_SLICES, (all) => all.some((it) => it.spec.pods?.[0]?.addresses[0] === address));
  await known("10.2.0.9");
  const status = { podIP: "10.2.0.8", podIPs: [{ ip: "10.2.0.8" }] };
  await b.mergePatch(PODS, objectKey("work", "web"), { status }, { subresource: "status" });
  await known("10.2.0.8");
  await a.delete(NETWORK_POLICIES, objectKey("work", "web-of-b"));
  for (const client of [hub, a]) await eventually(client, IDENTITY_SLICES, (all) => all.length === 0);
  await b.delete(PODS, objectKey("work", "web"), { gracePeriodSeconds: 0 });
  await b.delete(NODES, objectKey(undefined, "n3"));
  await refusePolicies(fleet.client("a"));
}

/** Policies of each kind whose status has conditions, all with a field that is not enforced. */
async function refusePolicies(client: KubeClient): Promise<void> {
  for (const crd of POLICY_CRDS)
    await client.apply(CUSTOM_RESOURCE_DEFINITIONS, crd, { fieldManager: "test" });
  await eventually(client, CUSTOM_RESOURCE_DEFINITIONS, (all) =>
    POLICY_CRDS.every((wanted) =>
      all
        .find((it) => it.metadata.name === wanted.metadata.name)
        ?.status?.conditions?.some((it) => it.type === "Established" && it.status === "True"),
    ),
  );
  const cilium = { endpointSelector: {}, ingress: [{ fromEntities: ["moon"] }] };
  const metadata = { name: "refused" };
  await client.create(CILIUM_NETWORK_POLICIES, {
    metadata: { ...metadata, namespace: "work" },
    spec: cilium,
  });
  await client.create(CILIUM_CLUSTERWIDE_NETWORK_POLICIES, { metadata, spec: cilium });
  const ingress = [
    {
      action: "Accept" as const,
      from: [{ namespaces: {}, pods: { namespaceSelector: {}, podSelector: {} } }],
    },
  ];
  const spec = { tier: "Admin" as const, priority: 1, subject: { namespaces: {} }, ingress };
  await client.create(CLUSTER_NETWORK_POLICIES, { metadata, spec });
  const kinds = [CILIUM_NETWORK_POLICIES, CILIUM_CLUSTERWIDE_NETWORK_POLICIES, CLUSTER_NETWORK_POLICIES];
  for (const kind of kinds)
    await eventually<KubeObject & { status?: { conditions?: Condition[] } }>(client, kind, (all) =>
      all.some((it) => it.status?.conditions?.some((one) => one.status === "False")),
    );
  await client.delete(CILIUM_NETWORK_POLICIES, objectKey("work", "refused"));
  await client.delete(CILIUM_CLUSTERWIDE_NETWORK_POLICIES, objectKey(undefined, "refused"));
  await client.delete(CLUSTER_NETWORK_POLICIES, objectKey(undefined, "refused"));
}

/** Endpoints that the hub refuses twice, on a server without policies: the same event twice. */
export async function beRefused(fleet: TestFleet): Promise<void> {
  const hub = fleet.client("hub");
  const [mine] = await eventually(hub, ENDPOINT_SLICE_EXPORTS, (all) => all.length > 0, {
    namespace: "fleet-member-a",
  });
  const agent = fleet.agents.get("a");
  if (mine === undefined || agent === undefined) throw new Error("a exports nothing");
  await agent.stop();
  for (const [times, address] of [
    [1, "127.0.0.1"],
    [2, "127.0.0.2"],
  ] as const) {
    await hub.mergePatch(ENDPOINT_SLICE_EXPORTS, keyOf(mine), {
      spec: { endpoints: [{ addresses: ["10.1.0.1", address] }], ports: [{ port: times }] },
    });
    await eventually(hub, EVENTS, (all) => all.some((it) => it.reason === "EndpointsRefused"));
  }
  agent.start();
}

/** a leaves in order; b is gone for good, with finalizers that no agent removes. */
export async function leaveBoth(fleet: TestFleet): Promise<void> {
  const hub = fleet.client("hub");
  const config = (name: string) => fleet.members.get(name)?.config;
  const signal = AbortSignal.timeout(PATIENCE_MS);
  await leaveFleet({ name: "a", hub: fleet.hub.config, member: config("a") }, testDeps("leave"), signal);
  // The mailbox has every kind of object when b leaves.
  const mailbox = { namespace: "fleet-member-b" };
  await hub.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "b"), {
    metadata: { annotations: { [ISOLATION_ANNOTATION]: "strict" } },
  });
  await eventually(hub, IMPORTED_SERVICES, (all) => all.length > 0, mailbox);
  await fleet.agents.get("b")?.stop();
  const [slice] = (await hub.list(ENDPOINT_SLICE_EXPORTS, mailbox)).items;
  if (slice !== undefined)
    await hub.apply(
      ENDPOINT_SLICE_IMPORTS,
      {
        metadata: { ...mailbox, name: "left", finalizers: [FINALIZERS.endpointSliceImport] },
        spec: slice.spec,
      },
      { fieldManager: "test" },
    );
  await hub.create(IDENTITY_SLICES, {
    metadata: { ...mailbox, name: "left" },
    spec: { cluster: "b", type: "Namespace", namespace: "work", publishedAt: "2026-01-01T00:00:00Z" },
  });
  const left: readonly Resource[] = [
    INTERNAL_SERVICE_EXPORTS,
    ENDPOINT_SLICE_EXPORTS,
    INTERNAL_SERVICE_IMPORTS,
  ];
  for (const of of left)
    for (const it of (await hub.list(of, mailbox)).items)
      await hub.mergePatch(of, keyOf(it), { metadata: { finalizers: ["example.com/left"] } });
  await hub.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "b"), {
    metadata: { annotations: { [FORCE_LEAVE_ANNOTATION]: "true" } },
  });
  await hub.delete(MEMBER_CLUSTERS, objectKey(undefined, "b"));
  await gone(hub, MEMBER_CLUSTERS, "b");
}

/** A change after a restart, which both have to see. */
export async function goOn(fleet: TestFleet, namespace: string): Promise<void> {
  await ensureNamespace(fleet.client("b"), namespace);
  await deploy(fleet.client("a"), { namespace, addresses: ["10.1.0.5"] });
  await exportBy("mcs", fleet.client("a"), { namespace });
  for (const name of ["a", "b"])
    await eventuallyOne(fleet.client(name), MCS_SERVICE_IMPORTS, objectKey(namespace, "hello"));
}
