import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { PropertyCollector, type PropertyProvider } from "./property-provider.ts";

const never = new AbortController().signal;
const NOTHING = { properties: new Map<string, string>() };

async function collected(provider: PropertyProvider, times = 1) {
  const clock = new FakeClock();
  const collector = new PropertyCollector(provider, clock);
  const results = [];
  for (let at = 0; at < times; at++) {
    const collecting = collector.collect(never);
    await clock.advance(10_000);
    results.push(await collecting);
  }
  return results.at(-1)!;
}
const hanging = (): Promise<never> => new Promise<never>(() => {});

describe("a property provider", () => {
  it.each<[string, PropertyProvider, number, Record<string, string>]>([
    [
      "that answers",
      { start: async () => {}, collect: () => Promise.resolve({ properties: new Map([["a", "1"]]) }) },
      1,
      {
        ClusterPropertyProviderStarted: "Started",
        ClusterPropertyCollectionSucceeded: "PropertiesCollected",
      },
    ],
    [
      "that hangs at its start",
      { start: hanging, collect: () => Promise.resolve(NOTHING) },
      1,
      { ClusterPropertyProviderStarted: "TimedOut" },
    ],
    [
      "that fails at its start",
      { start: () => Promise.reject(new Error("no price list")), collect: () => Promise.resolve(NOTHING) },
      1,
      { ClusterPropertyProviderStarted: "FailedToStart" },
    ],
    [
      "that hangs at a collection",
      { collect: hanging },
      1,
      { ClusterPropertyProviderStarted: "Started", ClusterPropertyCollectionSucceeded: "TimedOut" },
    ],
    [
      "that has hung three times",
      { collect: hanging },
      4,
      { ClusterPropertyProviderStarted: "Started", ClusterPropertyCollectionSucceeded: "TooManyCalls" },
    ],
  ])("%s has its state in conditions of KubeFleet's reasons", async (_, provider, times, reasons) => {
    const { conditions } = await collected(provider, times);
    expect(Object.fromEntries(conditions.map((it) => [it.type, it.reason]))).toEqual(reasons);
    for (const { reason, status } of conditions)
      expect(status).toBe(["Started", "PropertiesCollected"].includes(reason) ? "True" : "False");
  });

  it("may have conditions of its own", async () => {
    const own = {
      type: "CostPropertiesCollectionSucceeded",
      status: "True",
      reason: "CostsCalculated",
      message: "",
    };
    const { conditions } = await collected({
      collect: () => Promise.resolve({ ...NOTHING, conditions: [{ ...own, status: "True" as const }] }),
    });
    expect(conditions).toContainEqual(own);
  });
});
