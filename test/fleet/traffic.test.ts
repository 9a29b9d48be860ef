/** Traffic in a fleet: the slices that clusters write for their proxies, with annotations of exporters and changing endpoints. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { EXPORTS_SERVED } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { IMPORTED_SERVICES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
  MCS_SOURCE_CLUSTER_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { WEIGHT_ANNOTATION } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import { drainCluster } from "@fairlead/fleet/cli/fleet/drain.ts";
import { renderStatus } from "@fairlead/fleet/cli/fleet/render-status.ts";
import { readFleet, summarizeFleet } from "@fairlead/fleet/cli/fleet/status.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import {
  deploy,
  ensureNamespace,
  exportBy,
  PATIENCE_MS,
  sliceOf,
  startFleet,
  testDeps,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

const CLUSTERS = ["a", "b", "c"] as const;
type Cluster = (typeof CLUSTERS)[number];
/** The only pod of a cluster. */
const POD: Readonly<Record<Cluster, string>> = { a: "10.1.0.1", b: "10.2.0.1", c: "10.3.0.1" };

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: CLUSTERS });
});
afterAll(() => fleet[Symbol.asyncDispose]());

/** A service in a separate namespace, exported by each cluster that has annotations. */
async function share(
  namespace: string,
  annotations: Partial<Record<Cluster, Record<string, string>>>,
  api: "fleet" | "mcs" = "mcs",
): Promise<void> {
  for (const cluster of CLUSTERS) await ensureNamespace(fleet.client(cluster), namespace);
  for (const cluster of CLUSTERS) {
    const asked = annotations[cluster];
    if (asked === undefined) continue;
    await deploy(fleet.client(cluster), { namespace, addresses: [POD[cluster]] });
    await exportBy(api, fleet.client(cluster), { namespace, annotations: asked });
  }
}

function sourcesOf(slices: readonly EndpointSlice[], namespace: string): string {
  const sources = slices
    .filter(
      (it) =>
        it.metadata.namespace === namespace && it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] !== undefined,
    )
    .map((it) => it.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] ?? "");
  return [...new Set(sources)].toSorted().join(" ");
}

/** Waits until the slices in a cluster are of these clusters, and no others. */
async function untilServedBy(namespace: string, expected: Readonly<Record<Cluster, string>>): Promise<void> {
  for (const cluster of CLUSTERS)
    await eventually(
      fleet.client(cluster),
      ENDPOINT_SLICES,
      (slices) => sourcesOf(slices, namespace) === expected[cluster],
      { namespace },
    );
}
const everywhere = (clusters: string): Record<Cluster, string> => ({ a: clusters, b: clusters, c: clusters });

/** Sets whether the pod of a cluster is ready, as its kubelet would. */
async function setReady(namespace: string, cluster: Cluster, ready: boolean): Promise<void> {
  await fleet.client(cluster).mergePatch(ENDPOINT_SLICES, objectKey(namespace, "hello-abcde"), {
    endpoints: [{ addresses: [POD[cluster]], conditions: { ready, serving: ready, terminating: false } }],
  });
}

async function annotate(namespace: string, cluster: Cluster, annotations: object): Promise<void> {
  await fleet
    .client(cluster)
    .mergePatch(MCS_SERVICE_EXPORTS, objectKey(namespace, "hello"), { metadata: { annotations } });
}

const drain = (name: string, mode: "Soft" | "Hard" | undefined, timeoutMs = PATIENCE_MS, dryRun = false) =>
  drainCluster(
    { name, hub: fleet.hub.config, mode, timeoutMs, dryRun },
    testDeps("drain"),
    AbortSignal.timeout(PATIENCE_MS),
  );

