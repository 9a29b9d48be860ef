import { beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { type Exchange, Reachability } from "./reachability.ts";

const TIMEOUT = Object.assign(new Error("nothing came"), { code: "UND_ERR_CONNECT_TIMEOUT" });
const RESET = Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });
const REFUSED = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });

let clock: FakeClock;
let suspicions: number;
let probes: { readonly atMs: number; readonly signal: AbortSignal }[];
let onProbe: (signal: AbortSignal) => Promise<void>;
let reach: Reachability;

beforeEach(() => {
  clock = new FakeClock();
  suspicions = 0;
  probes = [];
  onProbe = async () => reach.noteFailure(REFUSED);
  const startMs = clock.now();
  reach = new Reachability({
    clock,
    rng: { random: () => 0 },
    onSuspicion: () => suspicions++,
    probe: async (signal) => {
      probes.push({ atMs: clock.now() - startMs, signal });
      await onProbe(signal);
    },
  });
});

const begin = (silentAfterMs?: number): Exchange => reach.begin(undefined, silentAfterMs);

/** A watch that is open. */
function stream(): Exchange {
  const exchange = begin();
  reach.noteResponse(exchange);
  return exchange;
}

/** A response to a request that is sent now. */
function answer(): void {
  using exchange = begin();
  reach.noteResponse(exchange);
}

describe("after a silence, a response to what was sent since", () => {
  it("ends streams without data since, and calls that were sent before", async () => {
    const watch = stream();
    const call = begin();
    await clock.advance(1000);
    reach.noteFailure(TIMEOUT);
    const during = begin();
    await clock.advance(1000);
    answer();
    expect([watch, call, during].map((it) => it.isLost)).toEqual([true, true, true]);
  });

  it("keeps streams that received data", async () => {
    const watch = stream();
    await clock.advance(1000);
    reach.noteFailure(TIMEOUT);
    await clock.advance(1000);
    watch.noteAnswer();
    await clock.advance(1000);
    answer();
    expect(watch.isLost).toBe(false);
  });

  it("ignores calls that ended or were aborted", async () => {
    const stop = new AbortController();
    const givenUp = reach.begin(stop.signal, undefined);
    const ended = begin();
    ended[Symbol.dispose]();
    stop.abort();
    await clock.advance(1000);
    reach.noteFailure(TIMEOUT);
    await clock.advance(1000);
    answer();
    expect([givenUp.isLost, givenUp.signal.aborted, ended.isLost]).toEqual([false, true, false]);
  });
});

describe("a response that comes late, to what was sent before the silence,", () => {
  it("shows that the server is slow, and ends no call", async () => {
    const watch = stream();
    const call = begin();
    const slow = begin(1500);
    await clock.advance(2000);
    expect([reach.isAway, suspicions]).toEqual([true, 1]);
    reach.noteResponse(slow);
    await clock.advance(1000);
    answer();
    expect(reach.isAway).toBe(false);
    expect([watch, call].map((it) => it.isLost)).toEqual([false, false]);
  });
});

describe("a response after a long silence, to what was sent before it,", () => {
  it("ends streams without data since, and calls that were sent before: TCP may not send on them again for as long", async () => {
    const watch = stream();
    const heard = stream();
    const early = begin(1500);
    const call = begin();
    await clock.advance(14_000);
    const late = begin();
    heard.noteAnswer();
    await clock.advance(1000);
    reach.noteResponse(early);
    expect(reach.isAway).toBe(false);
    expect([watch, call].map((it) => it.isLost)).toEqual([true, true]);
    expect([heard, late].map((it) => it.isLost)).toEqual([false, false]);
  });
});

describe("open connections", () => {
  it.each([
    ["nothing came back", TIMEOUT, 1],
    ["one is not known any more at the other end", RESET, 1],
    ["the connection is refused, which is a response", REFUSED, 0],
  ])("are suspected where %s", (_, error, count) => {
    reach.noteFailure(error);
    expect([reach.isAway, suspicions]).toEqual([true, count]);
  });

  it("are not suspected for a call that is answered in time", async () => {
    reach.noteResponse(begin(1500));
    await clock.advance(5000);
    expect(suspicions).toBe(0);
  });
});

describe("a call without any outage", () => {
  it("is lost if a much later call is answered, unlike a watch", async () => {
    const watch = stream();
    const call = begin();
    await clock.advance(39_000);
    answer();
    expect(call.isLost).toBe(false);
    await clock.advance(2000);
    answer();
    expect([call.isLost, watch.isLost]).toEqual([true, false]);
  });
});

it("notifies waiters once per outage, until they stop waiting", () => {
  let calls = 0;
  const subscription = reach.onReachable(() => calls++);
  answer();
  expect(calls).toBe(0);
  reach.noteFailure(REFUSED);
  reach.noteFailure(REFUSED);
  answer();
  answer();
  expect(calls).toBe(1);
  subscription[Symbol.dispose]();
  reach.noteFailure(REFUSED);
  answer();
  expect(calls).toBe(1);
});

describe("an unreachable server for which callers wait", () => {
  it("is probed twice a second for all waiters, until it answers", async () => {
    using _one = reach.onReachable(() => {});
    using _other = reach.onReachable(() => {});
    reach.noteFailure(REFUSED);
    reach.noteFailure(REFUSED);
    await clock.advance(2000);
    onProbe = async () => answer();
    await clock.advance(10_000);
    expect(probes.map((it) => it.atMs)).toEqual([200, 600, 1100, 1600, 2100]);
    expect(reach.isAway).toBe(false);
    reach.noteFailure(REFUSED);
    await clock.advance(300);
    expect(probes.at(-1)?.atMs).toBe(12_200);
  });

  it("is probed again only after five seconds of silence, and the first probe is aborted", async () => {
    onProbe = (signal) => new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
    using _waits = reach.onReachable(() => {});
    reach.noteFailure(REFUSED);
    await clock.advance(5700);
    expect(probes.map((it) => it.atMs)).toEqual([200, 5600]);
    expect(probes[0]?.signal.reason).toMatchObject({ code: "TIMED_OUT" });
  });

  it("is probed only while a caller waits", async () => {
    reach.noteFailure(REFUSED);
    await clock.advance(10_000);
    const waiting = reach.onReachable(() => {});
    await clock.advance(300);
    expect(probes.map((it) => it.atMs)).toEqual([10_200]);
    waiting[Symbol.dispose]();
    await clock.advance(10_000);
    expect(probes).toHaveLength(1);
  });

  it("is not probed once another call reached it, nor after dispose", async () => {
    using _waits = reach.onReachable(() => {});
    reach.noteFailure(REFUSED);
    answer();
    await clock.advance(10_000);
    expect(probes).toEqual([]);
    reach.noteFailure(REFUSED);
    reach[Symbol.dispose]();
    await clock.advance(10_000);
    expect(probes).toEqual([]);
  });
});
