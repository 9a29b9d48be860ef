/** Global Services: those of one name in several clusters, with the annotations of Cilium Cluster Mesh. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NAMESPACES, type Service, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MCS_SOURCE_CLUSTER_LABEL } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { ENDPOINT_SLICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  sliceOf,
  startFleet,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

const CLUSTERS = ["a", "b"] as const;
type Cluster = (typeof CLUSTERS)[number];
const POD: Readonly<Record<Cluster, string>> = { a: "10.1.0.1", b: "10.2.0.1" };

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: CLUSTERS, probe: () => () => Promise.resolve("connected") });
});
afterAll(() => fleet[Symbol.asyncDispose]());

const GLOBAL = { "service.cilium.io/global": "true" };
const LOCAL = { "service.cilium.io/global": null, "service.cilium.io/shared": null };

async function annotate(
  namespace: string,
  cluster: Cluster,
  annotations: Readonly<Record<string, string | null>>,
): Promise<void> {
  await fleet
    .client(cluster)
    .mergePatch(SERVICES, objectKey(namespace, "hello"), { metadata: { annotations } });
}

/** The Service with one pod in both clusters, with these annotations. */
async function share(
  namespace: string,
  annotations: Readonly<Record<Cluster, Readonly<Record<string, string | null>>>>,
): Promise<void> {
  for (const cluster of CLUSTERS) {
    await deploy(fleet.client(cluster), { namespace, addresses: [POD[cluster]] });
    await annotate(namespace, cluster, annotations[cluster]);
  }
}

/** The slices of the Service itself, not of what imports it. */
function ofService(slices: readonly EndpointSlice[]): readonly EndpointSlice[] {
  return slices.filter((it) => it.metadata.labels?.[SERVICE_NAME_LABEL] === "hello");
}

/** Waits until the Service has these endpoints in each cluster, and then looks that it still has. */
async function untilUsed(
  namespace: string,
  expected: Readonly<Record<Cluster, readonly string[]>>,
): Promise<void> {
  for (const cluster of CLUSTERS)
    await eventually(
      fleet.client(cluster),
      ENDPOINT_SLICES,
      (slices) => addressesOf(ofService(slices)).join() === expected[cluster].toSorted().join(),
      { namespace },
    );
}
const BOTH = [POD.a, POD.b];

