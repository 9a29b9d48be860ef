import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import type { Session } from "../session.ts";
import { Probes } from "./probes.ts";

const LEASE_MS = 10_000;
const GONE = "10.1.0.1";
const THERE = "10.1.0.2";

/** A member that imports a service of cluster "a", of which one endpoint is gone: the view does not say so yet. */
async function started() {
  const clock = new FakeClock();
  let suspects: readonly string[] = [];
  let onChange = (): void => {};
  const endpoints = [GONE, THERE].map((it) => ({ addresses: [it] }));
  const slice = {
    metadata: { name: "s" },
    spec: {
      addressType: "IPv4",
      endpoints,
      ports: [{ port: 80 }],
      endpointSliceReference: { clusterId: "a" },
      ownerServiceReference: { namespace: "work", name: "hello" },
    },
  };
  const internalMembers = {
    subscribe(listener: () => void) {
      onChange = listener;
      return { [Symbol.dispose]() {} };
    },
    store: { get: () => ({ spec: { suspects: suspects.map((cluster) => ({ cluster })) } }) },
  };
  const session = {
    cluster: "own",
    mailbox: { internalMembers },
    fleet: { sliceImports: { list: () => [slice], byIndex: () => [slice] } },
    here: { mcsImports: { store: { get: () => ({}) } } },
    deps: { clock, log: silentLogger },
  };
  const probes = new Probes(session as unknown as Session, (address) => Promise.resolve(address !== GONE));
  await probes.start(new AbortController().signal);
  return {
    clock,
    probes,
    endpoints,
    /** What the hub reports in the InternalMemberCluster. */
    async names(...clusters: readonly string[]): Promise<void> {
      suspects = clusters;
      onChange();
      await clock.advance(0);
    },
  };
}

describe("a cluster that this member doubts because it did not hear from the hub", () => {
  it("keeps its silent endpoints out of use if the hub, back again, reports that it lost the cluster and has it again", async () => {
    const { clock, probes, names, endpoints } = await started();
    probes.doubt();
    await clock.advance(2000);
    expect([GONE, THERE].map((it) => probes.isAlive("a", [it]))).toEqual([false, true]);
    probes.trust(LEASE_MS);
    // Two states that have long passed, before the hub's view reports which endpoints went.
    await names("a");
    await names();
    expect(probes.isAlive("a", [GONE])).toBe(false);
    expect(probes.isDoubted("a")).toBe(true);
    endpoints.shift();
    await clock.advance(1000);
    expect(probes.isInDoubt).toBe(false);
  });

  it("is trusted again once the hub had the time to report that it lost it", async () => {
    const { clock, probes } = await started();
    probes.doubt();
    await clock.advance(2000);
    probes.trust(LEASE_MS);
    await clock.advance(2 * LEASE_MS - 1000);
    expect(probes.isAlive("a", [GONE])).toBe(false);
    await clock.advance(2000);
    expect(probes.isAlive("a", [GONE])).toBe(true);
  });
});

describe("a cluster that the hub lost", () => {
  it("is used again in full as soon as the hub has it again", async () => {
    const { clock, probes, names } = await started();
    await names("a");
    await clock.advance(1000);
    expect(probes.isAlive("a", [GONE])).toBe(false);
    await names();
    expect(probes.isAlive("a", [GONE])).toBe(true);
  });
});
