import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HUB_CORE_CRDS, MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { CLUSTER_PROFILE_CRD } from "@fairlead/fleet/api/multicluster.x-k8s.io/cluster-profiles.ts";
import { PUBLISHED_PLACEMENT_CRDS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/crds.ts";
import type { AccessLog } from "../support/access.ts";
import { type Restartable, startFleet, type TestFleet } from "../support/fleet.ts";

/** What hub and member have asked their API servers for, as the audit logs have it. */

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a"], placement: true });
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

/** Objects that it works on change in the meantime, and a watch may have to be opened again. */
const SLACK = 5;

describe("on a fleet that is as it was", () => {
  it("a hub that starts reads each definition once, watches each kind once, and writes no definition or policy", async () => {
    const watches = 50;
    const asked = await restarted(fleet.hubProgram, fleet.hub.asked, watches);
    const definitions = HUB_CORE_CRDS.length + PUBLISHED_PLACEMENT_CRDS.length + [CLUSTER_PROFILE_CRD].length;
    // Policies and their bindings, and the webhooks of KubeFleet.
    expect(asked.reads).toBeLessThanOrEqual(definitions + 4 + SLACK);
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
