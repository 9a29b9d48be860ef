import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { type Lease, LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { LeaseTracker } from "./leases.ts";
import { ObservedLeases } from "./observed-leases.ts";

const LEASE_MS = 5000;
const lease = (second: number): Lease => ({
  metadata: { namespace: "fleet-member-a", name: "a" },
  spec: { renewTime: `2026-01-01T00:00:${String(second).padStart(2, "0")}.000000Z` },
});

let stop: AbortController;
beforeEach(() => void (stop = new AbortController()));
afterEach(() => stop.abort());

async function observed() {
  const clock = new FakeClock();
  const client = new FakeKubeClient(clock);
  client.seed(LEASES, lease(0));
  const leases = createInformer(client, LEASES, {}, { ...systemDeps(silentLogger), clock });
  leases.start(stop.signal);
  await leases.synced(stop.signal);
  const of = new ObservedLeases({ client, leases, tracker: new LeaseTracker(), leaseMs: LEASE_MS, clock });
  const judge = async () => (await of.judge("a", stop.signal)).liveness;
  const renew = (second: number) =>
    client.mergePatch(LEASES, objectKey("fleet-member-a", "a"), { spec: lease(second).spec });
  const countReads = () => client.reads.filter((it) => it.verb === "list").length;
  expect(await judge()).toBe("alive");
  return { clock, client, of, judge, renew, countReads };
}

describe("a member", () => {
  it("is alive while it renews its Lease, and suspect when it does not, after one request", async () => {
    const { clock, judge, renew, countReads } = await observed();
    const before = countReads();
    for (const second of [3, 6]) {
      await clock.advance(3000);
      await renew(second);
      await clock.advance(1);
      expect(await judge()).toBe("alive");
    }
    expect(countReads()).toBe(before);
    await clock.advance(LEASE_MS);
    expect(await judge()).toBe("suspect");
    expect(await judge()).toBe("suspect");
    expect(countReads()).toBe(before + 1);
  });

  it("is alive where the watch does not bring its renewals, and suspect when these end", async () => {
    const { clock, client, of, judge, renew } = await observed();
    client.deafTo.add("leases");
    for (const second of [3, 9]) {
      await renew(second);
      await clock.advance(LEASE_MS + 1000);
      expect(of.isAlive("a")).toBe(false);
      expect(await judge()).toBe("alive");
      expect(of.isAlive("a")).toBe(true);
    }
    await clock.advance(LEASE_MS);
    expect(await judge()).toBe("suspect");
  });

  it("is not judged while the server does not answer", async () => {
    const { clock, client, judge } = await observed();
    client.stop();
    await clock.advance(2 * LEASE_MS);
    await expect(judge()).rejects.toThrow("does not answer");
  });
});
