import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { FORCE_LEAVE_ANNOTATION, VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MCS_SERVICE_NAME_LABEL } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
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
  exportBy,
  PATIENCE_MS,
  Restartable,
  sliceOf,
  startFleet,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { OriginalMember } from "./original-member.ts";

/** Our hub, a Fairlead member, and a legacy one. */

let fleet: TestFleet;
let old: OriginalMember;
let oldAgent: Restartable;
const SERVICE = "work/hello";
const hello = objectKey("work", "hello");
const hub = () => fleet.client("hub");
const OLD = { namespace: "fleet-member-old" };

beforeAll(async () => {
  fleet = await startFleet({ members: ["ours"] });
  await hub().create(MEMBER_CLUSTERS, {
    metadata: { name: "old" },
    spec: { identity: { kind: "User", name: "old", apiGroup: "rbac.authorization.k8s.io" } },
  });
  await eventuallyOne(hub(), INTERNAL_MEMBER_CLUSTERS, objectKey(OLD.namespace, "old"));
  old = new OriginalMember(hub(), "old");
  oldAgent = new Restartable((signal) => old.run(signal));
  oldAgent.start();
});
afterAll(async () => {
  await oldAgent.stop();
  await fleet[Symbol.asyncDispose]();
});

const imported = (slices: readonly EndpointSlice[]): string[] =>
  addressesOf(slices.filter((it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === "hello"));
const untilOurs = (addresses: readonly string[]) =>
  eventually(fleet.client("ours"), ENDPOINT_SLICES, (all) => imported(all).join() === addresses.join());
/** The copies in the old member's mailbox, once it has imported them as they are. */
const untilOld = (addresses: readonly string[]) =>
  eventually(
    hub(),
    ENDPOINT_SLICE_IMPORTS,
    (all) =>
      [...old.imported.values()].flat().toSorted().join() === addresses.join() &&
      all.every(
        (it) =>
          it.metadata.annotations?.["networking.fleet.azure.com/last-observed-generation"] ===
          String(it.metadata.generation),
      ),
    OLD,
  );

describe("a legacy member at our hub", () => {
  it("joins, and its InternalMemberCluster names no view", async () => {
    const joined = await eventuallyOne(
      hub(),
      MEMBER_CLUSTERS,
      objectKey(undefined, "old"),
      (it) => it.status?.conditions?.some((one) => one.type === "Joined" && one.status === "True") === true,
    );
    expect(joined.status?.agentStatus).toHaveLength(2);
    const internalMember = await hub().get(INTERNAL_MEMBER_CLUSTERS, objectKey(OLD.namespace, "old"));
    expect(internalMember.spec.view).toBeUndefined();
  });

  it("exports to Fairlead members, whatever random name its slice has", async () => {
    old.exports.set(SERVICE, ["10.2.0.1"]);
    old.changed();
    await deploy(fleet.client("ours"), { addresses: ["10.1.0.1"] });
    await untilOurs(["10.2.0.1"]);
    old.exports.set(SERVICE, ["10.2.0.1", "10.2.0.2"]);
    old.changed();
    await untilOurs(["10.2.0.1", "10.2.0.2"]);
  });

  it("imports what it claims, its own endpoints included: ready IPv4 addresses only", async () => {
    await exportBy("fleet", fleet.client("ours"));
    await fleet.client("ours").mergePatch(ENDPOINT_SLICES, objectKey("work", "hello-abcde"), {
      endpoints: [
        { addresses: ["10.1.0.1"], conditions: { ready: true }, zone: "z" },
        { addresses: ["10.1.0.2"], conditions: { ready: false } },
      ],
    });
    old.wanted.add(SERVICE);
    old.changed();
    await untilOld(["10.1.0.1", "10.2.0.1", "10.2.0.2"]);
    const { items } = await hub().list(ENDPOINT_SLICE_IMPORTS, OLD);
    for (const { spec } of items)
      for (const it of spec.endpoints) expect(Object.keys(it)).toEqual(["addresses"]);
    const service = await hub().get(FLEET_SERVICE_IMPORTS, hello);
    expect(service.status).toEqual({
      type: "ClusterSetIP",
      clusters: [{ cluster: "old" }, { cluster: "ours" }],
      ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
    });
    expect(
      JSON.parse(service.metadata.annotations?.["networking.fleet.azure.com/service-in-use-by"] ?? ""),
    ).toEqual({
      MemberClusters: { "fleet-member-old": "old" },
    });
    const asked = await hub().get(INTERNAL_SERVICE_IMPORTS, objectKey(OLD.namespace, "work-hello"));
    expect(asked.status).toEqual(service.status);
    expect(asked.metadata.finalizers).toEqual(["networking.fleet.azure.com/internalsvcimport-cleanup"]);
  });

  it("is not reverted: its finalizer and annotations stay, and a change costs one write of the hub", async () => {
    const copy = (all: readonly { metadata: { name: string } }[]) =>
      all.find((it) => it.metadata.name.startsWith("ours-"));
    const before = (await hub().list(ENDPOINT_SLICE_IMPORTS, OLD)).items;
    const written: string[] = [];
    const stop = new AbortController();
    const { metadata } = await hub().list(ENDPOINT_SLICE_IMPORTS, OLD);
    const watching = (async () => {
      const options = { ...OLD, resourceVersion: metadata.resourceVersion };
      for await (const event of hub().watch(ENDPOINT_SLICE_IMPORTS, options, stop.signal))
        if (event.type !== "BOOKMARK") written.push(event.type);
    })().catch(() => {});
    await fleet.client("ours").mergePatch(ENDPOINT_SLICES, objectKey("work", "hello-abcde"), {
      endpoints: sliceOf({ addresses: ["10.1.0.3"] }).endpoints,
    });
    await untilOld(["10.1.0.3", "10.2.0.1", "10.2.0.2"]);
    // A later change arrives after everything that the first change caused.
    await fleet.client("ours").mergePatch(ENDPOINT_SLICES, objectKey("work", "hello-abcde"), {
      endpoints: sliceOf({ addresses: ["10.1.0.4"] }).endpoints,
    });
    await untilOld(["10.1.0.4", "10.2.0.1", "10.2.0.2"]);
    // This watch may receive it a moment later than the one that waited above.
    await vi.waitFor(() => expect(written.length).toBeGreaterThanOrEqual(4), { timeout: PATIENCE_MS });
    stop.abort();
    await watching;
    // Twice: the hub's copy, and the member's annotation.
    expect(written).toEqual(["MODIFIED", "MODIFIED", "MODIFIED", "MODIFIED"]);
    const after = copy((await hub().list(ENDPOINT_SLICE_IMPORTS, OLD)).items);
    expect(after).toMatchObject({
      metadata: {
        name: copy(before)?.metadata.name,
        finalizers: ["networking.fleet.azure.com/endpointsliceimport-cleanup"],
      },
    });
  });

  it("keeps what it imported until it removes its finalizer, although it is down during the withdrawal", async () => {
    await oldAgent.stop();
    await fleet.client("ours").delete(FLEET_SERVICE_EXPORTS, hello);
    await eventually(
      hub(),
      ENDPOINT_SLICE_IMPORTS,
      (all) =>
        all.some((it) => it.metadata.name.startsWith("ours-") && it.metadata.deletionTimestamp !== undefined),
      OLD,
    );
    // In the meantime the cluster exports again: the new copy waits for the old one's end.
    await exportBy("fleet", fleet.client("ours"));
    await eventually(hub(), ENDPOINT_SLICE_IMPORTS, (all) => all.length === 2, { namespace: VIEW_NAMESPACE });
    oldAgent.start();
    await untilOld(["10.1.0.4", "10.2.0.1", "10.2.0.2"]);
  });

  it("is the only importer until it releases its claim; then the next in line takes over", async () => {
    await fleet.client("ours").create(MULTI_CLUSTER_SERVICES, {
      metadata: { namespace: "work", name: "lb" },
      spec: { serviceImport: { name: "hello" } },
    });
    const untilReported = (reason: string) =>
      eventuallyOne(
        fleet.client("ours"),
        MULTI_CLUSTER_SERVICES,
        objectKey("work", "lb"),
        (it) => it.status?.conditions?.find((one) => one.type === "Valid")?.reason === reason,
      );
    await untilReported("UnknownServiceImport");
    old.wanted.delete(SERVICE);
    old.changed();
    await untilReported("FoundServiceImport");
    await eventually(hub(), ENDPOINT_SLICE_IMPORTS, (all) => all.length === 0, OLD);
    expect(old.imported.size).toBe(0);
    await fleet.client("ours").delete(MULTI_CLUSTER_SERVICES, objectKey("work", "lb"));
    old.wanted.add(SERVICE);
    old.changed();
    await untilOld(["10.1.0.4", "10.2.0.1", "10.2.0.2"]);
  });

  it("receives no endpoints of a drained cluster once it has those of another, and receives them again if no other is ready", async () => {
    const drain = (text: string | null) =>
      hub().mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "ours"), {
        metadata: { annotations: { "fairlead.dev/drain": text } },
      });
    const setOwn = (addresses: readonly string[]) => {
      old.exports.set(SERVICE, addresses);
      old.changed();
    };
    await drain("true");
    await untilOld(["10.2.0.1", "10.2.0.2"]);
    setOwn([]);
    await untilOld(["10.1.0.4"]);
    setOwn(["10.2.0.1", "10.2.0.2"]);
    await untilOld(["10.2.0.1", "10.2.0.2"]);
    await drain(null);
    await untilOld(["10.1.0.4", "10.2.0.1", "10.2.0.2"]);
  });

  it("receives endpoints of clusters with a later priority only while the first one has no ready endpoint", async () => {
    const prefer = (priority: string | null) =>
      fleet.client("ours").mergePatch(FLEET_SERVICE_EXPORTS, hello, {
        metadata: { annotations: { "fairlead.dev/priority": priority } },
      });
    const setReady = (ready: boolean) =>
      fleet.client("ours").mergePatch(ENDPOINT_SLICES, objectKey("work", "hello-abcde"), {
        endpoints: [{ addresses: ["10.1.0.4"], conditions: { ready } }],
      });
    await prefer("1");
    await untilOld(["10.2.0.1", "10.2.0.2"]);
    await setReady(false);
    await prefer(null);
    await untilOld(["10.2.0.1", "10.2.0.2"]);
    await setReady(true);
    await untilOld(["10.1.0.4", "10.2.0.1", "10.2.0.2"]);
  });

  it("withdraws its exports: neither the hub nor the importers keep anything of them", async () => {
    old.exports.delete(SERVICE);
    old.changed();
    await untilOurs(["10.1.0.4"]);
    await eventually(hub(), INTERNAL_SERVICE_EXPORTS, (all) => all.length === 0, OLD);
    await untilOld(["10.1.0.4"]);
  });

  it("is removed by force though its finalizers are left behind", async () => {
    await oldAgent.stop();
    await hub().mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "old"), {
      metadata: { annotations: { [FORCE_LEAVE_ANNOTATION]: "true" } },
    });
    await hub().delete(MEMBER_CLUSTERS, objectKey(undefined, "old"));
    await eventually(hub(), MEMBER_CLUSTERS, (all) => !all.some((it) => it.metadata.name === "old"));
    await eventually(hub(), NAMESPACES, (all) => !all.some((it) => it.metadata.name === OLD.namespace));
    const service = await hub().get(FLEET_SERVICE_IMPORTS, hello);
    expect(service.metadata.annotations?.["networking.fleet.azure.com/service-in-use-by"]).toBeUndefined();
  });
});
