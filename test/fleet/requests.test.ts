import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { MULTI_CLUSTER_SERVICES } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { AccessLog } from "../support/access.ts";
import {
  deploy,
  ensureNamespace,
  exportBy,
  type Restartable,
  sliceOf,
  startFleet,
  type TestFleet,
} from "../support/fleet.ts";
import { watchSight } from "../support/sight.ts";

/** What hub and member have asked their API servers for, as the audit logs have it. */

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b"], placement: true });
});
afterAll(() => fleet[Symbol.asyncDispose]());

/** Starts a program again, and waits until it has opened its watches. Returns what it has asked for until then. */
async function restarted(program: Restartable | undefined, log: AccessLog | undefined, watches: number) {
  if (program === undefined || log === undefined) throw new Error("the fleet lacks a program");
  await program.stop();
  const before = log.counts();
  program.start();
  await expect.poll(() => log.counts().watches - before.watches).toBeGreaterThanOrEqual(watches);
  const after = log.counts();
  return {
    reads: after.reads - before.reads,
    watches: after.watches - before.watches,
    definitions: after.definitions - before.definitions,
  };
}

/** Objects that a program works on change in the meantime, and a watch may have to be opened again. */
const SLACK = 5;

describe("on a fleet that is as it was", () => {
  it("a hub that starts reads all definitions at once, watches of placements and updates only what users make, and writes no definition or policy", async () => {
    const watches = 36;
    const asked = await restarted(fleet.hubProgram, fleet.hub.asked, watches);
    // The definitions, policies and their bindings, the webhooks of KubeFleet, and one look at each of 4 kinds for what is left.
    expect(asked.reads).toBeLessThanOrEqual(1 + 4 + 4 + SLACK);
    expect(asked.watches).toBeLessThanOrEqual(watches + SLACK);
    expect(asked.definitions).toBe(0);
  });

  it("a member that starts watches 17 kinds of its cluster and 14 of the hub", async () => {
    const [local, remote] = [17, 14];
    const before = fleet.hub.asked.counts().watches;
    const asked = await restarted(fleet.agents.get("a"), fleet.members.get("a")?.asked, local);
    await expect.poll(() => fleet.hub.asked.counts().watches - before).toBeGreaterThanOrEqual(remote);
    // Twice: it waits for the kinds of placements apart from the others.
    expect(asked.reads).toBeLessThanOrEqual(2 * MEMBER_CRDS.length + 10 + SLACK);
    expect(asked.watches).toBeLessThanOrEqual(local + SLACK);
    expect(asked.definitions).toBe(0);
    expect(fleet.hub.asked.counts().watches - before).toBeLessThanOrEqual(remote + SLACK);
  });
});

describe("a change of endpoints", () => {
  it("is written once by the exporter, once by the hub, and once by the importer for each of its Services", async () => {
    await deploy(fleet.client("a"), { addresses: ["10.1.0.0"] });
    await exportBy("mcs", fleet.client("a"));
    await exportBy("fleet", fleet.client("a"));
    await ensureNamespace(fleet.client("b"), "work");
    await fleet.client("b").create(MULTI_CLUSTER_SERVICES, {
      metadata: { namespace: "work", name: "hello" },
      spec: { serviceImport: { name: "hello" } },
    });
    await using sight = watchSight(fleet.client("b"));
    await sight.until((it) => it.imported === "10.1.0.0" && it.balanced === it.imported && it.derived !== "");
    const written = () => [
      fleet.hub.asked.writes("endpointsliceexports"),
      fleet.hub.asked.writes("endpointsliceimports"),
      fleet.members.get("b")?.asked.writes("endpointslices") ?? 0,
    ];
    const change = async (address: string): Promise<void> => {
      const { endpoints } = sliceOf({ addresses: [address] });
      await fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey("work", "hello-abcde"), { endpoints });
      await sight.until((it) => it.imported === address && it.balanced === address);
    };
    // The first one passes all queues, so that nothing of the creation is left in them.
    await change("10.1.0.1");
    const before = written();
    const changes = Array.from({ length: 5 }, (_, at) => `10.1.0.${at + 2}`);
    for (const address of changes) await change(address);
    const each = written().map((it, at) => (it - (before[at] ?? 0)) / changes.length);
    // Those of the ServiceImport and of the MultiClusterService.
    expect(each).toEqual([1, 1, 2]);
  });
});
