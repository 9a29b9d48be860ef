import { beforeEach, describe, expect, it } from "vitest";
import { CONFIG_MAPS, type ConfigMap, EVENTS } from "#api/core/v1/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "#client/client.fake.ts";
import { createEventRecorder, type EventRecorder } from "./events.ts";

let clock: FakeClock;
let client: FakeKubeClient;
let recorder: EventRecorder;
beforeEach(() => {
  clock = new FakeClock(Date.UTC(2026, 0, 1));
  client = new FakeKubeClient(clock);
  recorder = createEventRecorder(client, "exporter", {
    clock,
    rng: seededRng(1),
    log: silentLogger,
    metrics: noMetrics,
  });
});

const object: ConfigMap = { metadata: { name: "one", namespace: "work", uid: "u-1" } };
const conflict = { type: "Warning", reason: "Conflict", message: "ports differ" } as const;

describe("an event", () => {
  it("is about an object, from a component", async () => {
    recorder.record(CONFIG_MAPS, object, conflict);
    await recorder.flushed();
    expect(client.objects(EVENTS)).toMatchObject([
      {
        metadata: { namespace: "work", name: expect.stringMatching(/^one\.[0-9a-f]+$/) as string },
        involvedObject: { apiVersion: "v1", kind: "ConfigMap", namespace: "work", name: "one", uid: "u-1" },
        ...conflict,
        count: 1,
        firstTimestamp: "2026-01-01T00:00:00Z",
        source: { component: "exporter" },
      },
    ]);
  });

  it("C9: that recurs raises the count of the first, with one write for all recurrences since the last", async () => {
    recorder.record(CONFIG_MAPS, object, conflict);
    await recorder.flushed();
    for (let turn = 0; turn < 5; turn++) recorder.record(CONFIG_MAPS, object, conflict);
    await recorder.flushed();
    expect(client.objects(EVENTS)[0]?.count).toBe(6);
    expect(client.writes.map((it) => it.verb)).toEqual(["create", "patch"]);
  });

  it("C9: of one reason with ever new messages is aggregated after the tenth", async () => {
    for (let turn = 0; turn < 20; turn++) {
      recorder.record(CONFIG_MAPS, object, { ...conflict, message: `ports differ in ${turn}` });
      await recorder.flushed();
    }
    const events = client.objects(EVENTS);
    expect(events).toHaveLength(11);
    expect(events.find((it) => it.message?.startsWith("(combined from similar events)"))).toMatchObject({
      count: 10,
      message: "(combined from similar events): ports differ in 19",
    });
  });

  it("that recurs raises the count of the first", async () => {
    recorder.record(CONFIG_MAPS, object, conflict);
    recorder.record(CONFIG_MAPS, object, conflict);
    await clock.advance(60_000);
    recorder.record(CONFIG_MAPS, object, conflict);
    recorder.record(CONFIG_MAPS, object, { ...conflict, reason: "Other" });
    await recorder.flushed();
    const events = client.objects(EVENTS).map((it) => [it.reason, it.count, it.lastTimestamp]);
    expect(events).toEqual([
      ["Conflict", 3, "2026-01-01T00:01:00Z"],
      ["Other", 1, "2026-01-01T00:01:00Z"],
    ]);
  });

  it("is created again when the first has expired", async () => {
    recorder.record(CONFIG_MAPS, object, conflict);
    await recorder.flushed();
    for (const key of client.state.all(EVENTS).keys()) client.state.delete(EVENTS, key);
    recorder.record(CONFIG_MAPS, object, conflict);
    await recorder.flushed();
    expect(client.objects(EVENTS)).toHaveLength(1);
  });

  it("is dropped if one object has too many events, and is written again five minutes later", async () => {
    for (let count = 0; count < 40; count++) recorder.record(CONFIG_MAPS, object, conflict);
    await recorder.flushed();
    expect(client.objects(EVENTS)[0]?.count).toBe(25);
    await clock.advance(300_000);
    recorder.record(CONFIG_MAPS, object, conflict);
    await recorder.flushed();
    expect(client.objects(EVENTS)[0]?.count).toBe(26);
  });

  it("that cannot be written does not cause a failure", async () => {
    client.stop();
    recorder.record(CONFIG_MAPS, object, conflict);
    await expect(recorder.flushed()).resolves.toBeUndefined();
  });
});
