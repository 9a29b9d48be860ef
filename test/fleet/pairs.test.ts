import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  INTERNAL_MEMBER_CLUSTERS,
  type InternalMemberCluster,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  ENDPOINT_SLICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { type Member, startMember } from "@fairlead/fleet/member/member.ts";
import type { MemberPart } from "@fairlead/fleet/member/roles.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";

/** One of a member's two managers is ours and the other an original: each does its part, and leaves the other's alone. */

const MAILBOX = "fleet-member-east";
const hello = objectKey("work", "hello");
const forever = new AbortController().signal;

let clock: FakeClock;
let local: FakeKubeClient;
let hub: FakeKubeClient;
let member: Member | undefined;

beforeEach(() => {
  clock = new FakeClock(Date.UTC(2026, 0, 1));
  [local, hub] = [new FakeKubeClient(clock), new FakeKubeClient(clock)];
  for (const name of ["fleet-system", "work"]) local.seed(NAMESPACES, { metadata: { name } });
  // As an original hub writes it.
  const internalMember: InternalMemberCluster = {
    metadata: { namespace: MAILBOX, name: "east" },
    spec: { state: "Join", heartbeatPeriodSeconds: 60 },
  };
  hub.seed(INTERNAL_MEMBER_CLUSTERS, internalMember);
});
afterEach(async () => {
  const ending = member?.[Symbol.asyncDispose]();
  await clock.advance(1000);
  await ending;
  member = undefined;
});

async function start(part: MemberPart): Promise<void> {
  const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
  const starting = startMember(
    { cluster: "east", local, hub, deps, part, probe: () => Promise.resolve("connected") },
    forever,
  );
  await clock.advance(5000);
  member = await starting;
  await clock.advance(1000);
}

const agents = (): string[] =>
  hub
    .objects(INTERNAL_MEMBER_CLUSTERS)
    .flatMap((it) => (it.status?.agentStatus ?? []).map((agent) => agent.type));
const versionsOf = (...objects: readonly { metadata: { resourceVersion?: string } }[]): unknown[] =>
  objects.map((it) => it.metadata.resourceVersion);

describe("Fairlead's exports and imports together with an original manager of MultiClusterServices", () => {
  it("carry endpoints to the load balancer of the original manager, and do not change the original's objects", async () => {
    const owner = {
      apiVersion: "networking.fleet.azure.com/v1alpha1",
      kind: "MultiClusterService",
      name: "hello",
      uid: "mcs",
    };
    local.seed(MULTI_CLUSTER_SERVICES, {
      metadata: {
        namespace: "work",
        name: "hello",
        finalizers: ["networking.fleet.azure.com/service-resources-cleanup"],
        labels: {
          "networking.fleet.azure.com/service-import": "hello",
          "networking.fleet.azure.com/derived-service": "work-hello",
        },
      },
      spec: { serviceImport: { name: "hello" } },
    });
    local.seed(FLEET_SERVICE_IMPORTS, {
      metadata: { namespace: "work", name: "hello", ownerReferences: [{ ...owner, controller: true }] },
    });
    local.seed(SERVICES, {
      metadata: {
        namespace: "fleet-system",
        name: "work-hello",
        labels: {
          "networking.fleet.azure.com/multi-cluster-service-name": "hello",
          "networking.fleet.azure.com/multi-cluster-service-namespace": "work",
        },
      },
      spec: { type: "LoadBalancer", ports: [{ port: 80, protocol: "TCP" }] },
    });
    const theirs = (): unknown[] =>
      versionsOf(
        ...local.objects(MULTI_CLUSTER_SERVICES),
        ...local.objects(SERVICES).filter((it) => it.metadata.namespace === "fleet-system"),
      );
    const before = theirs();
    await start({ roles: new Set(["member-net"]), isNetworking: true, isFleetOnly: true });
    const [asked] = hub.objects(INTERNAL_SERVICE_IMPORTS);
    expect(asked?.spec.serviceImportReference).toMatchObject({ namespace: "work", name: "hello" });
    // What an original hub answers.
    const status = {
      type: "ClusterSetIP" as const,
      ports: [{ port: 80, protocol: "TCP" as const }],
      clusters: [{ cluster: "west" }],
    };
    await hub.mergePatch(
      INTERNAL_SERVICE_IMPORTS,
      objectKey(MAILBOX, asked?.metadata.name ?? ""),
      { status },
      { subresource: "status" },
    );
    hub.seed(ENDPOINT_SLICE_IMPORTS, {
      metadata: { namespace: MAILBOX, name: "west-work-hello-abcde-12345" },
      spec: {
        addressType: "IPv4",
        endpoints: [{ addresses: ["10.2.0.1"] }],
        ports: [{ port: 8080, protocol: "TCP" }],
        endpointSliceReference: {
          clusterId: "west",
          kind: "EndpointSlice",
          namespace: "work",
          name: "hello-abcde",
          namespacedName: "work/hello-abcde",
          uid: "u",
          resourceVersion: "1",
          generation: 1,
          exportedSince: "2026-01-01T00:00:00Z",
        },
        ownerServiceReference: { namespace: "work", name: "hello", namespacedName: "work/hello" },
      },
    });
    await clock.advance(2000);
    expect(local.objects(FLEET_SERVICE_IMPORTS)[0]?.status?.clusters).toEqual([{ cluster: "west" }]);
    const slices = local.objects(ENDPOINT_SLICES);
    expect(slices.map((it) => `${it.metadata.namespace}/${it.metadata.name}`)).toEqual([
      "fleet-system/west-work-hello-abcde-12345",
    ]);
    expect(slices[0]?.metadata.labels).toMatchObject({ "kubernetes.io/service-name": "work-hello" });
    expect(theirs()).toEqual(before);
    expect(agents()).toEqual(["ServiceExportImportAgent"]);
  });
});