describe("a Service that is global in two clusters", () => {
  it("has the endpoints of both in each, in slices of its own that every proxy reads, and none comes back", async () => {
    const namespace = "shop";
    await share(namespace, { a: GLOBAL, b: GLOBAL });
    await untilUsed(namespace, { a: BOTH, b: BOTH });
    const { items } = await fleet.client("a").list(ENDPOINT_SLICES, { namespace });
    const slice = ofService(items).find((it) => it.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] === "b");
    const service = await fleet.client("a").get(SERVICES, objectKey(namespace, "hello"));
    expect(slice?.metadata).toMatchObject({
      labels: {
        "kubernetes.io/service-name": "hello",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-global.fairlead.dev",
        "multicluster.kubernetes.io/source-cluster": "b",
      },
      ownerReferences: [{ kind: "Service", name: "hello", uid: service.metadata.uid }],
    });
    // What came from b is not exported by a: each has one slice on the hub.
    const exports = await fleet.client("hub").list(ENDPOINT_SLICE_EXPORTS);
    const ours = exports.items.filter((it) => it.spec.ownerServiceReference.namespace === namespace);
    const mailboxes = new Set(ours.map((it) => it.metadata.namespace));
    expect(mailboxes).toEqual(new Set(["fleet-member-a", "fleet-member-b"]));
    expect(ours.flatMap((it) => it.spec.endpoints.flatMap((one) => one.addresses)).toSorted()).toEqual(BOTH);
  }, 60_000);

  it("has a condition that says what came of its annotations, while it has these", async () => {
    const namespace = "told";
    await share(namespace, { a: GLOBAL, b: { ...GLOBAL, "service.cilium.io/affinity": "near" } });
    const reported = (
      cluster: Cluster,
      isEnough: (reason: string | undefined) => boolean,
    ): Promise<Service> =>
      eventuallyOne(fleet.client(cluster), SERVICES, objectKey(namespace, "hello"), ({ status }) =>
        isEnough(findCondition(status?.conditions, "fairlead.dev/GlobalService")?.reason),
      );
    await reported("a", (it) => it === "Shared");
    await reported("b", (it) => it === "InvalidAnnotation");
    await annotate(namespace, "a", LOCAL);
    await reported("a", (it) => it === undefined);
  }, 60_000);

  const G = GLOBAL;
  const NOT_SHARED = { ...GLOBAL, "service.cilium.io/shared": "false" };
  const SHARED = { "service.cilium.io/shared": "true" };
  it.each([
    ["gs-gs", G, G, [BOTH, BOTH]],
    ["gs-g", G, NOT_SHARED, [[POD.a], BOTH]],
    ["g-gs", NOT_SHARED, G, [BOTH, [POD.b]]],
    ["g-g", NOT_SHARED, NOT_SHARED, [[POD.a], [POD.b]]],
    ["n-gs", LOCAL, G, [[POD.a], [POD.b]]],
    ["n-g", LOCAL, NOT_SHARED, [[POD.a], [POD.b]]],
    ["s-gs", SHARED, G, [[POD.a], [POD.b]]],
    ["gs-n", G, LOCAL, [[POD.a], [POD.b]]],
    ["g-n", NOT_SHARED, LOCAL, [[POD.a], [POD.b]]],
    ["gs-s", G, SHARED, [[POD.a], [POD.b]]],
  ] as const)(
    "truth table, %s: global and shared decide who uses whom",
    async (namespace, a, b, [usedByA, usedByB]) => {
      // From the other extreme, so that what is expected has to come about.
      const isUsed = usedByA.length + usedByB.length > 2;
      await share(namespace, isUsed ? { a: LOCAL, b: LOCAL } : { a: G, b: G });
      await untilUsed(namespace, isUsed ? { a: [POD.a], b: [POD.b] } : { a: BOTH, b: BOTH });
      await annotate(namespace, "a", { ...LOCAL, ...a });
      await annotate(namespace, "b", { ...LOCAL, ...b });
      await untilUsed(namespace, { a: usedByA, b: usedByB });
    },
    60_000,
  );

  it("in a namespace that becomes local is withdrawn at once, and comes back, without a change of the Services", async () => {
    const namespace = "sealed";
    await share(namespace, { a: GLOBAL, b: GLOBAL });
    await untilUsed(namespace, { a: BOTH, b: BOTH });
    const seal = (value: string | null) =>
      fleet.client("a").mergePatch(NAMESPACES, objectKey(undefined, namespace), {
        metadata: { annotations: { "clustermesh.cilium.io/global": value } },
      });
    await seal("false");
    await untilUsed(namespace, { a: [POD.a], b: [POD.b] });
    await seal("TRUE");
    await untilUsed(namespace, { a: BOTH, b: BOTH });
  }, 60_000);

  it("is hidden from service proxies where its annotation asks for it", async () => {
    const namespace = "hidden";
    const hidden = { ...GLOBAL, "service.cilium.io/global-sync-endpoint-slices": "false" };
    await share(namespace, { a: hidden, b: GLOBAL });
    await untilUsed(namespace, { a: [POD.a], b: BOTH });
    await eventually(
      fleet.client("a"),
      ENDPOINT_SLICES,
      (slices) => slices.some((it) => it.metadata.labels?.["fairlead.dev/global-service"] === "hello"),
      { namespace },
    );
  }, 60_000);
});

async function setReady(namespace: string, cluster: Cluster, ready: boolean): Promise<void> {
  await fleet.client(cluster).mergePatch(ENDPOINT_SLICES, objectKey(namespace, "hello-abcde"), {
    endpoints: [{ addresses: [POD[cluster]], conditions: { ready, serving: ready, terminating: false } }],
  });
}

