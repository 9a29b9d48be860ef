import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { INTERNAL_MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { addressesOf, deploy, exportBy } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { type HandMade, startHandMade } from "./by-hand.ts";
import { ORIGINAL_HUB_NET } from "./original-rights.ts";
import { ACCEPTED, said } from "./world.ts";

/** The original's own set-up: mailboxes by hand, no MemberClusters, and no right to read namespaces. */

const IN_EAST = { namespace: "fleet-member-east" };
let world: HandMade;
beforeAll(async () => {
  world = await startHandMade(ORIGINAL_HUB_NET, { isBesideOthers: true });
});
afterAll(() => world[Symbol.asyncDispose]());

const untilAccepted = (name: string) =>
  eventuallyOne(
    world.east.client,
    FLEET_SERVICE_EXPORTS,
    objectKey("work", name),
    (it) => said(it.status?.conditions).join() === ACCEPTED.join(),
  );

describe("a hub without permission to read namespaces", () => {
  it("treats a cluster whose agent fills its mailbox as a member, and imports from each member into all others", async () => {
    const { hub, east, west } = world;
    await deploy(east.client, { addresses: ["10.1.0.1"] });
    await exportBy("fleet", east.client);
    west.exports.set("work/hello", ["10.2.0.1"]);
    west.changed();
    await eventuallyOne(
      hub.client,
      FLEET_SERVICE_IMPORTS,
      objectKey("work", "hello"),
      (it) => it.status?.clusters?.length === 2,
    );
    await untilAccepted("hello");
    await east.client.create(MULTI_CLUSTER_SERVICES, {
      metadata: { namespace: "work", name: "lb" },
      spec: { serviceImport: { name: "hello" } },
    });
    const slices = await eventually(east.client, ENDPOINT_SLICES, (all) => all.length === 2, {
      namespace: "fleet-system",
    });
    expect(addressesOf(slices)).toEqual(["10.1.0.1", "10.2.0.1"]);
  });
});

describe("a member under the original names", () => {
  it.each(["Join", "Leave"] as const)(
    "continues as a member without an InternalMemberCluster when that is deleted, in state %s",
    async (state) => {
      const { hub, east } = world;
      const name = `after-${state.toLowerCase()}`;
      const internalMember = {
        metadata: { ...IN_EAST, name: "east" },
        spec: { state, heartbeatPeriodSeconds: 1 },
      };
      await hub.client.create(INTERNAL_MEMBER_CLUSTERS, internalMember);
      const key = objectKey(IN_EAST.namespace, "east");
      await eventuallyOne(
        hub.client,
        INTERNAL_MEMBER_CLUSTERS,
        key,
        (it) =>
          (it.status?.agentStatus ?? []).filter((agent) =>
            agent.conditions?.some((one) => one.reason === `Agent${state === "Join" ? "Joined" : "Left"}`),
          ).length === 2,
      );
      await hub.client.delete(INTERNAL_MEMBER_CLUSTERS, key);
      await deploy(east.client, { name, addresses: ["10.1.0.9"] });
      await exportBy("fleet", east.client, { name });
      await untilAccepted(name);
      await east.client.delete(FLEET_SERVICE_EXPORTS, objectKey("work", name));
      await eventually(
        hub.client,
        INTERNAL_SERVICE_EXPORTS,
        (all) => all.every((it) => it.metadata.name !== `work-${name}`),
        IN_EAST,
      );
    },
  );
});
