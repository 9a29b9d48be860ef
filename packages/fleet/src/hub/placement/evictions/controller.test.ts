import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FleetError } from "@fairlead/base/errors.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { RecordedWrite } from "@fairlead/kube/client/client.fake.ts";
import {
  PLACEMENT_DISRUPTION_BUDGETS,
  PLACEMENT_EVICTIONS,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import { configMap, FakeFleet, SHOP } from "../fleet.fake.ts";
import { createRollout } from "../rollout/controller.ts";
import { createWorks } from "../works/controller.ts";
import { createEvictions } from "./controller.ts";

let fleet: FakeFleet;
const CLUSTERS = ["a", "b", "c"];
const start = () => fleet.start(createRollout, createWorks, createEvictions);

beforeEach(() => placed());

async function placed(namespace?: string): Promise<void> {
  fleet = new FakeFleet(namespace);
  fleet.placement({ policy: { placementType: "PickN", numberOfClusters: 3 } });
  fleet.members(...CLUSTERS);
  await fleet.snapshot(0, [namespace === undefined ? SHOP : configMap("one")]);
  for (const it of CLUSTERS) fleet.bind(it);
  await start();
  await fleet.settle();
  for (const it of CLUSTERS) await fleet.answer(it);
  await fleet.settle();
}

afterEach(() => fleet.stop());

function evict(clusterName: string, placementName = "app"): void {
  fleet.client.seed(PLACEMENT_EVICTIONS, {
    metadata: { name: `from-${clusterName}` },
    spec: { placementName, clusterName },
  });
}
const reasons = (cluster: string): (string | undefined)[] =>
  (
    fleet.client.objects(PLACEMENT_EVICTIONS).find((it) => it.spec.clusterName === cluster)?.status
      ?.conditions ?? []
  ).map((it) => `${it.status} ${it.reason.replace("ClusterResourcePlacementEviction", "")}`);
/** The scheduler releases the binding, and picks the cluster again. */
async function pickAgain(cluster: string): Promise<void> {
  await fleet.client.mergePatch(fleet.scope.bindings, objectKey(undefined, `app-${cluster}-00000000`), {
    metadata: { finalizers: null },
  });
  await fleet.settle(2000);
  fleet.bind(cluster);
  await fleet.settle();
}

/** Writes that match fail until the function that is returned is called. */
function breakDown(matches: (write: RecordedWrite) => boolean): () => void {
  let isBroken = true;
  for (let at = 0; at < 20; at++)
    fleet.client.failNext(new FleetError("API_UNAVAILABLE", "away"), (it) => isBroken && matches(it));
  return () => {
    isBroken = false;
  };
}

it("an eviction from a ResourcePlacement has its budget in the same namespace", async () => {
  await fleet.stop();
  await placed("shop");
  const { evictions, budgets } = fleet.scope;
  fleet.client.seed(budgets, { metadata: { namespace: "shop", name: "app" }, spec: { maxUnavailable: 1 } });
  fleet.client.seed(budgets, { metadata: { namespace: "other", name: "app" }, spec: { maxUnavailable: 0 } });
  for (const clusterName of ["a", "b"])
    fleet.client.seed(evictions, {
      metadata: { namespace: "shop", name: clusterName },
      spec: { placementName: "app", clusterName },
    });
  await fleet.settle();
  const reasonsOf = fleet.client.objects(evictions).map((it) => it.status?.conditions?.at(-1)?.reason);
  expect(reasonsOf).toEqual(["ResourcePlacementEvictionExecuted", "ResourcePlacementEvictionNotExecuted"]);
  expect(fleet.works("a")).toEqual([]);
});

describe("an eviction", () => {
  it("deletes the binding and its Works, once: not what the scheduler picks afterwards", async () => {
    evict("a");
    await fleet.settle();
    expect(reasons("a")).toEqual(["True Valid", "True Executed"]);
    expect(fleet.works("a")).toEqual([]);
    await pickAgain("a");
    await fleet.stop();
    await start();
    await fleet.settle();
    expect(fleet.binding("a").metadata.deletionTimestamp).toBeUndefined();
  });
  it("that was interrupted before the deletion deletes after the restart", async () => {
    const repair = breakDown((it) => it.verb === "delete");
    evict("a");
    await fleet.clock.advance(0);
    await fleet.stop();
    expect(reasons("a")).toEqual(["True Valid"]);
    repair();
    await start();
    await fleet.settle();
    expect(reasons("a")).toEqual(["True Valid", "True Executed"]);
    expect(fleet.works("a")).toEqual([]);
  });
  it("that was interrupted after the deletion does not delete what the scheduler picked since", async () => {
    const repair = breakDown(({ resource }) => resource.endsWith("evictions") && reasons("a").length > 0);
    evict("a");
    await fleet.clock.advance(0);
    await fleet.stop();
    expect(reasons("a")).toEqual(["True Valid"]);
    repair();
    await fleet.start(createRollout, createWorks);
    await pickAgain("a");
    await fleet.stop();
    await start();
    await fleet.settle();
    expect(reasons("a")).toEqual(["True Valid", "True Executed"]);
    expect(fleet.binding("a").metadata.deletionTimestamp).toBeUndefined();
  });
  it("keeps to the budget: the second one counts what the first took", async () => {
    fleet.client.seed(PLACEMENT_DISRUPTION_BUDGETS, {
      metadata: { name: "app" },
      spec: { maxUnavailable: 1 },
    });
    evict("a");
    evict("b");
    await fleet.settle();
    expect(reasons("a")).toEqual(["True Valid", "True Executed"]);
    expect(reasons("b")).toEqual(["True Valid", "False NotExecuted"]);
    await pickAgain("a");
    await fleet.answer("a");
    await fleet.settle(60_000);
    expect(reasons("b")).toEqual(["True Valid", "False NotExecuted"]);
  });
  it.each([
    ["of a placement that does not exist", "a", "other"],
    ["of a placement whose name cannot be one", "a", "x".repeat(200)],
    ["from a cluster without a binding", "z", "app"],
  ])("%s is not valid, whatever comes later", async (_, cluster, placement) => {
    evict(cluster, placement);
    await fleet.settle();
    expect(reasons(cluster)).toEqual(["False Invalid"]);
    fleet.bind("z");
    fleet.placement({}, "other");
    await fleet.settle(60_000);
    expect(reasons(cluster)).toEqual(["False Invalid"]);
    expect(fleet.binding("a").metadata.deletionTimestamp).toBeUndefined();
  });
});
