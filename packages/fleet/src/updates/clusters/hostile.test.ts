import { expect, it } from "vitest";
import type { ClusterUpgradeStatus } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { UpdateWorld } from "./world.fake.ts";

/** What members report is bounded where it reaches the one object that all members of a run share. */

const LONG = "x".repeat(1_000_000);
const OPERATION = { id: "uid-1", message: LONG };

it.each<[string, ClusterUpgradeStatus]>([
  [
    "a failure with a long reason",
    { kubernetesVersion: "1.33.4", operation: { ...OPERATION, state: "Failed" } },
  ],
  [
    "a long account of its progress",
    { kubernetesVersion: "1.33.4", operation: { ...OPERATION, state: "Running" } },
  ],
  [
    "nodes with long names and versions",
    {
      kubernetesVersion: "1.34.1",
      nodes: [{ name: LONG, kubernetesVersion: LONG, ready: true }],
      operation: { ...OPERATION, state: "Succeeded" },
    },
  ],
  ["a long version", { kubernetesVersion: LONG, operation: { ...OPERATION, state: "Succeeded" } }],
])("a member that reports %s makes the status of its run no larger than others do", (_what, reported) => {
  const world = new UpdateWorld();
  world.add("a");
  world.start();
  world.clusters.set("a", reported);
  world.settle();
  expect(JSON.stringify(world.status).length).toBeLessThan(5000);
});

it.each<[string, ClusterUpgradeStatus]>([
  ["long names of measurements", { measurements: { [LONG]: 1, nodes: 1 } }],
  [
    "many measurements",
    { measurements: Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`m${at}`, at])) },
  ],
  [
    "a long image",
    {
      measurements: {},
      nodes: [{ name: "n", kubernetesVersion: "1.33.4", image: `${LONG}-1`, ready: true }],
    },
  ],
])("a member that begins with %s makes the status of its run no larger than others do", (_what, reported) => {
  const world = new UpdateWorld();
  world.add("a", {}, { kubernetesVersion: "1.33.4", ...reported });
  world.catalogs = [{ metadata: { name: "c" }, spec: { nodeImages: [{ version: "u-1" }] } }];
  const stages = [{ name: "s", memberSelector: { byLabel: "" }, health: {} }];
  const upgrade = { type: "Full", kubernetesVersion: "1.34.1" } as const;
  world.request({
    strategy: { stages },
    managedClusterUpdate: { upgrade, nodeImageSelection: { type: "Consistent" } },
  });
  world.start();
  expect(JSON.stringify(world.status).length).toBeLessThan(5000);
});

it("a member that reports long failures of flows to another makes the status of its run no larger than others do", () => {
  const world = new UpdateWorld();
  world.add("a", { group: "g" }, { measurements: {} });
  world.add("b");
  const health = { toleratedSeconds: 0, flows: { minProbers: 1 }, onFailure: "Rollback" as const };
  world.report = (_prober, { cluster, since }) =>
    cluster === "a" ? { cluster, since, targets: 1, tried: 99, failed: failing, message: LONG } : undefined;
  let failing = 0;
  world.request({ strategy: { stages: [{ name: "s", groups: [{ name: "g" }], health }] } });
  world.start();
  world.later(30_000);
  failing = 99;
  world.later(0);
  expect(world.member("a").rollback?.reason.code).toBe("Unhealthy");
  expect(JSON.stringify(world.status).length).toBeLessThan(5000);
});
