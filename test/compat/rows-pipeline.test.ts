import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { EVENTS, NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { GRANTED_CIDRS_ANNOTATION, namespaceOfRun } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
  type ServiceImport,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  exportBy,
  sliceOf,
  startFleet,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** Faults of the original pipeline that this one must not have, on real servers: an exporter, and two importers. */

let fleet: TestFleet;
const hub = () => fleet.client("hub");
const slice = objectKey("work", "hello-abcde");
const hello = objectKey("work", "hello");
const imported = (slices: readonly EndpointSlice[]): string[] =>
  addressesOf(slices.filter((it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === "hello"));
const untilImported = (name: string, addresses: readonly string[]) =>
  eventually(fleet.client(name), ENDPOINT_SLICES, (all) => imported(all).join() === addresses.join());
const endpoints = (addresses: readonly string[]) => ({ endpoints: sliceOf({ addresses }).endpoints });

beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b", "c"] });
  for (const name of ["b", "c"]) await ensureNamespace(fleet.client(name), "work");
  await deploy(fleet.client("a"), { addresses: ["10.1.0.1"] });
  await exportBy("fleet", fleet.client("a"));
  await Promise.all(["b", "c"].map((name) => untilImported(name, ["10.1.0.1"])));
  // Their last write: the cases count those that follow.
  const isReady = (it: ServiceImport): boolean =>
    it.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true;
  for (const name of ["b", "c"]) await eventuallyOne(fleet.client(name), MCS_SERVICE_IMPORTS, hello, isReady);
});
afterAll(() => fleet[Symbol.asyncDispose]());

const ON_HUB = [
  NAMESPACES,
  NAMESPACE_REPORTS,
  IMPORTED_SERVICES,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
] as readonly Resource[];
const IN_MEMBERS = [
  NAMESPACES,
  SERVICES,
  ENDPOINT_SLICES,
  MCS_SERVICE_IMPORTS,
  FLEET_SERVICE_EXPORTS,
  FLEET_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
] as readonly Resource[];

/** Every object of these kinds in its version, by kind and key. */
async function versions(name: string, kinds: readonly Resource[]): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const kind of kinds)
    for (const it of (await fleet.client(name).list(kind)).items)
      found.set(`${kind.kind} ${keyOf(it)}`, `${it.metadata.uid} ${it.metadata.resourceVersion}`);
  return found;
}
const changed = (before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): string[] =>
  [...new Set([...before.keys(), ...after.keys()])]
    .filter((key) => before.get(key) !== after.get(key))
    .map((key) => key.split(" ")[0] ?? "")
    .toSorted();

describe("an endpoint change", () => {
  it("B2: costs two writes on the hub and one in each importer, for any number of importers", async () => {
    const names = ["b", "c"];
    const before = await Promise.all([
      versions("hub", ON_HUB),
      ...names.map((it) => versions(it, IN_MEMBERS)),
    ]);
    await fleet.client("a").mergePatch(ENDPOINT_SLICES, slice, endpoints(["10.1.0.2"]));
    await Promise.all(names.map((name) => untilImported(name, ["10.1.0.2"])));
    const after = await Promise.all([
      versions("hub", ON_HUB),
      ...names.map((it) => versions(it, IN_MEMBERS)),
    ]);
    expect(after.map((it, at) => changed(before[at] ?? new Map(), it))).toEqual([
      ["EndpointSliceExport", "EndpointSliceImport"],
      ["EndpointSlice"],
      ["EndpointSlice"],
    ]);
    const generations = (all: readonly KubeObject[]) => all.map((it) => it.metadata.generation ?? 0);
    // Once each: generations count the writes that changed something.
    const own = (await hub().list(ENDPOINT_SLICE_EXPORTS)).items;
    const view = (await hub().list(ENDPOINT_SLICE_IMPORTS)).items;
    expect(generations(own)).toEqual([2]);
    expect(generations(view)).toEqual([2]);
  });

  it("B3: writes nothing to the objects of the user's Service", async () => {
    const of = async () =>
      [await fleet.client("a").get(SERVICES, hello), await fleet.client("a").get(ENDPOINT_SLICES, slice)].map(
        (it) => [
          it.metadata.annotations,
          it.metadata.finalizers,
          it.metadata.managedFields?.map((one) => one.manager),
        ],
      );
    const [service, endpointSlice] = await of();
    for (const [annotations, finalizers, managers] of [service ?? [], endpointSlice ?? []]) {
      expect([annotations, finalizers]).toEqual([undefined, undefined]);
      expect(managers).not.toContain("fairlead-member");
    }
  });
});

