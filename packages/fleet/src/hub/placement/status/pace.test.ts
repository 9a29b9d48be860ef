import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { beforeEach, describe, expect, it } from "vitest";
import type { ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { StatusPace } from "./pace.ts";

const KEY = objectKey(undefined, "app");
let clock: FakeClock;
let pace: StatusPace;
beforeEach(() => {
  clock = new FakeClock();
  pace = new StatusPace(clock);
});

const AVAILABLE = ["Available", "True", "AllWorkAreAvailable"] as const;

function binding(
  snapshot: string,
  [type, status, reason]: readonly [string, "True" | "False" | "Unknown", string] = AVAILABLE,
  state: "Bound" | "Unscheduled" = "Bound",
): ResourceBinding {
  return {
    metadata: { name: "b", generation: 1 },
    spec: {
      state,
      resourceSnapshotName: snapshot,
      schedulingPolicySnapshotName: "app-0",
      targetCluster: "a",
      clusterDecision: { clusterName: "a", selected: true, reason: "" },
    },
    status: {
      conditions: [
        {
          type,
          status,
          reason,
          message: "",
          observedGeneration: 1,
          lastTransitionTime: "2026-01-01T00:00:00Z",
        },
      ],
    },
  };
}
const done = (count: number): ResourceBinding[] => Array.from({ length: count }, () => binding("app-0"));

describe("the status of a placement", () => {
  it.each([
    ["has not answered", binding("app-0", ["Applied", "Unknown", "ApplyInProgress"])],
    ["has other resources", binding("app-1")],
  ])(
    "is written every 5 ms for each cluster while one %s, and at once when the last one is done",
    async (_, open) => {
      const bindings = [...done(99), open];
      expect(pace.waitMs(KEY, bindings, true)).toBe(500);
      await clock.advance(300);
      expect(pace.waitMs(KEY, bindings, true)).toBe(200);
      await clock.advance(200);
      expect(pace.waitMs(KEY, bindings, true)).toBe(0);
      pace.note(KEY, 100);
      expect(pace.waitMs(KEY, bindings, true)).toBe(500);
      await clock.advance(100);
      expect(pace.waitMs(KEY, done(100), true)).toBe(0);
    },
  );
  it.each([
    ["failed", binding("app-0", ["Applied", "False", "NotAllWorkHaveBeenApplied"])],
    ["reported its differences", binding("app-0", ["DiffReported", "True", "AllWorkHaveDiffReported"])],
    ["is to lose the resources", binding("app-1", AVAILABLE, "Unscheduled")],
  ])("does not wait for a cluster that %s", (_, other) => {
    expect(pace.waitMs(KEY, [...done(99), other], true)).toBe(0);
  });
  it("is written every millisecond for each cluster, and every second for any number, by clusters that come and go", async () => {
    pace.note(KEY, 100);
    expect(pace.waitMs(KEY, done(100), true)).toBe(100);
    pace.note(KEY, 5000);
    expect(pace.waitMs(KEY, done(5000), true)).toBe(1000);
    expect(pace.waitMs(objectKey(undefined, "other"), done(5000), true)).toBe(0);
    pace.forget(KEY);
    expect(pace.waitMs(KEY, done(5000), true)).toBe(0);
  });
  it("is written more seldom while many others are under way: a millisecond for each of their clusters, up to 10 s", async () => {
    const open = [...done(99), binding("app-1")];
    const keys = Array.from({ length: 200 }, (_, at) => objectKey(undefined, `app-${at}`));
    for (const key of keys.slice(0, 30)) pace.waitMs(key, open, true);
    await clock.advance(500);
    expect(pace.waitMs(KEY, done(100), true)).toBe(0);
    const [first = KEY] = keys;
    expect(pace.waitMs(first, open, true)).toBe(0);
    pace.note(first, 100);
    expect(pace.waitMs(first, open, true)).toBe(3000);
    for (const key of keys) pace.waitMs(key, open, true);
    pace.note(first, 100);
    expect(pace.waitMs(first, open, true)).toBe(10_000);
    for (const key of keys) pace.forget(key);
    pace.waitMs(first, open, true);
    pace.note(first, 100);
    expect(pace.waitMs(first, open, true)).toBe(500);
    expect(pace.waitMs(first, done(100), true)).toBe(100);
  });
  it("looks at one cluster for each change while that one has not answered", () => {
    let reads = 0;
    const counted = (name: string, from: ResourceBinding): ResourceBinding => ({
      ...from,
      metadata: { ...from.metadata, name },
      get status() {
        reads += 1;
        return from.status ?? {};
      },
    });
    const open = binding("app-0", ["Applied", "Unknown", "ApplyInProgress"]);
    const bindings = [...done(99).map((it, at) => counted(`b${at}`, it)), counted("last", open)];
    pace.waitMs(KEY, bindings, true);
    const [first, after] = [reads, 10];
    for (let at = 0; at < after; at += 1) expect(pace.waitMs(KEY, bindings, true)).toBe(500);
    // Each look reads the status a few times.
    expect(first).toBeGreaterThanOrEqual(100);
    expect(reads - first).toBeLessThan(first);
    expect(pace.waitMs(KEY, done(100), true)).toBe(0);
  });
  it.each([
    ["while one has not answered", [binding("app-0", ["Applied", "Unknown", "ApplyInProgress"])], true],
    ["while the clusters are being picked", [], false],
  ])("of few clusters is written every 200 ms %s, and at once when all have", async (_, open, isDecided) => {
    expect(pace.waitMs(KEY, open, isDecided)).toBe(200);
    await clock.advance(200);
    expect(pace.waitMs(KEY, open, isDecided)).toBe(0);
    pace.note(KEY, 1);
    expect(pace.waitMs(KEY, open, isDecided)).toBe(200);
    expect(pace.waitMs(KEY, done(1), true)).toBe(0);
  });
});
