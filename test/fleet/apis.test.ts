import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { derivedServiceName } from "@fairlead/fleet/api/fairlead.dev/cluster-names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
  type ServiceImport,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  FLEET_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  exportBy,
  startFleet,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

const hello = objectKey("work", "hello");
let fleet: TestFleet;

beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b", "c"], leaseSeconds: 60 });
  await ensureNamespace(fleet.client("c"), "work");
  await deploy(fleet.client("a"), { addresses: ["10.1.0.1", "10.1.0.2"] });
  await deploy(fleet.client("b"), { addresses: ["10.2.0.1"] });
});
afterAll(() => fleet[Symbol.asyncDispose]());

const mcsSlices = (slices: readonly EndpointSlice[]): EndpointSlice[] =>
  slices.filter((it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === "hello");
const isReadyFromTwo = ({ status }: ServiceImport): boolean =>
  status?.clusters?.length === 2 && status.conditions?.[0]?.status === "True";
const fleetSlices = (slices: readonly EndpointSlice[]): EndpointSlice[] =>
  slices.filter((it) => it.metadata.namespace === "fleet-system");

describe("a service exported by one cluster through the fleet API and by another through the Multi-Cluster Services API", () => {
  it("is valid and without conflict through each API", async () => {
    await exportBy("fleet", fleet.client("a"));
    await exportBy("mcs", fleet.client("b"));
    const byFleet = await eventuallyOne(
      fleet.client("a"),
      FLEET_SERVICE_EXPORTS,
      hello,
      (it) => it.status?.conditions?.some((at) => at.type === "Conflict" && at.status === "False") === true,
    );
    expect(byFleet.status?.conditions).toMatchObject([
      { type: "Valid", status: "True", reason: "ServiceIsValid" },
      { type: "Conflict", status: "False", reason: "NoConflictFound" },
    ]);
    const byMcs = await eventuallyOne(
      fleet.client("b"),
      MCS_SERVICE_EXPORTS,
      hello,
      (it) => it.status?.conditions?.some((at) => at.type === "Conflict" && at.status === "False") === true,
    );
    expect(byMcs.status?.conditions).toMatchObject([
      { type: "Valid", status: "True", reason: "Valid" },
      { type: "Ready", status: "True", reason: "Exported" },
      { type: "Conflict", status: "False", reason: "NoConflicts" },
    ]);
  });

  it("is one ServiceImport on the hub, with both clusters", async () => {
    const imported = await eventuallyOne(
      fleet.client("hub"),
      FLEET_SERVICE_IMPORTS,
      hello,
      (it) => it.status?.clusters?.length === 2,
    );
    expect(imported.status).toEqual({
      type: "ClusterSetIP",
      ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
      clusters: [{ cluster: "a" }, { cluster: "b" }],
    });
  });

  it.each(["a", "b", "c"])("is a ServiceImport with a VIP of its own in cluster %s", async (name) => {
    const client = fleet.client(name);
    const imported = await eventuallyOne(client, MCS_SERVICE_IMPORTS, hello, isReadyFromTwo);
    const derived = derivedServiceName("work", "hello");
    const service = await client.get(SERVICES, objectKey("work", derived));
    const { clusterIPs, ipFamilies } = service.spec ?? {};
    expect(clusterIPs).not.toHaveLength(0);
    expect(imported.spec).toMatchObject({
      ips: clusterIPs,
      ipFamilies,
      ports: [{ name: "http", protocol: "TCP", port: 80 }],
    });
    expect(service.spec).not.toHaveProperty("selector");
    const slices = await eventually(
      client,
      ENDPOINT_SLICES,
      (all) => addressesOf(mcsSlices(all)).length === 3,
    );
    expect(addressesOf(mcsSlices(slices))).toEqual(["10.1.0.1", "10.1.0.2", "10.2.0.1"]);
    for (const slice of mcsSlices(slices)) {
      expect(slice.metadata.labels?.[SERVICE_NAME_LABEL]).toBe(derived);
      expect(slice.ports).toEqual([{ name: "http", protocol: "TCP", port: 8080 }]);
    }
  });

  it("is a LoadBalancer Service behind a MultiClusterService, until that is deleted", async () => {
    const client = fleet.client("c");
    await client.create(MULTI_CLUSTER_SERVICES, {
      metadata: { namespace: "work", name: "hello" },
      spec: { serviceImport: { name: "hello" } },
    });
    await eventuallyOne(
      client,
      MULTI_CLUSTER_SERVICES,
      hello,
      (it) => it.status?.conditions?.[0]?.reason === "FoundServiceImport",
    );
    const service = await eventuallyOne(client, SERVICES, objectKey("fleet-system", "work-hello"));
    expect(service.spec).toMatchObject({ type: "LoadBalancer", ports: [{ name: "http", port: 80 }] });
    const slices = await eventually(
      client,
      ENDPOINT_SLICES,
      (all) => addressesOf(fleetSlices(all)).length === 3,
    );
    for (const slice of fleetSlices(slices))
      expect(slice.metadata.labels?.[SERVICE_NAME_LABEL]).toBe("work-hello");
    const claimed = await eventuallyOne(fleet.client("hub"), FLEET_SERVICE_IMPORTS, hello);
    expect(claimed.metadata.annotations?.["networking.fleet.azure.com/service-in-use-by"]).toBe(
      '{"MemberClusters":{"fleet-member-c":"c"}}',
    );
    await client.delete(MULTI_CLUSTER_SERVICES, hello);
    await eventually(client, SERVICES, (all) => !all.some((it) => it.metadata.namespace === "fleet-system"));
    await eventually(client, ENDPOINT_SLICES, (all) => fleetSlices(all).length === 0);
    await eventuallyOne(
      fleet.client("hub"),
      FLEET_SERVICE_IMPORTS,
      hello,
      (it) => it.metadata.annotations?.["networking.fleet.azure.com/service-in-use-by"] === undefined,
    );
  });

  it("follows its endpoints, and is deleted with the last export", async () => {
    const b = fleet.client("b");
    await b.delete(ENDPOINT_SLICES, objectKey("work", "hello-abcde"));
    await eventually(fleet.client("c"), ENDPOINT_SLICES, (all) => addressesOf(mcsSlices(all)).length === 2);
    await b.delete(MCS_SERVICE_EXPORTS, hello);
    await fleet.client("a").delete(FLEET_SERVICE_EXPORTS, hello);
    for (const name of ["a", "b", "c"]) {
      await eventually(fleet.client(name), MCS_SERVICE_IMPORTS, (all) => all.length === 0);
      await eventually(fleet.client(name), ENDPOINT_SLICES, (all) => mcsSlices(all).length === 0);
      await eventually(
        fleet.client(name),
        SERVICES,
        (all) => !all.some((it) => it.metadata.name.startsWith("derived-")),
      );
    }
    await eventually(fleet.client("hub"), FLEET_SERVICE_IMPORTS, (all) => all.length === 0);
  });
});
