import { describe, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_CRDS, MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { MULTI_CLUSTER_SERVICES } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { startHub } from "@fairlead/fleet/hub/hub.ts";
import { startMember } from "@fairlead/fleet/member/member.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { addressesOf, deploy, exportBy, startCluster, testDeps } from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";

/** The shortest of the original's fixed waits. Unit: milliseconds. */
const SHORTEST_WAIT_MS = 2000;

describe("hub and member", () => {
  it("B4: wait for events, never for a time: with clocks that stop before the shortest wait, all changes arrive", async () => {
    await using hub = await startCluster("hub", []);
    await using east = await startCluster("east", []);
    const signal = AbortSignal.timeout(30_000);
    for (const [client, crds] of [
      [hub.client, HUB_CRDS],
      [east.client, MEMBER_CRDS],
    ] as const)
      await installCrds(client, { crds, fieldManager: "test" }, testDeps("test"), signal);
    const clock = new FakeClock(Date.now());
    // Conflicts of writers may cost some milliseconds; nothing else may.
    const moving = (async () => {
      for (let passedMs = 0; passedMs < SHORTEST_WAIT_MS / 2; passedMs += 5) {
        await clock.advance(5);
        await delay(systemClock, 5, signal);
      }
    })();
    await using _hub = await startHub(hub.client, {}, { ...testDeps("hub"), clock }, signal);
    await hub.client.create(MEMBER_CLUSTERS, {
      metadata: { name: "east" },
      spec: { identity: { kind: "User", name: "east" } },
    });
    await eventually(hub.client, NAMESPACES, (all) =>
      all.some((one) => one.metadata.name === "fleet-member-east"),
    );
    await using _east = await startMember(
      {
        cluster: "east",
        local: east.client,
        hub: hub.client,
        deps: { ...testDeps("east"), clock },
        probe: () => Promise.resolve("connected"),
      },
      signal,
    );
    // The importer is first: neither import, claim nor Service exists when it asks.
    await deploy(east.client, { addresses: ["10.1.0.1"] });
    await east.client.create(MULTI_CLUSTER_SERVICES, {
      metadata: { namespace: "work", name: "lb" },
      spec: { serviceImport: { name: "hello" } },
    });
    await moving;
    await exportBy("fleet", east.client);
    await eventually(east.client, ENDPOINT_SLICES, (all) => addressesOf(all).join() === "10.1.0.1", {
      namespace: "fleet-system",
    });
  }, 40_000);
});
