/** Clocks that jump by a day while everything runs. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { INTERNAL_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { deploy, ensureNamespace, exportBy, sliceOf, startFleet, type TestFleet } from "../support/fleet.ts";
import { WrongClock } from "../support/wrong-clock.ts";
import { eventuallyOne } from "../support/waiting.ts";
import { sampleOf } from "../support/sample.ts";
import { type Sight, watchSight } from "../support/sight.ts";

const DAY_MS = 86_400_000;

const WHOSE = ["hub", "a", "c", "hub/apiserver", "a/apiserver", "c/apiserver"] as const;
const clocks = Object.fromEntries(WHOSE.map((it) => [it, new WrongClock()]));
let fleet: TestFleet;
let sight: Sight;

beforeAll(async () => {
  fleet = await startFleet({
    members: ["a", "b", "c"],
    leaseSeconds: 4,
    clocks,
    byToken: ["b"],
    // Nothing answers: a member that the hub wrongly calls suspect loses its endpoints.
    probe: () => () => Promise.resolve("silent"),
  });
  await ensureNamespace(fleet.client("c"), "work");
  await deploy(fleet.client("a"), { addresses: ["10.1.0.1"] });
  await exportBy("mcs", fleet.client("a"));
  sight = watchSight(fleet.client("c"));
  await sight.until((it) => it.imported === "10.1.0.1" && it.derived !== "");
});
afterAll(async () => {
  await sight[Symbol.asyncDispose]();
  await fleet[Symbol.asyncDispose]();
});

const endpoints = (addresses: readonly string[]) =>
  fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey("work", "hello-abcde"), {
    endpoints: sliceOf({ addresses }).endpoints,
  });

/** The member renews its lease, and the hub has seen it do so. */
async function untilReceived(name: string): Promise<void> {
  const lease = async (): Promise<string | undefined> => {
    const { status } = await fleet.client("hub").get(MEMBER_CLUSTERS, objectKey(undefined, name));
    return status?.agentStatus?.[0]?.lastReceivedHeartbeat;
  };
  const before = await lease();
  await eventuallyOne(
    fleet.client("hub"),
    MEMBER_CLUSTERS,
    objectKey(undefined, name),
    (it) => it.status?.agentStatus?.[0]?.lastReceivedHeartbeat !== before,
  );
}

async function conditionsOf(name: string): Promise<readonly string[]> {
  const { status } = await fleet.client("hub").get(MEMBER_CLUSTERS, objectKey(undefined, name));
  return (status?.conditions ?? []).map((it) => `${it.type} ${it.status} ${it.lastTransitionTime}`);
}

const JUMPS = WHOSE.flatMap((it) => [[it, DAY_MS] as const, [it, -DAY_MS] as const]);

it.each(sampleOf(JUMPS, [0, 5, 8]))(
  "a jump of the clock of %s by %d ms makes no member late, and stops no change",
  async (whose, aheadMs) => {
    const before = await Promise.all(["a", "c"].map(conditionsOf));
    const whole = sight.now;
    const clock = clocks[whose];
    if (clock instanceof WrongClock) clock.aheadMs = aheadMs;
    await endpoints(["10.1.0.1", "10.1.0.2"]);
    await sight.until((it) => it.imported === "10.1.0.1 10.1.0.2");
    await untilReceived("a");
    if (clock instanceof WrongClock) clock.aheadMs = 0;
    await endpoints(["10.1.0.1"]);
    await sight.until((it) => it.imported === "10.1.0.1");
    await untilReceived("a");
    expect(await Promise.all(["a", "c"].map(conditionsOf))).toEqual(before);
    expect(sight.since(whole).every((it) => it.imported.startsWith("10.1.0.1"))).toBe(true);
    expect(new Set(sight.since(whole).map((it) => it.derived)).size).toBe(1);
  },
);

it("a token that a hub with a wrong clock treats as expired works again when the clock is right", async () => {
  const hub = clocks["hub/apiserver"];
  if (!(hub instanceof WrongClock)) throw new Error("unreachable");
  const { session } = fleet.running.get("b")!;
  const read = () => session.hub.list(INTERNAL_SERVICE_EXPORTS, { namespace: "fleet-member-b" });
  const isRefused = async (): Promise<boolean> => {
    try {
      await read();
      return false;
    } catch (error) {
      if (hasCode(error, "API_UNAUTHORIZED")) return true;
      throw error;
    }
  };
  hub.aheadMs = DAY_MS;
  expect(await isRefused()).toBe(true);
  hub.aheadMs = 0;
  expect(await isRefused()).toBe(false);
  await untilReceived("b");
});
