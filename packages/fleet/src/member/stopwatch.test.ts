import { beforeEach, describe, expect, it } from "vitest";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type {
  EndpointSliceImport,
  InternalServiceExport,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { offsetClock } from "@fairlead/base/clock.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { Stopwatch } from "./stopwatch.ts";

const DAY_MS = 86_400_000;
const PROPAGATION = "fleet_networking_endpointslice_export_import_duration_milliseconds";
const IDENTITIES = "fairlead_member_identity_propagation_milliseconds";
const EXPORT = "fleet_networking_service_export_duration_milliseconds";
const slice = objectKey(undefined, "east-work-hello-abcde");
const service = objectKey("work", "hello");

let time: FakeClock;
let metrics: ReturnType<typeof createMetrics>;
beforeEach(() => {
  time = new FakeClock(Date.UTC(2026, 0, 1));
  metrics = createMetrics();
});

/** A member whose machine's clock is off; the hub's is right. */
function stopwatchOf(cluster: string, offsetMs = 0, knowsHub = true): Stopwatch {
  const hub = {
    get serverTime() {
      return knowsHub ? { nowMs: time.now(), errorMs: 2 } : undefined;
    },
  };
  return new Stopwatch({ cluster, hub, clock: offsetClock(time, offsetMs), metrics });
}

function copyOf(exportedSince: string): EndpointSliceImport {
  const reference = { kind: "EndpointSlice", namespace: "work", name: "x", namespacedName: "work/x" };
  return {
    metadata: { name: "east-work-hello-abcde" },
    spec: {
      addressType: "IPv4",
      endpoints: [],
      endpointSliceReference: {
        ...reference,
        clusterId: "east",
        uid: "u",
        resourceVersion: "1",
        generation: 1,
        exportedSince,
      },
      ownerServiceReference: { namespace: "work", name: "hello", namespacedName: "work/hello" },
    },
  };
}

const labels = (isFirst: boolean): string =>
  `destination_cluster_id="west",is_first_import="${isFirst}",origin_cluster_id="east"`;
async function sumOf(name: string, isFirst: boolean): Promise<number> {
  const line = (await metrics.render())
    .split("\n")
    .find((it) => it.startsWith(`${name}_sum{`) && it.includes(`is_first_import="${isFirst}"`));
  return Number(line?.split(" ").at(-1));
}

it("counts from when pods were published to when this cluster has them", async () => {
  const [east, west] = [stopwatchOf("east", -DAY_MS), stopwatchOf("west", DAY_MS)];
  const publishedAt = east.stamp();
  await time.advance(40);
  west.copied({ metadata: { name: "x" }, spec: { cluster: "east", type: "Namespace", publishedAt } }, false);
  expect(await sumOf(IDENTITIES, false)).toBe(40);
});

it("reports to the hub what changes of the last hour took, at most 100 of each member, and not what was first here", async () => {
  const [east, west] = [stopwatchOf("east"), stopwatchOf("west")];
  const copy = async (tookMs: number, isFirst = false): Promise<void> => {
    const publishedAt = east.stamp();
    await time.advance(tookMs);
    west.copied(
      { metadata: { name: "x" }, spec: { cluster: "east", type: "Namespace", publishedAt } },
      isFirst,
    );
  };
  await copy(90_000, true);
  expect(west.propagation()).toBeUndefined();
  for (let at = 0; at < 50; at++) await copy(9000);
  for (let at = 0; at < 98; at++) await copy(20);
  for (let at = 0; at < 2; at++) await copy(70);
  expect(west.propagation()).toBe("east=20/70/100");
  await time.advance(3_600_000 - 1);
  await copy(5);
  expect(west.propagation()).toBe("east=5/5/1");
  await time.advance(3_600_001);
  expect(west.propagation()).toBeUndefined();
});

describe("the stopwatch of endpoints", () => {
  it("B7: measures milliseconds across clusters whose clocks are a day apart", async () => {
    const stamp = stopwatchOf("east", DAY_MS).stamp();
    expect(stamp).toBe("2026-01-01T00:00:00.000000Z");
    await time.advance(42);
    stopwatchOf("west", -DAY_MS).imported(slice, copyOf(stamp), "first");
    expect(await sumOf(PROPAGATION, true)).toBe(42);
    expect(await metrics.render()).toContain(`${PROPAGATION}_bucket{le="50",`);
    expect(labels(true)).toContain("is_first_import");
  });

  it("counts each change once, and nothing that is written for reasons of this cluster's own", async () => {
    const west = stopwatchOf("west");
    const first = copyOf(stopwatchOf("east").stamp());
    west.imported(slice, first, "first");
    west.imported(slice, first, "again");
    west.imported(slice, first, undefined);
    await time.advance(10);
    const second = copyOf(stopwatchOf("east").stamp());
    await time.advance(7);
    west.imported(slice, second, "again");
    const text = await metrics.render();
    expect(text).toMatch(new RegExp(`${PROPAGATION}_count\\{.*is_first_import="true".*\\} 1`));
    expect(text).toMatch(new RegExp(`${PROPAGATION}_count\\{.*is_first_import="false".*\\} 1`));
    expect(await sumOf(PROPAGATION, false)).toBe(7);
  });

  it("takes what original exporters state in whole seconds, by their clock", async () => {
    await time.advance(900);
    stopwatchOf("west").imported(slice, copyOf("2026-01-01T00:00:00Z"), "first");
    expect(await sumOf(PROPAGATION, true)).toBe(900);
  });

  it("states this cluster's own time while the hub's is not known", () => {
    expect(stopwatchOf("east", 1000, false).stamp()).toBe("2026-01-01T00:00:01.000000Z");
  });

  it("has the buckets of fleet-networking among its own", async () => {
    stopwatchOf("west").imported(slice, copyOf("2026-01-01T00:00:00Z"), "first");
    const text = await metrics.render();
    for (const bucket of [1000, 2500, 5000, 10_000, 25_000, 50_000])
      expect(text).toContain(`${PROPAGATION}_bucket{le="${bucket}"`);
  });
});

describe("the stopwatch of exports", () => {
  const sent: InternalServiceExport = { metadata: { name: "x", generation: 2 } };
  const answered = (about: number): InternalServiceExport => ({
    metadata: { name: "x", generation: 2 },
    status: {
      conditions: [
        {
          type: "Conflict",
          status: "False",
          reason: "NoConflictFound",
          message: "",
          lastTransitionTime: "",
          observedGeneration: about,
        },
      ],
    },
  });

  it("B7: measures from sending an export to the hub's condition for it, by the monotonic clock", async () => {
    const east = stopwatchOf("east");
    east.sent(service, sent, east.nowMs);
    await time.advance(5);
    east.answered(service, answered(1));
    await time.advance(8);
    east.answered(service, answered(2));
    east.answered(service, answered(2));
    const text = await metrics.render();
    expect(text).toContain(`${EXPORT}_sum{origin_cluster_id="east"} 13`);
    expect(text).toContain(`${EXPORT}_count{origin_cluster_id="east"} 1`);
  });

  it("records nothing if the export is withdrawn before its condition arrives", async () => {
    const east = stopwatchOf("east");
    east.sent(service, sent, east.nowMs);
    east.answered(service, undefined);
    east.answered(service, answered(2));
    expect(await metrics.render()).not.toContain(`${EXPORT}_count{`);
  });
});