describe("Fairlead's MultiClusterServices together with an original manager of exports and imports", () => {
  it("request the import, and create the load balancer when the original manager has the hub's answer", async () => {
    local.seed(MULTI_CLUSTER_SERVICES, {
      metadata: { namespace: "work", name: "hello" },
      spec: { serviceImport: { name: "hello" } },
    });
    await start({ roles: new Set(["mcs"]), isNetworking: true });
    expect(local.objects(FLEET_SERVICE_IMPORTS)[0]?.metadata.ownerReferences).toMatchObject([
      { kind: "MultiClusterService", name: "hello", controller: true },
    ]);
    // The other manager's part: a finalizer, and the hub's answer.
    await local.mergePatch(FLEET_SERVICE_IMPORTS, hello, {
      metadata: { finalizers: ["networking.fleet.azure.com/serviceimport-cleanup"] },
    });
    const status = {
      type: "ClusterSetIP",
      ports: [{ port: 80, protocol: "TCP" }],
      clusters: [{ cluster: "west" }],
    };
    await local.mergePatch(FLEET_SERVICE_IMPORTS, hello, { status }, { subresource: "status" });
    await clock.advance(2000);
    const [derived] = local.objects(SERVICES);
    expect(derived?.metadata).toMatchObject({
      namespace: "fleet-system",
      labels: {
        "networking.fleet.azure.com/multi-cluster-service-name": "hello",
        "networking.fleet.azure.com/multi-cluster-service-namespace": "work",
      },
    });
    expect(derived?.spec?.type).toBe("LoadBalancer");
    const [object] = local.objects(MULTI_CLUSTER_SERVICES);
    expect(object?.metadata.labels).toMatchObject({
      "networking.fleet.azure.com/derived-service": derived?.metadata.name,
      "networking.fleet.azure.com/service-import": "hello",
    });
    // Where the other finds the Service to write slices for.
    expect(derived?.metadata.name).toBe("work-hello");
    expect(agents()).toEqual(["MultiClusterServiceAgent"]);
    expect(new Set(hub.writes.map((it) => it.resource))).toEqual(new Set(["internalmemberclusters"]));
  });
});

describe("a manager without networking", () => {
  it("reports to the hub, leaves on request, and reads nothing of its cluster", async () => {
    local.refuseReads = new FleetError("API_NOT_FOUND", "the kinds are not installed");
    await start({ roles: new Set(["member-net", "mcs"]), isNetworking: false });
    expect(agents()).toEqual(["MultiClusterServiceAgent", "ServiceExportImportAgent"]);
    await hub.mergePatch(INTERNAL_MEMBER_CLUSTERS, objectKey(MAILBOX, "east"), { spec: { state: "Leave" } });
    await clock.advance(1000);
    const [internalMember] = hub.objects(INTERNAL_MEMBER_CLUSTERS);
    expect(
      internalMember?.status?.agentStatus?.flatMap((it) =>
        it.conditions?.map((condition) => condition.reason),
      ),
    ).toEqual(["AgentLeft", "AgentLeft"]);
    expect([local.writes, local.reads]).toEqual([[], []]);
  });
});