describe("a deleted EndpointSlice", () => {
  it("A1: is withdrawn from every importer by that event", async () => {
    await fleet.client("a").delete(ENDPOINT_SLICES, slice);
    await Promise.all(["b", "c"].map((name) => untilImported(name, [])));
    expect((await hub().list(ENDPOINT_SLICE_EXPORTS)).items).toEqual([]);
    await fleet.client("a").create(ENDPOINT_SLICES, sliceOf({ addresses: ["10.1.0.3"] }));
    await Promise.all(["b", "c"].map((name) => untilImported(name, ["10.1.0.3"])));
  });

  it("A1: is withdrawn by the first reconcile of a restarted agent, after one list", async () => {
    const agent = fleet.agents.get("a")!;
    await agent.stop();
    await fleet.client("a").delete(ENDPOINT_SLICES, slice);
    await fleet.client("a").create(ENDPOINT_SLICES, sliceOf({ addresses: ["10.1.0.4"], suffix: "later" }));
    agent.start();
    await Promise.all(["b", "c"].map((name) => untilImported(name, ["10.1.0.4"])));
    await fleet.client("a").delete(ENDPOINT_SLICES, objectKey("work", "hello-later"));
    await fleet.client("a").create(ENDPOINT_SLICES, sliceOf({ addresses: ["10.1.0.1"] }));
    await Promise.all(["b", "c"].map((name) => untilImported(name, ["10.1.0.1"])));
  });
});

describe("a member's statements about other members", () => {
  it("A9: is rejected: endpoints and exports in another member's name", async () => {
    const [sent] = (await hub().list(ENDPOINT_SLICE_EXPORTS)).items;
    const [exported] = (await hub().list(INTERNAL_SERVICE_EXPORTS)).items;
    const metadata = { namespace: "fleet-member-b", name: "forged" };
    const forged = [
      () => hub().create(ENDPOINT_SLICE_EXPORTS, { metadata, spec: sent!.spec }),
      () => hub().create(INTERNAL_SERVICE_EXPORTS, { metadata, spec: exported!.spec! }),
    ];
    for (const create of forged) await expect(create()).rejects.toThrow("ValidatingAdmissionPolicy");
    await fleet.client("a").mergePatch(ENDPOINT_SLICES, slice, endpoints(["10.1.0.5"]));
    await Promise.all(["b", "c"].map((name) => untilImported(name, ["10.1.0.5"])));
  });

  it("A9: is bounded by the networks that the member was granted, from the time of the grant", async () => {
    const grant = (granted: string | null) =>
      hub().mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "a"), {
        metadata: { annotations: { [GRANTED_CIDRS_ANNOTATION]: granted } },
      });
    await grant("10.9.0.0/16");
    await Promise.all(["b", "c"].map((name) => untilImported(name, [])));
    await eventually(hub(), EVENTS, (all) =>
      all.some(
        (it) =>
          it.reason === "EndpointsRefused" &&
          it.message?.includes("10.1.0.5 is not in the granted CIDRs") === true,
      ),
    );
    await grant("10.1.0.0/16,10.9.0.0/16");
    await Promise.all(["b", "c"].map((name) => untilImported(name, ["10.1.0.5"])));
    await grant(null);
  });
});

