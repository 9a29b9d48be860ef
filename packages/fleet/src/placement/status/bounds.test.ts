import { describe, expect, it } from "vitest";
import type { PerClusterPlacementStatus } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { bounded, type Report } from "./bounds.ts";
import { statusDigest } from "./digest.ts";

const time = "2026-01-01T00:00:00Z";
const resource = (at: number) => ({
  version: "v1",
  kind: "ConfigMap",
  namespace: "shop",
  name: `settings-${at}`,
});

function cluster(at: number, details: number, values = ""): PerClusterPlacementStatus {
  const entries = Array.from({ length: details }, (_, index) => resource(index));
  const condition = {
    lastTransitionTime: time,
    reason: "R",
    message: "m".repeat(100),
    observedGeneration: 1,
  };
  const drift = { observationTime: time, targetClusterObservedGeneration: 1, firstDriftedObservedTime: time };
  return {
    clusterName: `cluster-${at}`,
    conditions: [
      { ...condition, type: "Applied", status: "True" },
      { ...condition, type: "Available", status: "False" },
    ],
    ...(details === 0
      ? {}
      : {
          failedPlacements: entries.map((it) => ({
            ...it,
            condition: { ...condition, type: "Applied", status: "False" as const },
          })),
          driftedPlacements: entries.map((it) => ({
            ...it,
            ...drift,
            observedDrifts: [{ path: "/data/a", valueInMember: values, valueInHub: values }],
          })),
        }),
  };
}
const report = (clusters: readonly PerClusterPlacementStatus[], resources = 1): Report => ({
  selectedResources: Array.from({ length: resources }, (_, at) => resource(at)),
  placementStatuses: clusters,
});
const many = (count: number, details: number, values = ""): PerClusterPlacementStatus[] =>
  Array.from({ length: count }, (_, at) => cluster(at, details, values));

describe("a report", () => {
  it("that fits is as it is", () => {
    const fine = report(many(100, 5, "v"));
    expect(bounded(fine)).toBe(fine);
  });
  it.each<[string, Report, (of: PerClusterPlacementStatus | undefined) => void]>([
    [
      "values of differences",
      report(many(10, 20, "v".repeat(3000))),
      (of) => {
        expect(of?.driftedPlacements).toHaveLength(20);
        expect(of?.driftedPlacements?.[0]?.observedDrifts).toEqual([{ path: "/data/a" }]);
      },
    ],
    [
      "entries beyond 10",
      report(many(100, 100)),
      (of) => {
        expect(of?.driftedPlacements).toHaveLength(10);
        expect(of?.failedPlacements).toHaveLength(10);
      },
    ],
    [
      "all entries",
      report(many(300, 100)),
      (of) => {
        expect(of?.failedPlacements).toBeUndefined();
        expect(of?.conditions?.[0]?.message).not.toBe("");
      },
    ],
    [
      "messages of what is True",
      report(
        many(2000, 0).map((it) => ({
          ...it,
          conditions:
            it.conditions?.map((of) => ({ ...of, message: of.status === "True" ? "m".repeat(500) : "x" })) ??
            [],
        })),
      ),
      (of) => {
        expect(of?.conditions?.map((it) => it.message)).toEqual(["", "x"]);
      },
    ],
  ])("that is too large lacks %s", (_, of, expectation) => {
    const result = bounded(of);
    expect(JSON.stringify(result).length).toBeLessThanOrEqual(1_200_000);
    expect(result.placementStatuses).toHaveLength(of.placementStatuses.length);
    expectation(result.placementStatuses[0]);
  });
  it("of 10,000 resources and 5,000 clusters is cut to what fits", () => {
    const result = bounded(report(many(5_000, 0), 10_000));
    expect(JSON.stringify(result).length).toBeLessThanOrEqual(1_200_000);
    expect(result.selectedResources.length).toBeGreaterThan(4000);
    expect(result.placementStatuses.length).toBeGreaterThan(1500);
  });
});

it("the digest of a status ignores what is empty, and the order of keys", () => {
  expect(statusDigest({ a: [{ x: 1, y: 2 }], b: "", c: [], d: undefined })).toBe(
    statusDigest({ a: [{ y: 2, x: 1 }] }),
  );
  expect(statusDigest({ a: [1] })).not.toBe(statusDigest({ a: [2] }));
});
