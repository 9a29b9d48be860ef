import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import type { Session } from "../session.ts";
import type { ProbeAnswer } from "./tcp.ts";
import { Probes } from "./probes.ts";

const LEASE_MS = 10_000;
/** The longest gap between two questions to a cluster that answers. */
const ROUND_MS = 4300;
const GONE = "10.1.0.1";
const THERE = "10.1.0.2";

/** A member that imports a service of cluster "a", of which one endpoint is gone: the view does not say so yet. */
async function started({
  mode = "flat",
  silent = new Set([GONE]),
  refusing = new Set<string>(),
  isEmpty = false,
  link,
  rttMs = 0,
}: {
  readonly mode?: string;
  readonly silent?: Set<string>;
  readonly refusing?: Set<string>;
  readonly isEmpty?: boolean;
  /** Whether packets arrive, by the time since the start. */
  readonly link?: (atMs: number) => boolean;
  /** Unit: milliseconds. */
  readonly rttMs?: number;
} = {}) {
  const clock = new FakeClock();
  const beganMs = clock.monotonic();
  let suspects: readonly string[] = [];
  let onChange = (): void => {};
  let onSlice: (change: unknown) => void = () => {};
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
  const slices = isEmpty ? [] : [slice];
  const internalMembers = {
    subscribe(listener: () => void) {
      onChange = listener;
      return { [Symbol.dispose]() {} };
    },
    store: {
      get: () => ({ spec: { suspects: suspects.map((cluster) => ({ cluster })), network: { mode } } }),
    },
  };
  const session = {
    cluster: "own",
    mailbox: { internalMembers },
    fleet: {
      sliceImports: {
        list: () => slices,
        get: () => slices[0],
        byIndex: () => slices,
        subscribe(listener: (change: unknown) => void) {
          onSlice = listener;
          return { [Symbol.dispose]() {} };
        },
      },
    },
    here: { mcsImports: { store: { get: () => ({}) } } },
    mesh: {},
    deps: { clock, log: silentLogger },
  };
  let asked = 0;
  const probes = new Probes(session as unknown as Session, (address) => {
    asked += 1;
    return link === undefined
      ? Promise.resolve(refusing.has(address) ? "refused" : silent.has(address) ? "silent" : "connected")
      : connects(() => link(clock.monotonic() - beganMs), clock, rttMs);
  });
  await probes.start(new AbortController().signal);
  return {
    clock,
    probes,
    endpoints,
    silent,
    asked: () => asked,
    async appears(): Promise<void> {
      slices.push(slice);
      onSlice({ after: slice });
      await clock.advance(0);
    },
    async moves(...addresses: readonly string[]): Promise<void> {
      const before = { ...slice, spec: { ...slice.spec, endpoints: [...endpoints] } };
      endpoints.splice(0, endpoints.length, ...addresses.map((it) => ({ addresses: [it] })));
      onSlice({ before, after: slice });
      await clock.advance(0);
    },
    /** What the hub reports in the InternalMemberCluster. */
    async names(...clusters: readonly string[]): Promise<void> {
      suspects = clusters;
      onChange();
      await clock.advance(0);
    },
  };
}

