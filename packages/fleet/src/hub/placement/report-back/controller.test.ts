import { afterEach, beforeEach, expect, it } from "vitest";
import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { PlacementSpec } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { ManifestCondition } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { isMirrored } from "#placement/works/report-back.ts";
import { FakeFleet, SHOP } from "../fleet.fake.ts";
import { createRollout } from "../rollout/controller.ts";
import { createWorks } from "../works/controller.ts";
import { createReportBack } from "./controller.ts";

type Job = KubeObject & { status?: unknown };
const JOBS = resource<Job>("batch/v1", "Job", "jobs");
const job: Job = { apiVersion: "batch/v1", kind: "Job", metadata: { namespace: "shop", name: "one" } };
const mirror = (destination: "OriginalResource" | "WorkAPI"): Partial<PlacementSpec> => ({
  policy: { placementType: "PickN", numberOfClusters: 1 },
  strategy: { reportBackStrategy: { type: "Mirror", destination } },
});
const reportOf = (name: string, status: object): ManifestCondition => ({
  identifier: { ordinal: 0, group: "batch", version: "v1", kind: "Job", namespace: "shop", name },
  backReportedStatus: {
    observationTime: "t",
    observedStatus: { apiVersion: "batch/v1", kind: "Job", status },
  },
});

let fleet: FakeFleet;
beforeEach(() => {
  fleet = new FakeFleet();
  fleet.members("a");
  fleet.client.seed(JOBS, job, {
    ...job,
    metadata: { namespace: "shop", name: "other" },
    status: { active: 1 },
  });
});
afterEach(() => fleet.stop());

async function report(spec: Partial<PlacementSpec>, ...reports: readonly ManifestCondition[]): Promise<void> {
  fleet.placement(spec);
  await fleet.snapshot(0, [SHOP, job]);
  fleet.bind("a");
  const find = ({ kind }: { readonly kind: string }) => (kind === "Job" ? JOBS : undefined);
  await fleet.start(createRollout, createWorks, (parts) =>
    createReportBack({ ...parts, kinds: () => ({ find }) }),
  );
  await fleet.settle();
  await fleet.answer("a", undefined, reports);
  await fleet.settle();
}
const statuses = (): unknown[] => fleet.client.objects(JOBS).map((it) => it.status);

it("the status that the cluster reports becomes that of the object on the hub, once", async () => {
  await report(mirror("OriginalResource"), reportOf("one", { succeeded: 1 }));
  expect(statuses()[0]).toEqual({ succeeded: 1 });
  await fleet.answer("a", undefined, [reportOf("one", { failed: 1 })]);
  await fleet.settle();
  expect(statuses()[0]).toEqual({ failed: 1 });
  fleet.client.writes.length = 0;
  await fleet.answer("a", { Applied: ["True", "Again"], Available: ["True", "Again"] }, [
    reportOf("one", { failed: 1 }),
  ]);
  await fleet.settle();
  expect(fleet.client.writes.filter((it) => it.resource === "jobs")).toEqual([]);
});

it("a member cannot set the status of objects that were not placed on it", async () => {
  await report(mirror("OriginalResource"), reportOf("other", { succeeded: 1 }));
  expect(statuses()).toEqual([undefined, { active: 1 }]);
});

it("a status stays in the Work if the placement asks for that", async () => {
  await report(mirror("WorkAPI"), reportOf("one", { succeeded: 1 }));
  expect(statuses()[0]).toBeUndefined();
});

it.each([
  [{ placementType: "PickFixed" as const, clusterNames: ["a"] }, true],
  [{ placementType: "PickFixed" as const, clusterNames: ["a", "b"] }, false],
  [{ placementType: "PickN" as const, numberOfClusters: 1 }, true],
  [{ placementType: "PickN" as const, numberOfClusters: 2 }, false],
  [{ placementType: "PickAll" as const }, false],
])("of %j the originals get a status: %s", (policy, isSo) => {
  expect(isMirrored({ resourceSelectors: [], ...mirror("OriginalResource"), policy })).toBe(isSo);
});