describe("a global Service", () => {
  it("with local affinity has endpoints of others only while none of its own is ready", async () => {
    const namespace = "near";
    await share(namespace, { a: { ...GLOBAL, "service.cilium.io/affinity": "local" }, b: GLOBAL });
    await untilUsed(namespace, { a: [POD.a], b: BOTH });
    await setReady(namespace, "a", false);
    await untilUsed(namespace, { a: BOTH, b: BOTH });
    await setReady(namespace, "b", false);
    await untilUsed(namespace, { a: [POD.a], b: BOTH });
    await setReady(namespace, "b", true);
    await setReady(namespace, "a", true);
    await untilUsed(namespace, { a: [POD.a], b: BOTH });
  }, 60_000);

  it("has no endpoints of a slice in maintenance, and passes other weights on", async () => {
    const namespace = "weighed";
    await share(namespace, { a: GLOBAL, b: GLOBAL });
    const weigh = (weight: string | null) =>
      fleet.client("b").mergePatch(ENDPOINT_SLICES, objectKey(namespace, "hello-abcde"), {
        metadata: { annotations: { "service.cilium.io/weight": weight } },
      });
    await weigh("0");
    await untilUsed(namespace, { a: [POD.a], b: BOTH });
    await weigh("7");
    await untilUsed(namespace, { a: BOTH, b: BOTH });
    const { items } = await fleet.client("a").list(ENDPOINT_SLICES, { namespace });
    for (const cluster of CLUSTERS)
      await eventuallyOne(fleet.client(cluster), SERVICES, objectKey(namespace, "hello"), ({ status }) => {
        const found = findCondition(status?.conditions, "fairlead.dev/GlobalService");
        return found?.reason === "NodeAgentsMissing";
      });
    const weights = ofService(items).map((it) => it.metadata.annotations?.["service.cilium.io/weight"]);
    expect(new Set(weights)).toEqual(new Set(["7", undefined]));
  }, 60_000);

  it("finds endpoints by the names of its ports: two names for one number both work, whatever the numbers here are", async () => {
    const namespace = "ports";
    const ports = (first: number, target: number) => [
      { name: "web", protocol: "TCP" as const, port: first, targetPort: target },
      { name: "api", protocol: "TCP" as const, port: first + 1, targetPort: target },
    ];
    for (const [at, cluster] of CLUSTERS.entries()) {
      const more = { namespace, addresses: [POD[cluster]], ports: ports(80 + 100 * at, 8080 + at) };
      await deploy(fleet.client(cluster), more);
      await annotate(namespace, cluster, GLOBAL);
    }
    await untilUsed(namespace, { a: BOTH, b: BOTH });
    const { items } = await fleet.client("a").list(ENDPOINT_SLICES, { namespace });
    const slice = ofService(items).find((it) => it.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] === "b");
    expect(slice?.ports).toEqual([
      { name: "web", protocol: "TCP", port: 8081 },
      { name: "api", protocol: "TCP", port: 8081 },
    ]);
  }, 60_000);

  it("without a name for its port finds ports without a name", async () => {
    const namespace = "unnamed";
    for (const cluster of CLUSTERS) {
      const ports = [{ protocol: "TCP" as const, port: 80, targetPort: 8080 }];
      await deploy(fleet.client(cluster), { namespace, addresses: [POD[cluster]], ports });
      await annotate(namespace, cluster, GLOBAL);
    }
    await untilUsed(namespace, { a: BOTH, b: BOTH });
  }, 60_000);

  it("that is headless has the endpoints of other clusters for DNS", async () => {
    const namespace = "headless";
    for (const cluster of CLUSTERS) {
      await deploy(fleet.client(cluster), { namespace, addresses: [POD[cluster]], headless: true });
      await annotate(namespace, cluster, GLOBAL);
    }
    await untilUsed(namespace, { a: BOTH, b: BOTH });
    const { items } = await fleet.client("a").list(ENDPOINT_SLICES, { namespace });
    const marks = ofService(items).map((it) => it.metadata.labels?.["service.kubernetes.io/headless"]);
    expect(marks).toContain("");
  }, 60_000);

  it("leaves nothing when it is no longer global, and makes no Service and no slices of it in clusters without it", async () => {
    const namespace = "lonely";
    await ensureNamespace(fleet.client("b"), namespace);
    await deploy(fleet.client("a"), { namespace, addresses: [POD.a] });
    await annotate(namespace, "a", GLOBAL);
    await eventually(fleet.client("hub"), ENDPOINT_SLICE_EXPORTS, (all) =>
      all.some((it) => it.spec.ownerServiceReference.namespace === namespace),
    );
    // A Service that comes later finds the endpoints there.
    await fleet.client("b").create(SERVICES, {
      metadata: { namespace, name: "hello", annotations: GLOBAL },
      spec: { ports: [{ name: "http", port: 80 }] },
    });
    await untilUsed(namespace, { a: [POD.a], b: [POD.a] });
    await fleet.client("b").delete(SERVICES, objectKey(namespace, "hello"));
    await eventually(fleet.client("b"), ENDPOINT_SLICES, (slices) => ofService(slices).length === 0, {
      namespace,
    });
    await annotate(namespace, "a", LOCAL);
    await eventually(fleet.client("hub"), ENDPOINT_SLICE_EXPORTS, (all) =>
      all.every((it) => it.spec.ownerServiceReference.namespace !== namespace),
    );
  }, 60_000);

  it("keeps its own slices apart from those that another program imported", async () => {
    const namespace = "foreign";
    await share(namespace, { a: GLOBAL, b: GLOBAL });
    const foreign = sliceOf({ namespace, addresses: ["10.9.0.9"], suffix: "mesh" });
    const labels = { ...foreign.metadata.labels, [MCS_SOURCE_CLUSTER_LABEL]: "elsewhere" };
    const created = await fleet
      .client("a")
      .create(ENDPOINT_SLICES, { ...foreign, metadata: { ...foreign.metadata, labels } });
    await untilUsed(namespace, { a: [...BOTH, "10.9.0.9"], b: BOTH });
    expect(await fleet.client("a").find(ENDPOINT_SLICES, keyOf(created))).toBeDefined();
  }, 60_000);
});
