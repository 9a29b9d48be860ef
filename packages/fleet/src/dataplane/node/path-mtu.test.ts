import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { PROBE_MS } from "./path-choice.ts";
import { MIN_MTU, PathMtu } from "./path-mtu.ts";

const MAX = 1408;

interface Turn {
  /** The largest packet that passes. */
  readonly passes: number;
  /** Of packets of any size. */
  readonly isLost?: (request: number) => boolean;
  readonly isAlive?: boolean;
  readonly isUsed?: boolean;
}

/** Turns of 200 ms. */
class Run {
  readonly path = new PathMtu(MAX);
  #nowMs = 0;
  #request = 0;
  sent = 0;

  turn(count: number, { passes, isLost = () => false, isAlive = true, isUsed = true }: Turn): number {
    for (let at = 0; at < count; at += 1) {
      this.#nowMs += PROBE_MS;
      const view = { nowMs: this.#nowMs, isAlive, isUsed, rttMs: 10 };
      this.path.judge(view);
      for (const size of this.path.due(view)) {
        this.#request += 1;
        this.sent += 1;
        this.path.sent(this.#request, size, this.#nowMs);
        if (size <= passes && !isLost(this.#request)) this.path.answered(this.#request, size);
      }
    }
    return this.path.mtu;
  }
}

const TURNS_OF_5_S = 20;

describe("the MTU of a path", () => {
  it("is that of the device while packets of that size pass, at one request a second, or in five without traffic", () => {
    const run = new Run();
    expect(run.turn(40, { passes: 1500 })).toBe(MAX);
    expect(run.sent).toBeLessThanOrEqual(11);
    run.sent = 0;
    expect(run.turn(40, { passes: 1500, isUsed: false })).toBe(MAX);
    expect(run.sent).toBeLessThanOrEqual(3);
  });

  it("shrinks within five seconds to the largest multiple of 16 that passes, and grows again", () => {
    fc.assert(
      fc.property(fc.integer({ min: MIN_MTU, max: MAX - 1 }), (passes) => {
        const run = new Run();
        run.turn(10, { passes: 1500 });
        expect(run.turn(TURNS_OF_5_S, { passes })).toBe(passes - (passes % 16));
        expect(run.turn(3 * TURNS_OF_5_S, { passes: 1500 })).toBe(MAX);
      }),
    );
  });

  it("is not changed by packets that are lost whatever their size", () => {
    fc.assert(
      fc.property(fc.infiniteStream(fc.integer({ min: 0, max: 9 })), (dice) => {
        const run = new Run();
        run.turn(400, { passes: 1500, isLost: () => dice.next().value === 0 });
        // Three missing in a row start a search, which finds a size that one of three requests has.
        expect(run.turn(4 * TURNS_OF_5_S, { passes: 1500 })).toBe(MAX);
      }),
    );
    const run = new Run();
    expect(run.turn(100, { passes: 0, isAlive: false })).toBe(MAX);
    expect(run.sent).toBe(0);
  });

  it("is looked for at once when the tunnel takes another path", () => {
    const run = new Run();
    run.path.use("relay");
    run.turn(20, { passes: 1500 });
    run.path.use("direct");
    expect(run.turn(8, { passes: 1300 })).toBe(1296);
  });

  it("stays in the bounds of the device and of IPv6, whatever the other side answers", () => {
    const path = new PathMtu(MAX);
    path.use("relay");
    const view = { nowMs: 0, isAlive: true, isUsed: true, rttMs: 0 };
    for (const [request, size] of path.due(view).entries()) {
      path.sent(request, size, 0);
      path.answered(request, 65_535);
      path.answered(request, 28);
    }
    for (const nowMs of [1000, 2000, 3000, 4000, 5000]) {
      path.judge({ ...view, nowMs });
      path.due({ ...view, nowMs });
    }
    expect(path.mtu).toBe(MIN_MTU);
  });
});