/** As Linux does: a SYN, and another one after a second. Given up after a second and a half. */
async function connects(link: () => boolean, clock: FakeClock, rttMs: number): Promise<ProbeAnswer> {
  const later = (ms: number): Promise<void> => new Promise((resolve) => void clock.after(ms, resolve));
  if (link()) {
    await later(rttMs);
    return "connected";
  }
  await later(1000);
  const isAnswered = link() && rttMs < 500;
  await later(isAnswered ? rttMs : 500);
  return isAnswered ? "connected" : "silent";
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

it("a service is named whose endpoints refuse connections, until one is answered or is silent", async () => {
  const silent = new Set<string>();
  const refusing = new Set([GONE, THERE]);
  const { clock, probes, moves } = await started({ silent, refusing });
  const minute = async (): Promise<void> => {
    for (let second = 0; second < 60; second++) await clock.advance(1000);
  };
  await minute();
  expect(probes.refused).toEqual(["a/work/hello"]);
  await moves(GONE, THERE);
  expect(probes.refused).toEqual([]);
  await minute();
  expect(probes.refused).toEqual(["a/work/hello"]);
  refusing.delete(THERE);
  await minute();
  expect(probes.refused).toEqual([]);
  silent.add(THERE);
  await minute();
  expect(probes.refused).toEqual([]);
});

describe("a cluster to which the data path is cut while the hub has it", () => {
  const both = (probes: Probes): boolean[] => [GONE, THERE].map((it) => probes.isAlive("a", [it]));
  /** When a link begins to come and go, and when it is there to stay. */
  const [BEGIN_MS, END_MS] = [60_000, 360_000];
  const STEP_MS = 100;
  const minute = async (clock: FakeClock): Promise<void> => {
    for (let second = 0; second < 60; second++) await clock.advance(1000);
  };

  it("is left out with all of its endpoints, where others are left, until some have answered three times", async () => {
    const { clock, probes, silent } = await started({ silent: new Set() });
    await minute(clock);
    for (const it of [GONE, THERE]) silent.add(it);
    await clock.advance(ROUND_MS);
    expect(both(probes)).toEqual([false, false]);
    // By which the last endpoints of a service stay.
    expect(probes.isDoubted("a")).toBe(true);
    await minute(clock);
    silent.delete(THERE);
    await clock.advance(1000);
    expect(both(probes)).toEqual([false, false]);
    await clock.advance(1000);
    await clock.advance(1000);
    expect(both(probes)).toEqual([true, true]);
    expect(probes.isInDoubt).toBe(false);
  });

  it.each([0, 200, 1000])(
    "is seen to be cut if the cut comes right after its endpoints, which answer after %d ms at first",
    async (untilMs) => {
      const { clock, probes, silent, appears } = await started({
        isEmpty: true,
        silent: new Set([GONE, THERE]),
      });
      await clock.advance(1000);
      if (untilMs === 0) silent.clear();
      await appears();
      await clock.advance(untilMs);
      silent.clear();
      await clock.advance(untilMs);
      for (const it of [GONE, THERE]) silent.add(it);
      await clock.advance(6000);
      expect(both(probes)).toEqual([false, false]);
    },
  );

  it("is seen to be cut if the cut comes after all of its endpoints were replaced", async () => {
    const { clock, probes, silent, moves } = await started({ silent: new Set() });
    await minute(clock);
    const [next, last] = ["10.1.0.3", "10.1.0.4"];
    await moves(next, last);
    await clock.advance(100);
    for (const it of [next, last]) silent.add(it);
    await clock.advance(6000);
    expect([next, last].map((it) => probes.isAlive("a", [it]))).toEqual([false, false]);
  });

  it("is seen to be cut if the cut comes soon after the hub has found the cluster again", async () => {
    const { clock, probes, silent, names } = await started({ silent: new Set() });
    await minute(clock);
    await names("a");
    await minute(clock);
    await names();
    await clock.advance(100);
    for (const it of [GONE, THERE]) silent.add(it);
    await minute(clock);
    expect(both(probes)).toEqual([false, false]);
    expect(probes.cutOff).toEqual(["a"]);
  });

  it.each([
    [1500, 1500],
    [700, 700],
    [3000, 3000],
    [6000, 2000],
    [20_000, 4000],
  ])(
    "is left out most of the time while its path is there for %d ms and away for %d ms",
    async (upMs, downMs) => {
      const isUp = (atMs: number): boolean =>
        atMs < BEGIN_MS || atMs >= END_MS || (atMs - BEGIN_MS) % (upMs + downMs) >= downMs;
      const { clock, probes } = await started({ link: isUp });
      const counts = { lost: 0, all: 0 };
      for (let atMs = STEP_MS; atMs <= END_MS + 60_000; atMs += STEP_MS) {
        await clock.advance(STEP_MS);
        if (atMs === BEGIN_MS) expect(both(probes)).toEqual([true, true]);
        if (isUp(atMs)) continue;
        counts.all++;
        if (probes.isAlive("a", [GONE])) counts.lost++;
      }
      // Most of the rest are the first cuts, which are not known at once.
      expect(counts.lost / counts.all).toBeLessThan(0.35);
      expect(both(probes)).toEqual([true, true]);
    },
  );

  it.each([0, 300, 1200])(
    "is trusted while a packet is lost now and then, with a round trip of %d ms",
    async (rttMs) => {
      let asked = 0;
      const { clock, probes } = await started({ link: () => ++asked % 20 !== 0, rttMs });
      for (let at = 0; at < 300_000; at += 100) {
        await clock.advance(100);
        expect(both(probes)).toEqual([true, true]);
      }
    },
  );

  it("is trusted while one endpoint answers, whatever the others do", async () => {
    const { clock, probes, silent, asked } = await started({ silent: new Set() });
    await minute(clock);
    silent.add(GONE);
    await minute(clock);
    expect(both(probes)).toEqual([true, true]);
    const before = asked();
    await minute(clock);
    // One of two asks for the other, too.
    expect(asked() - before).toBeLessThanOrEqual(32);
  });

  it("is not judged by endpoints that never answered, as policies may have it, nor by such as are gone", async () => {
    const { clock, probes, endpoints, silent } = await started();
    await minute(clock);
    endpoints.pop();
    silent.add(THERE);
    await minute(clock);
    expect(both(probes)).toEqual([true, true]);
  });

  it("costs one connection for each cluster in three seconds, and none in a parallel network", async () => {
    const flat = await started({ silent: new Set() });
    await minute(flat.clock);
    expect(flat.asked()).toBeLessThanOrEqual(21);
    const parallel = await started({ mode: "parallel" });
    await minute(parallel.clock);
    expect(parallel.asked()).toBe(0);
  });

  it("stays left out if the hub loses it and has it again in between", async () => {
    const { clock, probes, names, silent } = await started({ silent: new Set() });
    await minute(clock);
    for (const it of [GONE, THERE]) silent.add(it);
    await clock.advance(ROUND_MS);
    await names("a");
    await names();
    await clock.advance(1000);
    expect(both(probes)).toEqual([false, false]);
  });
});
