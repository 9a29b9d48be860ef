import { expect, it } from "vitest";
import { bindingOf, NOW_MS } from "./binding.fake.ts";
import { readinessOf } from "./readiness.ts";

it.each([
  ["nothing was reported", [], "pending"],
  ["all is available", ["Available=True AllWorkAreAvailable"], "ready"],
  ["availability was of an earlier generation", ["Available=True AllWorkAreAvailable ^"], "pending"],
  [
    "availability is not known, for longer than the period",
    ["Available=True NotAllWorkAreAvailabilityTrackable @61"],
    "ready",
  ],
  [
    "availability is not known, for less than the period",
    ["Available=True NotAllWorkAreAvailabilityTrackable @59"],
    "pending",
  ],
  [
    "availability is not known, by a clock that was a little ahead",
    ["Available=True NotAllWorkAreAvailabilityTrackable @-59"],
    "pending",
  ],
  [
    "availability is not known, by a clock that was a day ahead",
    ["Available=True NotAllWorkAreAvailabilityTrackable @-86400"],
    "ready",
  ],
  ["differences are reported", ["DiffReported=True AllWorkHaveDiffReported"], "ready"],
  ["differences are not reported yet", ["DiffReported=Unknown DiffReportInProgress"], "pending"],
  ["the apply is in progress", ["Applied=Unknown ApplyInProgress"], "pending"],
  ["an object was not applied", ["Applied=False NotAllWorkHaveBeenApplied"], "failed"],
  [
    "an object was not applied in an earlier generation",
    ["Applied=False NotAllWorkHaveBeenApplied ^"],
    "pending",
  ],
  ["an object is not available", ["Applied=True A", "Available=False NotAllWorkAreAvailable"], "failed"],
  ["an override does not fit", ["Overridden=False OverriddenFailed"], "failed"],
  ["Works cannot be written", ["WorkSynchronized=False SyncWorkFailed"], "failed"],
  ["the override is pending", ["Overridden=False OverriddenPending"], "pending"],
  ["the Work is not synchronized yet", ["WorkSynchronized=False WorkNotSynchronizedYet"], "pending"],
  ["the apply is pending", ["Applied=False ApplyPending"], "pending"],
  ["resources are not available yet", ["Available=False ResourceNotAvailableYet"], "pending"],
] as const)("a binding where %s is %3$s", (_, conditions, kind) => {
  expect(readinessOf(bindingOf("a", "Bound", { conditions }), NOW_MS, 60_000)).toMatchObject({ kind });
});

it("a binding of unknown availability is ready when the period ends", () => {
  const conditions = ["Available=True NotAllWorkAreAvailabilityTrackable @20"];
  expect(readinessOf(bindingOf("a", "Bound", { conditions }), NOW_MS, 60_000)).toEqual({
    kind: "pending",
    readyInMs: 40_000,
  });
});
