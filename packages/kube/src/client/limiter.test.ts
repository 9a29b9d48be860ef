import { array, assert, asyncProperty, constantFrom, integer, record } from "fast-check";
import { describe, expect, it } from "vitest";
import { FairLimiter, type Permit } from "./limiter.ts";

/** Asks for a turn, and notes the flow when it is given one. */
function ask(limiter: FairLimiter, flow: string, given: { flow: string; permit: Permit }[]): void {
  void limiter.acquire(flow, undefined).then((permit) => given.push({ flow, permit }));
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Fills the limiter to its bound. */
async function fill(limiter: FairLimiter): Promise<Permit[]> {
  const given: { flow: string; permit: Permit }[] = [];
  for (let at = 0; at < limiter.state.limit; at++) ask(limiter, "first", given);
  await settled();
  return given.map((it) => it.permit);
}

describe("the limit of requests in flight", () => {
  it("B1: doubles with each full round until the server refuses, and no further than there are connections", async () => {
    const limiter = new FairLimiter();
    const limits: number[] = [];
    for (let round = 0; round < 4; round++) {
      limits.push(limiter.state.limit);
      for (const permit of await fill(limiter)) permit.release("done");
    }
    expect(limits).toEqual([16, 32, 64, 64]);
  });

  it("B1: rises by one with each full round after it refused", async () => {
    const limiter = new FairLimiter();
    for (const permit of await fill(limiter)) permit.release("throttled");
    for (let round = 0; round < 8; round++) for (const permit of await fill(limiter)) permit.release("done");
    expect(limiter.state.limit).toBeGreaterThanOrEqual(14);
    expect(limiter.state.limit).toBeLessThanOrEqual(16);
    for (let round = 0; round < 200; round++)
      for (const permit of await fill(limiter)) permit.release("done");
    expect(limiter.state).toEqual({ limit: 64, inFlight: 0, queued: 0 });
  });

  it("does not change while fewer requests are in flight", async () => {
    const limiter = new FairLimiter();
    const before = limiter.state.limit;
    for (let turn = 0; turn < 1000; turn++) (await limiter.acquire("a", undefined)).release("done");
    expect(limiter.state.limit).toBe(before);
  });

  it("B1: falls to half when the server refuses, once for all requests of a round, and never below one", async () => {
    const limiter = new FairLimiter();
    for (const permit of await fill(limiter)) permit.release("throttled");
    expect(limiter.state.limit).toBe(8);
    for (let round = 0; round < 10; round++)
      for (const permit of await fill(limiter)) permit.release("throttled");
    expect(limiter.state.limit).toBe(1);
  });

  it("serves flows in turn, so that a busy flow does not delay the others", async () => {
    const limiter = new FairLimiter();
    const [first, ...others] = await fill(limiter);
    const given: { flow: string; permit: Permit }[] = [];
    for (let at = 0; at < 100; at++) ask(limiter, "busy", given);
    ask(limiter, "quiet", given);
    ask(limiter, "other", given);
    first?.release("done");
    for (const permit of others) permit.release("done");
    await settled();
    expect(given.slice(0, 4).map((it) => it.flow)).toEqual(["busy", "quiet", "other", "busy"]);
  });

  it("removes a waiting request when its signal aborts", async () => {
    const limiter = new FairLimiter();
    const held = await fill(limiter);
    const stop = new AbortController();
    const waiting = limiter.acquire("late", stop.signal);
    stop.abort();
    await expect(waiting).rejects.toMatchObject({ code: "ABORTED" });
    expect(limiter.state.queued).toBe(0);
    for (const permit of held) permit.release("done");
    expect(limiter.state.inFlight).toBe(0);
  });

  it("is never exceeded, and every waiting request is served, in any sequence", async () => {
    const step = record({
      flow: constantFrom("a", "b", "c"),
      release: integer({ min: 0, max: 4 }),
      outcome: constantFrom("done" as const, "throttled" as const),
    });
    await assert(
      asyncProperty(array(step, { maxLength: 120 }), async (steps) => {
        const limiter = new FairLimiter();
        const given: { flow: string; permit: Permit }[] = [];
        let served = 0;
        for (const { flow, release, outcome } of steps) {
          ask(limiter, flow, given);
          await settled();
          expect(limiter.state.inFlight).toBeLessThanOrEqual(64);
          for (const { permit } of given.splice(0, release)) {
            permit.release(outcome);
            served++;
          }
        }
        while (limiter.state.inFlight > 0) {
          await settled();
          for (const { permit } of given.splice(0)) {
            permit.release("done");
            served++;
          }
        }
        expect([served, limiter.state.queued]).toEqual([steps.length, 0]);
      }),
      { numRuns: 50 },
    );
  });
});
