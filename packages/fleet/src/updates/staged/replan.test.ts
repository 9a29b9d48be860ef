import { expect, it } from "vitest";
import { DELETE_STAGE } from "#api/placement.kubernetes-fleet.io/names.ts";
import { FakeWorld, policyOf } from "./world.fake.ts";

/** Two clusters in each of two stages; the first is being updated. */
function world(): FakeWorld {
  const stages = ["one", "two"].map((name) => ({ name, labelSelector: { matchLabels: { stage: name } } }));
  const fleet = new FakeWorld({ a: "one", b: "one", c: "two", d: "two" }, stages);
  fleet.run.spec.onPlacementChange = "Replan";
  fleet.settle();
  return fleet;
}

function clustersOf(fleet: FakeWorld, stage: string): string[] {
  return fleet.stage(stage).clusters.map((it) => it.clusterName);
}

function finish(fleet: FakeWorld): void {
  for (let pass = 0; fleet.says("Succeeded") === undefined && pass < 20; pass += 1) {
    fleet.ready(...fleet.inFlight());
    fleet.settle();
  }
}

it("a cluster that joins is updated in the stage that selects it", () => {
  const fleet = world();
  fleet.join("e", { stage: "two" });
  fleet.settle();
  expect(fleet.inFlight()).toEqual(["a"]);
  expect(clustersOf(fleet, "two")).toEqual(["c", "d", "e"]);
  expect(fleet.run.status?.policyObservedClusterCount).toBe(5);
  finish(fleet);
  expect(fleet.says("Succeeded")).toBe("True UpdateRunSucceeded");
  expect(fleet.bindings.get("e")?.spec.resourceSnapshotName).toBe("web-7-snapshot");
});

it("a cluster that joins a stage that is done is updated in the next one", () => {
  const fleet = world();
  for (const cluster of ["a", "b"]) {
    fleet.ready(cluster);
    fleet.settle();
  }
  fleet.join("e", { stage: "one" });
  fleet.settle();
  expect(clustersOf(fleet, "one")).toEqual(["a", "b"]);
  expect(clustersOf(fleet, "two")).toEqual(["c", "d", "e"]);
});

it("a cluster that leaves is taken out of its stage, in flight or not, and removed last", () => {
  const fleet = world();
  for (const cluster of ["a", "d"]) fleet.change(cluster, { state: "Unscheduled" });
  fleet.settle();
  expect(clustersOf(fleet, "one")).toEqual(["b"]);
  expect(clustersOf(fleet, "two")).toEqual(["c"]);
  expect(clustersOf(fleet, DELETE_STAGE)).toEqual(["a", "d"]);
  expect(fleet.inFlight()).toEqual(["b"]);
  finish(fleet);
  expect(fleet.says("Succeeded")).toBe("True UpdateRunSucceeded");
  expect([...fleet.bindings.keys()]).toEqual(["b", "c"]);
});

it("a cluster that leaves and joins again after its update is updated again", () => {
  const fleet = world();
  fleet.ready("a");
  fleet.settle();
  fleet.join("a", { stage: "one" });
  fleet.settle();
  expect(fleet.says("Succeeded", "one", "a")).toBeUndefined();
  finish(fleet);
  expect(fleet.bindings.get("a")?.spec.resourceSnapshotName).toBe("web-7-snapshot");
});

it("a policy that changes is the one that is used from then on, when the scheduler has decided", () => {
  const fleet = world();
  const policy = policyOf("web", 1);
  const { status } = policy;
  delete policy.status;
  fleet.policy = policy;
  fleet.ready("a");
  fleet.settle();
  expect(fleet.inFlight()).toEqual(["a"]);
  if (status !== undefined) fleet.policy = { ...policy, status };
  fleet.settle();
  expect(fleet.run.status?.policySnapshotIndexUsed).toBe("1");
  expect(fleet.inFlight()).toEqual(["b"]);
});

it("a cluster that no stage selects ends the run", () => {
  const fleet = world();
  fleet.join("e", { stage: "three" });
  fleet.settle();
  expect(fleet.says("Succeeded")).toBe("False UpdateRunFailed");
});

it("a cluster that joins when all stages are done needs another run", () => {
  const fleet = world();
  fleet.change("d", { state: "Unscheduled" });
  fleet.settle();
  for (const cluster of ["a", "b"]) {
    fleet.ready(cluster);
    fleet.settle();
  }
  fleet.ready("c");
  fleet.pass();
  fleet.join("e", { stage: "two" });
  fleet.settle();
  expect(fleet.says("Succeeded")).toBe("True UpdateRunSucceeded");
  expect(fleet.bindings.get("e")?.spec.state).toBe("Scheduled");
});
