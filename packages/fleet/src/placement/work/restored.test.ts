import { expect, it } from "vitest";
import { APPLIED_GENERATION_ANNOTATION } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { AppliedWork, Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { restoredProblem, versionOf } from "./restored.ts";

const work = (uid: string, generation: number): Work => ({
  metadata: { name: "w", uid, generation },
  spec: {},
});
const owner = (applied?: string): AppliedWork => ({
  metadata: {
    name: "w",
    annotations: applied === undefined ? {} : { [APPLIED_GENERATION_ANNOTATION]: applied },
  },
  spec: { workName: "w", workNamespace: "fleet-member-a" },
});

it.each<[what: string, present: Work, before: AppliedWork | undefined, isRestored: boolean]>([
  ["an older generation", work("u", 3), owner(versionOf(work("u", 5))), true],
  ["the same generation", work("u", 5), owner(versionOf(work("u", 5))), false],
  ["a newer generation", work("u", 6), owner(versionOf(work("u", 5))), false],
  ["another Work of the name", work("v", 1), owner(versionOf(work("u", 5))), false],
  ["an AppliedWork of KubeFleet", work("u", 1), owner(), false],
  ["an annotation of another form", work("u", 1), owner("u x"), false],
  ["a Work that was never applied", work("u", 1), undefined, false],
])("%s shows whether the hub was restored", (...[, present, before, isRestored]) => {
  expect(restoredProblem(present, before) !== undefined).toBe(isRestored);
});