describe("services and namespaces that are created late", () => {
  it("A13: a namespace that the hub does not have is created, and an event reports it", async () => {
    expect(await hub().find(NAMESPACES, objectKey(undefined, "fresh"))).toBeUndefined();
    await deploy(fleet.client("a"), { namespace: "fresh", addresses: ["10.1.0.9"] });
    await exportBy("fleet", fleet.client("a"), { namespace: "fresh" });
    await eventuallyOne(
      fleet.client("a"),
      FLEET_SERVICE_EXPORTS,
      objectKey("fresh", "hello"),
      (it) => it.status?.conditions?.some((one) => one.reason === "NoConflictFound") === true,
    );
    await eventually(hub(), EVENTS, (all) => all.some((it) => it.reason === "NamespaceCreated"));
  });

  it("a namespace that the hub made for a run of verify is deleted with the run; those of other services stay", async () => {
    const run = namespaceOfRun("0a1b2c3d");
    const names = [run, "fairlead-verify-ours"];
    const areThere = (count: number) =>
      eventually(
        hub(),
        NAMESPACES,
        (all) => all.filter(({ metadata }) => names.includes(metadata.name)).length === count,
      );
    for (const namespace of names) {
      await deploy(fleet.client("a"), { namespace, addresses: ["10.1.0.8"] });
      await exportBy("mcs", fleet.client("a"), { namespace });
    }
    await eventually(hub(), FLEET_SERVICE_IMPORTS, (all) =>
      names.every((it) =>
        all.some(({ metadata, status }) => metadata.namespace === it && status?.clusters?.length === 1),
      ),
    );
    await areThere(2);
    for (const namespace of names)
      await fleet.client("a").delete(MCS_SERVICE_EXPORTS, objectKey(namespace, "hello"));
    await eventually(
      hub(),
      FLEET_SERVICE_IMPORTS,
      (all) => !all.some(({ metadata }) => names.includes(metadata.namespace ?? "")),
    );
    await areThere(1);
    expect(await hub().find(NAMESPACES, objectKey(undefined, run))).toBeUndefined();
  });

  it("A11: an import without a Service gets its endpoints when that is created, and again after its deletion", async () => {
    const b = fleet.client("b");
    await eventually(b, ENDPOINT_SLICES, (all) => all.length === 0, { namespace: "fleet-system" });
    await b.create(MULTI_CLUSTER_SERVICES, {
      metadata: { namespace: "work", name: "lb" },
      spec: { serviceImport: { name: "hello" } },
    });
    const inFleetSystem = { namespace: "fleet-system" };
    const [first] = await eventually(
      b,
      ENDPOINT_SLICES,
      (all) => addressesOf(all).join() === "10.1.0.5",
      inFleetSystem,
    );
    const [service] = await eventually(b, SERVICES, (all) => all.length === 1, inFleetSystem);
    await b.delete(SERVICES, keyOf(service!));
    await b.delete(ENDPOINT_SLICES, keyOf(first!));
    await eventually(
      b,
      SERVICES,
      (all) => all.some((it) => it.metadata.uid !== service!.metadata.uid),
      inFleetSystem,
    );
    await eventually(
      b,
      ENDPOINT_SLICES,
      (all) =>
        all.some((it) => it.metadata.uid !== first!.metadata.uid && addressesOf([it]).join() === "10.1.0.5"),
      inFleetSystem,
    );
    await b.delete(MULTI_CLUSTER_SERVICES, objectKey("work", "lb"));
    await eventually(b, ENDPOINT_SLICES, (all) => all.length === 0, inFleetSystem);
  });
});

describe("an importer that exports too", () => {
  it("B6: follows its own endpoints while the hub is down, and keeps those of others", async () => {
    await deploy(fleet.client("c"), { addresses: ["10.3.0.1"] });
    await exportBy("mcs", fleet.client("c"));
    await untilImported("c", ["10.1.0.5", "10.3.0.1"]);
    await fleet.hubProgram.stop();
    await fleet.hub.server.close();
    await fleet.client("c").mergePatch(ENDPOINT_SLICES, slice, endpoints(["10.3.0.2", "10.3.0.3"]));
    await untilImported("c", ["10.1.0.5", "10.3.0.2", "10.3.0.3"]);
  });
});
