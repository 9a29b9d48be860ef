import { describe, expect, it } from "vitest";
import { selectingOf } from "./placement-flags.ts";

const defaults = {
  snapshotInterval: "30s",
  snapshotCollection: "15s",
};

describe("the flags of what placements select", () => {
  it("have KubeFleet's defaults and forms", () => {
    expect(selectingOf(defaults)).toEqual({
      minIntervalMs: 30_000,
      collectMs: 15_000,
      skippedNamespaces: [],
      runsWorkloads: false,
    });
    expect(
      selectingOf({
        snapshotInterval: "5m",
        snapshotCollection: "0",
        skippedApis: "batch;apps/v1/Deployment",
        skippedNamespaces: "a, b;c",
        runsWorkloads: true,
      }),
    ).toEqual({
      minIntervalMs: 300_000,
      collectMs: 0,
      skippedApis: "batch;apps/v1/Deployment",
      skippedNamespaces: ["a", "b", "c"],
      runsWorkloads: true,
    });
  });
  it.each([
    [{ snapshotInterval: "6m" }, "--snapshot-interval must be a duration of 0 to 5m"],
    [{ snapshotCollection: "61s" }, "--snapshot-collection must be a duration of 0 to 1m"],
    [{ snapshotCollection: "soon" }, 'got "soon"'],
    [{ skippedApis: "a", allowedApis: "b" }, "exclude each other"],
    [{ allowedApis: "a/b/c/d" }, 'cannot read "a/b/c/d"'],
  ])("refuse %j", (flags, message) => {
    expect(() => selectingOf({ ...defaults, ...flags })).toThrow(message);
  });
});