describe("a service whose exporters configure traffic", () => {
  it("is served by the lowest ready priority, and fails over and back (C3)", async () => {
    const ns = "failover";
    await share(ns, { a: {}, b: { "fairlead.dev/priority": "1" }, c: { "fairlead.dev/priority": "2" } });
    await untilServedBy(ns, everywhere("a"));
    await setReady(ns, "a", false);
    await untilServedBy(ns, everywhere("b"));
    await setReady(ns, "b", false);
    await untilServedBy(ns, everywhere("c"));
    await setReady(ns, "a", true);
    await untilServedBy(ns, everywhere("a"));
  }, 60_000);

  it("with local affinity is served by each cluster itself while it has ready endpoints, or else by all others (C3)", async () => {
    const ns = "local";
    await share(ns, { a: { "fairlead.dev/affinity": "local" }, b: {} });
    await untilServedBy(ns, { a: "a", b: "b", c: "a b" });
    await setReady(ns, "a", false);
    await untilServedBy(ns, { a: "b", b: "b", c: "a b" });
    await setReady(ns, "a", true);
    await untilServedBy(ns, { a: "a", b: "b", c: "a b" });
  }, 60_000);

  it("is used behind a load balancer in the same order (C3)", async () => {
    const ns = "balanced";
    await share(ns, { a: {}, b: { "fairlead.dev/priority": "1" } }, "fleet");
    await fleet.client("c").create(MULTI_CLUSTER_SERVICES, {
      metadata: { namespace: ns, name: "hello" },
      spec: { serviceImport: { name: "hello" } },
    });
    const untilBalancedBy = (cluster: Cluster) =>
      eventually(
        fleet.client("c"),
        ENDPOINT_SLICES,
        (all) => all.flatMap((it) => it.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] ?? []).join() === cluster,
        { namespace: "fleet-system" },
      );
    await untilBalancedBy("a");
    await setReady(ns, "a", false);
    await untilBalancedBy("b");
    await setReady(ns, "a", true);
    await untilBalancedBy("a");
  }, 60_000);

  it("fails over and back in a cluster that is cut off from its hub (B6)", async () => {
    const ns = "alone-at-home";
    await share(ns, { a: { "fairlead.dev/affinity": "local" }, b: {} });
    await untilServedBy(ns, { a: "a", b: "b", c: "a b" });
    await fleet.hubProgram.stop();
    try {
      await setReady(ns, "a", false);
      await untilServedBy(ns, { a: "b", b: "b", c: "a b" });
      await setReady(ns, "a", true);
      await untilServedBy(ns, { a: "a", b: "b", c: "a b" });
    } finally {
      fleet.hubProgram.start();
    }
  }, 60_000);

  it("of weight 0 keeps name and address, and has no endpoints of that cluster (A3)", async () => {
    const ns = "weightless";
    await share(ns, { a: { "fairlead.dev/weight": "3" }, b: {} });
    await untilServedBy(ns, everywhere("a b"));
    const slices = await fleet.client("c").list(ENDPOINT_SLICES, { namespace: ns });
    const weights = slices.items.map((it) => it.metadata.annotations?.["fairlead.dev/weight"]);
    expect(new Set(weights)).toEqual(new Set(["3", undefined]));
    const address = async () =>
      (
        await eventuallyOne(
          fleet.client("c"),
          MCS_SERVICE_IMPORTS,
          objectKey(ns, "hello"),
          (it) => (it.spec?.ips?.length ?? 0) > 0,
        )
      ).spec?.ips;
    const before = await address();
    await annotate(ns, "a", { "fairlead.dev/weight": "0" });
    await untilServedBy(ns, everywhere("b"));
    await annotate(ns, "b", { "fairlead.dev/weight": "0" });
    await untilServedBy(ns, everywhere(""));
    expect(await address()).toEqual(before);
    await annotate(ns, "a", { "fairlead.dev/weight": null });
    await untilServedBy(ns, everywhere("a"));
  }, 60_000);

  it("that its cluster withdraws by weight 0 of the fleet's kind is in the status of the hub with the cause, until the weight is another", async () => {
    const ns = "withdrawn";
    await share(ns, { a: {} }, "fleet");
    await untilServedBy(ns, everywhere("a"));
    const weigh = (weight: string) =>
      fleet.client("a").mergePatch(FLEET_SERVICE_EXPORTS, objectKey(ns, "hello"), {
        metadata: { annotations: { [WEIGHT_ANNOTATION]: weight } },
      });
    const reported = (isReported: boolean) =>
      eventuallyOne(fleet.client("hub"), MEMBER_CLUSTERS, objectKey(undefined, "a"), ({ status }) => {
        const conditions = status?.agentStatus?.flatMap((it) => it.conditions ?? []);
        return (findCondition(conditions, EXPORTS_SERVED) !== undefined) === isReported;
      });
    await weigh("0");
    await reported(true);
    await untilServedBy(ns, everywhere(""));
    const status = summarizeFleet(await readFleet(fleet.client("hub"), AbortSignal.timeout(PATIENCE_MS)));
    expect(renderStatus(status, "text", 0)).toContain(`  ${ns}/hello: a: weight 0: nothing is exported`);
    await weigh("1");
    await reported(false);
    await untilServedBy(ns, everywhere("a"));
  });

  it("keeps the last valid value of an invalid annotation, and reports its name and the cause (A4, C9)", async () => {
    const ns = "mistyped";
    await share(ns, { a: { "fairlead.dev/priority": "1" }, b: {} });
    await untilServedBy(ns, everywhere("b"));
    const reported = (status: string) =>
      eventuallyOne(
        fleet.client("a"),
        MCS_SERVICE_EXPORTS,
        objectKey(ns, "hello"),
        (it) => findCondition(it.status?.conditions, "fairlead.dev/Traffic")?.status === status,
      );
    await reported("True");
    await annotate(ns, "a", { "fairlead.dev/priority": "last" });
    const condition = findCondition((await reported("False")).status?.conditions, "fairlead.dev/Traffic");
    expect(condition?.message).toMatch(/^fairlead.dev\/priority: .* got "last"; using 1$/);
    await untilServedBy(ns, everywhere("b"));
  }, 60_000);
});

