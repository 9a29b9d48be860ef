import { expect, it } from "vitest";
import type { Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { knownStatus } from "./memory.ts";

const applied = (message: string): Work["status"] => ({
  conditions: [
    { type: "Applied", status: "True", reason: "x", message, lastTransitionTime: "2026-01-01T00:00:00Z" },
  ],
});
const [before, written] = [applied("before"), applied("written")];
const work = (resourceVersion: string): Work => ({
  metadata: { name: "w", resourceVersion },
  spec: {},
  ...(before === undefined ? {} : { status: before }),
});

it.each([
  ["as it was when the status was written", "7", written],
  ["as it was before the finalizer was put on it", "6", written],
  ["newer", "8", before],
  ["of a hub that was restored from a backup, which counts versions from there", "3", before],
])("the status of a Work is known, if the watch shows the Work %s", (...[, version, expected]) => {
  expect(knownStatus(work(version), { written: { after: ["7", "6"], status: written } })).toBe(expected);
});

it("the status of a Work that was never written is that of the Work", () => {
  expect(knownStatus(work("1"), { written: undefined })).toBe(before);
});
