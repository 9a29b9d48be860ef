import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { VALIDATING_ADMISSION_POLICY_BINDINGS } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { EVENTS, NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { derivedServiceName } from "@fairlead/fleet/api/fairlead.dev/cluster-names.ts";
import { HUB_SECRET, VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { MAILBOX_POLICY_BINDINGS } from "@fairlead/fleet/authz/policies/policies.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
  MCS_SOURCE_CLUSTER_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceExport,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { fixedCredentials } from "@fairlead/kube/config/config.ts";
import { SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  exportBy,
  startFleet,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

let fleet: TestFleet;
let count = 0;
/** A separate namespace for each test. */
let namespace = "";
let key: ObjectKey;

beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b"] });
});
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(async () => {
  count += 1;
  namespace = `rules-${count}`;
  key = objectKey(namespace, "hello");
  for (const name of ["a", "b"]) await ensureNamespace(fleet.client(name), namespace);
});

const reported = (conditions: readonly Condition[] | undefined, type: string): string => {
  const found = conditions?.find((it) => it.type === type);
  return found === undefined ? "" : `${found.status} ${found.reason}`;
};
const untilMcs = (name: string, type: string, said: string) =>
  eventuallyOne(
    fleet.client(name),
    MCS_SERVICE_EXPORTS,
    key,
    (it) => reported(it.status?.conditions, type) === said,
  );
const untilFleet = (name: string, type: string, said: string) =>
  eventuallyOne(
    fleet.client(name),
    FLEET_SERVICE_EXPORTS,
    key,
    (it) => reported(it.status?.conditions, type) === said,
  );
const slicesFrom = (cluster: string) => (slices: readonly EndpointSlice[]) =>
  slices.filter(
    (it) =>
      it.metadata.namespace === namespace &&
      it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === "hello" &&
      it.metadata.labels[MCS_SOURCE_CLUSTER_LABEL] === cluster,
  );

/** The same service in both clusters. Of two exports of the same second, that of the cluster with the first name counts as older. */
async function exportBoth(portsOfA: number, b: { name: string; port: number }): Promise<void> {
  await deploy(fleet.client("a"), {
    namespace,
    addresses: ["10.1.0.1"],
    ports: [{ name: "tcp", port: portsOfA, targetPort: 42 }],
  });
  await deploy(fleet.client("b"), {
    namespace,
    addresses: ["10.2.0.1"],
    ports: [{ name: b.name, port: b.port, targetPort: 42 }],
  });
  const first = { metadata: { namespace, name: "hello" } };
  await fleet.client("a").create(MCS_SERVICE_EXPORTS, first);
  await fleet.client("b").create(MCS_SERVICE_EXPORTS, first);
}

describe("exports whose ports differ", () => {
  it("report the conflict in every cluster, and a port of the same name but another number gets no traffic", async () => {
    await exportBoth(42, { name: "tcp", port: 4242 });
    await untilMcs("a", "Conflict", "True PortConflict");
    await untilMcs("b", "Conflict", "True PortConflict");
    const imported = await eventuallyOne(
      fleet.client("b"),
      MCS_SERVICE_IMPORTS,
      key,
      (it) => it.status?.clusters?.length === 2,
    );
    expect(imported.spec?.ports).toEqual([{ name: "tcp", protocol: "TCP", port: 42 }]);
    for (const name of ["a", "b"]) {
      const slices = await eventually(
        fleet.client(name),
        ENDPOINT_SLICES,
        (all) => slicesFrom("a")(all).length === 1 && slicesFrom("b")(all).length === 0,
      );
      expect(addressesOf(slicesFrom("a")(slices))).toEqual(["10.1.0.1"]);
    }
  });

  it("form a union, in which each port leads to the clusters that have it", async () => {
    await exportBoth(42, { name: "tcp2", port: 4242 });
    await untilMcs("b", "Conflict", "True PortConflict");
    await eventuallyOne(fleet.client("a"), MCS_SERVICE_IMPORTS, key, (it) => it.spec?.ports.length === 2);
    const all = await eventually(
      fleet.client("a"),
      ENDPOINT_SLICES,
      (slices) => slicesFrom("a")(slices).length === 1 && slicesFrom("b")(slices).length === 1,
    );
    expect(slicesFrom("a")(all)[0]?.ports).toEqual([{ name: "tcp", protocol: "TCP", port: 42 }]);
    expect(slicesFrom("b")(all)[0]?.ports).toEqual([{ name: "tcp2", protocol: "TCP", port: 42 }]);
  });

  it("are separated by the fleet API: the newer one is not imported until its ports are the same", async () => {
    for (const [name, port] of [
      ["a", 80],
      ["b", 81],
    ] as const)
      await deploy(fleet.client(name), {
        namespace,
        addresses: [`10.${port}.0.1`],
        ports: [{ name: "http", port, targetPort: 8080 }],
      });
    await exportBy("fleet", fleet.client("a"), { namespace });
    await untilFleet("a", "Conflict", "False NoConflictFound");
    await exportBy("fleet", fleet.client("b"), { namespace });
    await untilFleet("b", "Conflict", "True ConflictFound");
    const hub = fleet.client("hub");
    await eventuallyOne(hub, FLEET_SERVICE_IMPORTS, key, (it) => it.status?.clusters?.length === 1);
    await fleet
      .client("b")
      .jsonPatch(SERVICES, key, [{ op: "replace", path: "/spec/ports/0/port", value: 80 }]);
    await untilFleet("b", "Conflict", "False NoConflictFound");
    await eventuallyOne(hub, FLEET_SERVICE_IMPORTS, key, (it) => it.status?.clusters?.length === 2);
  });
});

describe("an export", () => {
  it("without a Service, or with a Service without endpoints, reports the cause", async () => {
    await exportBy("fleet", fleet.client("a"), { namespace });
    await exportBy("mcs", fleet.client("a"), { namespace });
    await untilFleet("a", "Valid", "False ServiceNotFound");
    await untilMcs("a", "Valid", "False NoService");
    await fleet.client("a").create(SERVICES, {
      metadata: { namespace, name: "hello" },
      spec: { type: "ExternalName", externalName: "example.com" },
    });
    const byFleet = await untilFleet("a", "Valid", "False ServiceIneligible");
    expect(byFleet.status?.conditions?.map((it) => it.type)).toEqual(["Valid"]);
    await untilMcs("a", "Valid", "False InvalidServiceType");
    expect(await fleet.client("b").find(MCS_SERVICE_IMPORTS, key)).toBeUndefined();
  });

  it("through both APIs counts once", async () => {
    await deploy(fleet.client("a"), { namespace, addresses: ["10.1.0.1"] });
    await exportBy("fleet", fleet.client("a"), { namespace });
    await exportBy("mcs", fleet.client("a"), { namespace });
    await untilFleet("a", "Conflict", "False NoConflictFound");
    await untilMcs("a", "Conflict", "False NoConflicts");
    const hub = fleet.client("hub");
    const exports = (await hub.list(INTERNAL_SERVICE_EXPORTS)).items.filter(
      (it) => it.spec?.serviceReference.namespace === namespace,
    );
    expect(exports.map((it) => it.spec?.doors?.length)).toEqual([2]);
    await fleet.client("a").delete(FLEET_SERVICE_EXPORTS, key);
    await eventually(hub, INTERNAL_SERVICE_EXPORTS, (all) =>
      all.some((it) => it.spec?.serviceReference.namespace === namespace && it.spec.doors?.length === 1),
    );
    expect(await fleet.client("b").find(MCS_SERVICE_IMPORTS, key)).toBeDefined();
  });

  it("of a headless Service uses the Multi-Cluster Services API only, without a virtual address", async () => {
    await deploy(fleet.client("a"), { namespace, addresses: ["10.1.0.1"], headless: true });
    await exportBy("fleet", fleet.client("a"), { namespace });
    await untilFleet("a", "Valid", "False ServiceIneligible");
    await exportBy("mcs", fleet.client("a"), { namespace });
    const imported = await eventuallyOne(
      fleet.client("b"),
      MCS_SERVICE_IMPORTS,
      key,
      (it) => it.status?.conditions?.[0]?.status === "True",
    );
    expect(imported.spec).toMatchObject({ type: "Headless", ipFamilies: ["IPv4"] });
    expect(imported.spec?.ips).toBeUndefined();
    const slices = await eventually(
      fleet.client("b"),
      ENDPOINT_SLICES,
      (all) => slicesFrom("a")(all).length === 1,
    );
    expect(slicesFrom("a")(slices)[0]?.metadata.labels?.[SERVICE_NAME_LABEL]).toBeUndefined();
    const derived = objectKey(namespace, derivedServiceName(namespace, "hello"));
    expect(await fleet.client("b").find(SERVICES, derived)).toBeUndefined();
  });

  it("of weight 0 is withdrawn, and an invalid weight changes nothing", async () => {
    await deploy(fleet.client("a"), { namespace, addresses: ["10.1.0.1"] });
    await exportBy("fleet", fleet.client("a"), { namespace });
    await untilFleet("a", "Conflict", "False NoConflictFound");
    const weigh = (weight: string) =>
      fleet.client("a").mergePatch(FLEET_SERVICE_EXPORTS, key, {
        metadata: { annotations: { "networking.fleet.azure.com/weight": weight } },
      });
    await weigh("many");
    await untilFleet("a", "Valid", "False ServiceExportInvalidWeightAnnotation");
    expect(await fleet.client("hub").find(FLEET_SERVICE_IMPORTS, key)).toBeDefined();
    await weigh("0");
    const drained = await untilFleet("a", "Valid", "True ServiceIsValid");
    expect(drained.status?.conditions?.[0]?.message).toBe(
      `exported service ${namespace}/hello with 0 weight`,
    );
    await eventually(
      fleet.client("hub"),
      FLEET_SERVICE_IMPORTS,
      (all) => !all.some((it) => it.metadata.namespace === namespace),
    );
  });

  it("reaches a cluster as soon as that has the namespace", async () => {
    const late = `late-${count}`;
    await deploy(fleet.client("a"), { namespace: late, addresses: ["10.1.0.1"] });
    await exportBy("mcs", fleet.client("a"), { namespace: late });
    await eventuallyOne(fleet.client("a"), MCS_SERVICE_IMPORTS, objectKey(late, "hello"));
    expect(await fleet.client("b").find(MCS_SERVICE_IMPORTS, objectKey(late, "hello"))).toBeUndefined();
    await fleet.client("b").create(NAMESPACES, { metadata: { name: late } });
    await eventuallyOne(fleet.client("b"), MCS_SERVICE_IMPORTS, objectKey(late, "hello"));
  });
});

describe("what belongs to an import", () => {
  it("is recreated after a deletion, and restored after a change", async () => {
    await deploy(fleet.client("a"), { namespace, addresses: ["10.1.0.1"] });
    await exportBy("mcs", fleet.client("a"), { namespace });
    const b = fleet.client("b");
    const imported = await eventuallyOne(
      b,
      MCS_SERVICE_IMPORTS,
      key,
      (it) => it.status?.conditions?.[0]?.status === "True",
    );
    const [slice] = slicesFrom("a")(
      await eventually(b, ENDPOINT_SLICES, (all) => slicesFrom("a")(all).length === 1),
    );
    const derived = objectKey(namespace, derivedServiceName(namespace, "hello"));
    const service = await b.get(SERVICES, derived);
    await b.delete(SERVICES, derived);
    await eventuallyOne(b, SERVICES, derived, (it) => it.metadata.uid !== service.metadata.uid);
    await b.delete(ENDPOINT_SLICES, keyOf(slice!));
    await eventually(b, ENDPOINT_SLICES, (all) =>
      slicesFrom("a")(all).some((it) => it.metadata.uid !== slice!.metadata.uid),
    );
    await b.mergePatch(ENDPOINT_SLICES, keyOf(slice!), { endpoints: [] });
    await eventually(b, ENDPOINT_SLICES, (all) => addressesOf(slicesFrom("a")(all)).length === 1);
    await b.delete(MCS_SERVICE_IMPORTS, key);
    await eventuallyOne(
      b,
      MCS_SERVICE_IMPORTS,
      key,
      (it) => it.metadata.uid !== imported.metadata.uid && (it.spec?.ips?.length ?? 0) > 0,
    );
    const hub = fleet.client("hub");
    const copy = (await hub.list(ENDPOINT_SLICE_IMPORTS, { namespace: VIEW_NAMESPACE })).items.find(
      (it) => it.spec.ownerServiceReference.namespace === namespace,
    );
    await hub.delete(ENDPOINT_SLICE_IMPORTS, keyOf(copy!));
    await eventuallyOne(
      hub,
      ENDPOINT_SLICE_IMPORTS,
      keyOf(copy!),
      (it) => it.metadata.uid !== copy!.metadata.uid,
    );
  });
});

describe("MultiClusterServices of one service", () => {
  it("take turns: the second waits until the first releases its claim", async () => {
    await deploy(fleet.client("a"), { namespace, addresses: ["10.1.0.1"] });
    await exportBy("mcs", fleet.client("a"), { namespace });
    const object = { metadata: { namespace, name: "hello" }, spec: { serviceImport: { name: "hello" } } };
    const untilValid = (name: string, reason: string) =>
      eventuallyOne(
        fleet.client(name),
        MULTI_CLUSTER_SERVICES,
        key,
        (it) => it.status?.conditions?.[0]?.reason === reason,
      );
    await fleet.client("b").create(MULTI_CLUSTER_SERVICES, object);
    await untilValid("b", "FoundServiceImport");
    await fleet.client("a").create(MULTI_CLUSTER_SERVICES, object);
    await untilValid("a", "UnknownServiceImport");
    await fleet.client("b").delete(MULTI_CLUSTER_SERVICES, key);
    await untilValid("a", "FoundServiceImport");
    // Its own endpoints, read where they are: not by way of the hub.
    await eventually(
      fleet.client("a"),
      ENDPOINT_SLICES,
      (all) =>
        addressesOf(all.filter((it) => it.metadata.namespace === "fleet-system")).join() === "10.1.0.1",
    );
    await fleet.client("a").delete(MULTI_CLUSTER_SERVICES, key);
  });
});

describe("the hub trusts a member with its own mailbox only", () => {
  /** As on a server that knows no admission policies: what the controllers check by themselves. */
  beforeAll(async () => {
    for (const it of MAILBOX_POLICY_BINDINGS)
      await fleet.client("hub").delete(VALIDATING_ADMISSION_POLICY_BINDINGS, keyOf(it));
  });

  const forged = (from: string, address: string): EndpointSliceExport => ({
    metadata: { namespace: "fleet-member-b", name: `forged-${count}` },
    spec: {
      addressType: "IPv4",
      endpoints: [{ addresses: [address] }],
      ports: [{ name: "http", protocol: "TCP", port: 8080 }],
      endpointSliceReference: {
        clusterId: from,
        kind: "EndpointSlice",
        namespace,
        name: "hello-forged",
        namespacedName: `${namespace}/hello-forged`,
        resourceVersion: "1",
        generation: 1,
        uid: "u",
      },
      ownerServiceReference: { namespace, name: "hello", namespacedName: key },
    },
  });

  it.each([
    ["in the name of another cluster", "a", "10.9.0.1"],
    ["that lead back to the connecting client", "b", "127.0.0.1"],
  ])("and passes on no endpoints %s", async (_, from, address) => {
    await deploy(fleet.client("a"), { namespace, addresses: ["10.1.0.1"] });
    await deploy(fleet.client("b"), { namespace, addresses: ["10.2.0.1"] });
    await exportBy("mcs", fleet.client("a"), { namespace });
    await exportBy("mcs", fleet.client("b"), { namespace });
    const hub = fleet.client("hub");
    await eventuallyOne(hub, FLEET_SERVICE_IMPORTS, key, (it) => it.status?.clusters?.length === 2);
    // b's own agent would delete the forgery before the hub has processed it.
    const agent = fleet.agents.get("b")!;
    await agent.stop();
    await hub.create(ENDPOINT_SLICE_EXPORTS, forged(from, address));
    await eventually(hub, EVENTS, (all) =>
      all.some((it) => it.reason === "EndpointsRefused" && it.involvedObject.name === `forged-${count}`),
    );
    agent.start();
    const copies = (await hub.list(ENDPOINT_SLICE_IMPORTS)).items;
    expect(copies.filter((it) => it.metadata.name === `forged-${count}`)).toEqual([]);
  });

  it("and rejects its reads of other mailboxes and its writes to the hub's objects", async () => {
    const secret = await fleet.client("b").get(SECRETS, objectKey("fleet-system", HUB_SECRET));
    const field = (name: string): string => Buffer.from(secret.data?.[name] ?? "", "base64").toString();
    const credentials = fixedCredentials({ certificate: field("tls.crt"), key: field("tls.key") });
    await using asB = connect({ ...fleet.hub.config, credentials });
    const refused = async (what: Promise<unknown>): Promise<boolean> =>
      what.then(
        () => false,
        (error: unknown) => hasCode(error, "API_FORBIDDEN"),
      );
    expect(await refused(asB.list(INTERNAL_SERVICE_EXPORTS, { namespace: "fleet-member-b" }))).toBe(false);
    expect(await refused(asB.list(INTERNAL_SERVICE_EXPORTS, { namespace: "fleet-member-a" }))).toBe(true);
    expect(await refused(asB.list(FLEET_SERVICE_IMPORTS))).toBe(true);
    expect(await refused(asB.list(NAMESPACES))).toBe(true);
    const path = "/apis/fairlead.dev/v1alpha1/namespaces/fleet-member-b/importedservices";
    expect(await refused(asB.request("POST", path, {}))).toBe(true);
  });
});
