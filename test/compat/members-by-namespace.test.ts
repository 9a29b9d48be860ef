import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  VALIDATING_ADMISSION_POLICIES,
  type ValidatingAdmissionPolicy,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { HUB_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { IMPORTED_SERVICES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  ENDPOINT_SLICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { addressesOf, deploy, exportBy, Restartable, type TestCluster } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { type HandMade, startHandMade } from "./by-hand.ts";
import { OriginalMember } from "./original-member.ts";

/** A hub whose administrator created mailboxes and permissions by hand, and nothing else: it has no MemberClusters. */

const hello = objectKey("work", "hello");
let world: HandMade;
let hub: TestCluster;
let east: TestCluster;
let west: OriginalMember;

beforeAll(async () => {
  world = await startHandMade(HUB_ACCESS);
  ({ hub, east, west } = world);
  // A hub that serves TrafficManagerProfiles keeps its routes there.
  await hub.client.create(NAMESPACES, { metadata: { name: VIEW_NAMESPACE } });
});
afterAll(() => world[Symbol.asyncDispose]());

describe("a hub whose members are the namespaces of their mailboxes", () => {
  it("imports from them into each other, without a MemberCluster", async () => {
    await deploy(east.client, { addresses: ["10.1.0.1"] });
    await exportBy("fleet", east.client);
    west.exports.set("work/hello", ["10.2.0.1"]);
    west.changed();
    const service = await eventuallyOne(
      hub.client,
      FLEET_SERVICE_IMPORTS,
      hello,
      (it) => it.status?.clusters?.length === 2,
    );
    expect(service.status?.clusters?.map((it) => it.cluster)).toEqual(["east", "west"]);
    await east.client.create(MULTI_CLUSTER_SERVICES, {
      metadata: { namespace: "work", name: "lb" },
      spec: { serviceImport: { name: "hello" } },
    });
    const slices = await eventually(east.client, ENDPOINT_SLICES, (all) => all.length === 2, {
      namespace: "fleet-system",
    });
    expect(addressesOf(slices)).toEqual(["10.1.0.1", "10.2.0.1"]);
    expect((await hub.client.list(MEMBER_CLUSTERS)).items).toEqual([]);
  });

  it("writes a change of endpoints once, to the mailbox of its importer: no member reads the view", async () => {
    const written = (): number => hub.asked.writes("endpointsliceimports");
    const change = async (address: string): Promise<void> => {
      west.exports.set("work/hello", [address]);
      west.changed();
      await eventually(east.client, ENDPOINT_SLICES, (all) => addressesOf(all).includes(address), {
        namespace: "fleet-system",
      });
    };
    // The first one passes all queues, so that nothing of the creation is left in them.
    await change("10.2.0.2");
    const before = written();
    for (const address of ["10.2.0.3", "10.2.0.4", "10.2.0.1"]) await change(address);
    expect(written() - before).toBe(3);
    expect((await hub.client.list(ENDPOINT_SLICE_IMPORTS, { namespace: VIEW_NAMESPACE })).items).toEqual([]);
    expect((await hub.client.list(IMPORTED_SERVICES, { namespace: VIEW_NAMESPACE })).items).toEqual([]);
  });

  it("does not treat a cluster as a member while its MemberCluster or its mailbox is being deleted", async () => {
    await hub.client.create(NAMESPACES, { metadata: { name: "fleet-member-north" } });
    const north = new OriginalMember(hub.client, "north");
    await using agent = new Restartable((stopping) => north.run(stopping));
    agent.start();
    north.exports.set("work/hello", ["10.3.0.1"]);
    north.changed();
    const reported = (count: number) =>
      eventuallyOne(hub.client, FLEET_SERVICE_IMPORTS, hello, (it) => it.status?.clusters?.length === count);
    await reported(3);
    await agent.stop();
    const asked = await hub.client.list(INTERNAL_SERVICE_EXPORTS, { namespace: "fleet-member-north" });
    expect(asked.items).toHaveLength(1);
    // Held by a finalizer, so that the content of the mailbox stays visible while the namespace ends.
    await hub.client.mergePatch(
      INTERNAL_SERVICE_EXPORTS,
      objectKey("fleet-member-north", asked.items[0]?.metadata.name ?? ""),
      { metadata: { finalizers: ["test/held"] } },
    );
    await hub.client.delete(NAMESPACES, objectKey(undefined, "fleet-member-north"));
    await reported(2);
    await eventually(
      east.client,
      ENDPOINT_SLICES,
      (all) => !addressesOf(all).includes("10.3.0.1") && all.length === 2,
      { namespace: "fleet-system" },
    );
  });

  it("installs no policies, because they would find no owner of a mailbox", async () => {
    const { items } = await hub.client.list<ValidatingAdmissionPolicy>(VALIDATING_ADMISSION_POLICIES);
    expect(items).toEqual([]);
    expect(hub.asked.refused()).toEqual([]);
  });

  it("notices the deletion of a MultiClusterService, although no garbage collector runs", async () => {
    const key = objectKey("work", "left");
    await east.client.create(FLEET_SERVICE_IMPORTS, {
      metadata: {
        namespace: "work",
        name: "left",
        ownerReferences: [
          {
            apiVersion: "networking.fleet.azure.com/v1alpha1",
            kind: "MultiClusterService",
            name: "gone",
            uid: "a-uid-that-nothing-has",
            controller: true,
          },
        ],
      },
    });
    await eventually(east.client, FLEET_SERVICE_IMPORTS, (all) =>
      all.every((it) => it.metadata.name !== "left"),
    );
    await eventually(hub.client, INTERNAL_SERVICE_IMPORTS, (all) => all.length === 1, {
      namespace: "fleet-member-east",
    });
    expect(await east.client.find(FLEET_SERVICE_IMPORTS, key)).toBeUndefined();
  });
});