describe("endpoints that another cluster uses", () => {
  /** All slices of the service in cluster c, by family and cluster. */
  async function imported(ns: string, count: number): Promise<readonly EndpointSlice[]> {
    const slices = await eventually(
      fleet.client("c"),
      ENDPOINT_SLICES,
      (all) => all.filter((it) => sourcesOf([it], ns) !== "").length === count,
      { namespace: ns },
    );
    return slices.filter((it) => sourcesOf([it], ns) !== "");
  }

  it("come with host name, zone and all their conditions, and end as gracefully as at home (C2, C3)", async () => {
    const ns = "graceful";
    await share(ns, { a: {} });
    await imported(ns, 1);
    const ending = { ready: false, serving: true, terminating: true };
    const endpoints = [
      {
        addresses: ["10.1.0.1"],
        conditions: ending,
        hostname: "hello-0",
        nodeName: "node-1",
        zone: "zone-a",
      },
      {
        addresses: ["10.1.0.2"],
        conditions: { ready: true, serving: true, terminating: false },
        zone: "zone-b",
      },
    ];
    await fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey(ns, "hello-abcde"), { endpoints });
    const [{ nodeName: _, ...first } = { addresses: [] }, second] = endpoints;
    await eventually(
      fleet.client("c"),
      ENDPOINT_SLICES,
      (all) => all.some((it) => sourcesOf([it], ns) === "a" && sameJson(it.endpoints, [first, second])),
      { namespace: ns },
    );
  });

  it("that serve while they terminate are used only while no other cluster has ready ones (C3)", async () => {
    const ns = "last-rites";
    await share(ns, { a: {}, b: { "fairlead.dev/priority": "1" } });
    await setReady(ns, "b", false);
    await untilServedBy(ns, everywhere("a"));
    await fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey(ns, "hello-abcde"), {
      endpoints: [
        { addresses: [POD.a], conditions: { ready: false, serving: true, terminating: true }, zone: "moved" },
      ],
    });
    await eventually(
      fleet.client("c"),
      ENDPOINT_SLICES,
      (all) => all.some((it) => sourcesOf([it], ns) === "a" && it.endpoints[0]?.zone === "moved"),
      { namespace: ns },
    );
    await setReady(ns, "b", true);
    await untilServedBy(ns, everywhere("b"));
  });

  it("of IPv6 are chosen apart from those of IPv4, so that each family is served (C2)", async () => {
    const ns = "families";
    await share(ns, { a: {}, b: { "fairlead.dev/priority": "1" } });
    await untilServedBy(ns, everywhere("a"));
    const six = sliceOf({ namespace: ns, addresses: ["fd00:2::1"], suffix: "v6" });
    await fleet.client("b").create(ENDPOINT_SLICES, six);
    const shown = (await imported(ns, 2)).map(
      (it) =>
        `${it.addressType} ${sourcesOf([it], ns)} ${it.endpoints.flatMap((one) => one.addresses).join()}`,
    );
    expect(shown.toSorted(byText)).toEqual(["IPv4 a 10.1.0.1", "IPv6 b fd00:2::1"]);
  });

  it("of a headless service are those of the clusters that serve (C2, C3)", async () => {
    const ns = "headless";
    for (const cluster of CLUSTERS) await ensureNamespace(fleet.client(cluster), ns);
    for (const cluster of ["a", "b"] as const) {
      await deploy(fleet.client(cluster), { namespace: ns, addresses: [POD[cluster]], headless: true });
      await exportBy("mcs", fleet.client(cluster), { namespace: ns });
    }
    await imported(ns, 2);
    await annotate(ns, "b", { "fairlead.dev/priority": "1" });
    await untilServedBy(ns, everywhere("a"));
    await setReady(ns, "a", false);
    await untilServedBy(ns, everywhere("b"));
  });

  it("of a port that the first cluster lacks are those of the next one (A8, C3)", async () => {
    const ns = "ports";
    const http = { name: "http", protocol: "TCP", port: 80, targetPort: 8080 } as const;
    const metrics = { name: "metrics", protocol: "TCP", port: 9090, targetPort: 9090 } as const;
    await share(ns, { a: {} });
    await deploy(fleet.client("b"), { namespace: ns, addresses: [POD.b], ports: [http, metrics] });
    await exportBy("mcs", fleet.client("b"), {
      namespace: ns,
      annotations: { "fairlead.dev/priority": "1" },
    });
    const shown = (await imported(ns, 2)).map(
      (it) => `${sourcesOf([it], ns)} ${it.ports?.map((port) => port.name).join(" ")}`,
    );
    expect(shown.toSorted(byText)).toEqual(["a http", "b metrics"]);
  });

  it("come with the affinity of sessions and the preference for near ones of the oldest export (C3, C4)", async () => {
    const ns = "sticky";
    for (const cluster of CLUSTERS) await ensureNamespace(fleet.client(cluster), ns);
    await deploy(fleet.client("a"), {
      namespace: ns,
      addresses: [POD.a],
      service: {
        sessionAffinity: "ClientIP",
        sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } },
        trafficDistribution: "PreferClose",
      },
    });
    await exportBy("mcs", fleet.client("a"), { namespace: ns });
    const [slice] = await imported(ns, 1);
    expect(slice?.endpoints[0]?.hints).toEqual({ forZones: [{ name: "zone-a" }] });
    const name = slice?.metadata.labels?.[SERVICE_NAME_LABEL] ?? "";
    const derived = await eventuallyOne(fleet.client("c"), SERVICES, objectKey(ns, name), () => true);
    expect(derived.spec).toMatchObject({
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } },
      trafficDistribution: "PreferClose",
    });
  });
});

describe("a service exported to a part of the fleet", () => {
  it("is correct for members that see all of it and for those that see a part, and is not in the view (C3)", async () => {
    const ns = "chosen";
    await share(ns, { a: {}, b: { "fairlead.dev/export-to": "c,stranger" } });
    await untilServedBy(ns, { a: "a", b: "a b", c: "a b" });
    const imports = (await fleet.client("hub").list(IMPORTED_SERVICES)).items
      .filter((it) => it.spec.service.namespace === ns)
      .map((it) => `${it.metadata.namespace}: ${it.spec.clusters.map((one) => one.cluster).join(" ")}`);
    expect(imports.toSorted()).toEqual([
      "fleet-member-b: a b",
      "fleet-member-c: a b",
      "fleet-view-default: a",
    ]);
    const slices = (await fleet.client("hub").list(ENDPOINT_SLICE_IMPORTS)).items
      .filter((it) => it.spec.ownerServiceReference.namespace === ns)
      .map((it) => `${it.metadata.namespace}: ${it.spec.endpointSliceReference.clusterId}`);
    expect(slices.toSorted()).toEqual(["fleet-member-c: b", "fleet-view-default: a"]);
    const reported = await eventuallyOne(
      fleet.client("b"),
      MCS_SERVICE_EXPORTS,
      objectKey(ns, "hello"),
      (it) => findCondition(it.status?.conditions, "fairlead.dev/Traffic")?.status === "False",
    );
    expect(findCondition(reported.status?.conditions, "fairlead.dev/Traffic")).toMatchObject({
      reason: "UnknownMembers",
      message: "not members of the fleet: stranger",
    });
    await annotate(ns, "b", { "fairlead.dev/export-to": null });
    await untilServedBy(ns, everywhere("a b"));
  }, 60_000);

  it("does not exist for members that are not named", async () => {
    const ns = "private";
    await share(ns, { b: { "fairlead.dev/export-to": "c" } });
    await untilServedBy(ns, { a: "", b: "b", c: "b" });
    expect(await fleet.client("a").find(MCS_SERVICE_IMPORTS, objectKey(ns, "hello"))).toBeUndefined();
  }, 60_000);
});

describe("a drained cluster", () => {
  it("receives no requests that another cluster can serve, also from its own clients, and receives them again afterwards; status shows it", async () => {
    const ns = "drained";
    await share(ns, { a: {}, b: {} });
    await share("alone", { a: {} });
    await share("near", { a: { "fairlead.dev/affinity": "local" }, b: {} });
    await untilServedBy(ns, everywhere("a b"));
    await untilServedBy("alone", everywhere("a"));
    const asked = await drain("a", "Soft", PATIENCE_MS, true);
    expect(asked).toMatchObject({ dryRun: true, carriedOutBy: [] });
    expect(asked.servedOnlyHere).toContain("alone/hello");
    const untouched = await fleet.client("hub").get(MEMBER_CLUSTERS, objectKey(undefined, "a"));
    expect(untouched.metadata.annotations).not.toHaveProperty("fairlead.dev/drain");
    const result = await drain("a", "Soft");
    expect(result.carriedOutBy).toEqual(["a", "b", "c"]);
    expect(result.servedOnlyHere).toContain("alone/hello");
    expect(result.servedOnlyHere).not.toContain("drained/hello");
    // Carried out: nothing is waited for any more.
    for (const cluster of CLUSTERS) {
      const { items } = await fleet.client(cluster).list(ENDPOINT_SLICES);
      expect([ns, "alone", "near"].map((it) => sourcesOf(items, it))).toEqual(["b", "a", "b"]);
    }
    const status = summarizeFleet(await readFleet(fleet.client("hub"), AbortSignal.timeout(PATIENCE_MS)));
    expect(renderStatus(status, "text", 0)).toMatch(/DRAINED[^]*\na .*Soft/);
    await setReady(ns, "b", false);
    await untilServedBy(ns, everywhere("a"));
    await setReady(ns, "b", true);
    await untilServedBy(ns, everywhere("b"));
    expect((await drain("a", "Hard")).carriedOutBy).toEqual(["a", "b", "c"]);
    await untilServedBy("alone", everywhere(""));
    expect((await drain("a", undefined)).carriedOutBy).toEqual(["a", "b", "c"]);
    await untilServedBy(ns, everywhere("a b"));
    await untilServedBy("alone", everywhere("a"));
    const member = await fleet.client("hub").get(MEMBER_CLUSTERS, objectKey(undefined, "a"));
    expect(member.metadata.annotations).not.toHaveProperty("fairlead.dev/drain");
  }, 60_000);

  it("stays drained over restarts of its agents, and a restarted agent applies the end of the drain", async () => {
    const ns = "restarted";
    await share(ns, { a: {}, b: {} });
    await drain("a", "Soft");
    await fleet.agents.get("c")?.stop();
    fleet.agents.get("c")?.start();
    await untilServedBy(ns, everywhere("b"));
    await fleet.agents.get("c")?.stop();
    const undone = drain("a", undefined);
    fleet.agents.get("c")?.start();
    expect((await undone).carriedOutBy).toEqual(["a", "b", "c"]);
    await untilServedBy(ns, everywhere("a b"));
  }, 60_000);

  it("reports the clusters that have not applied the drain in time, and that it remains requested", async () => {
    await fleet.agents.get("c")?.stop();
    await expect(drain("b", "Soft", 3000)).rejects.toThrow(
      // On a busy machine the others may be late too.
      /^timed out after 3 s waiting for (\w, )*c; the drain remains requested/,
    );
    fleet.agents.get("c")?.start();
    expect((await drain("b", "Soft")).carriedOutBy).toEqual(["a", "b", "c"]);
    await drain("b", undefined);
  }, 60_000);

  it("is rejected for a member that the fleet does not have", async () => {
    await expect(drain("z", "Soft")).rejects.toThrow('no cluster named "z"; it has a, b, c');
  });
});
