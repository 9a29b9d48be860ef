import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { IDLE_PROBE_MS, Liveness, RunningTime } from "./liveness.ts";
import { DEAD_MS, PROBE_MS } from "./path-choice.ts";

/** A target that answers a request some turns later, or not; turns are late by chance. */
interface Turn {
  /** Since the turn before. Unit: milliseconds. */
  readonly stepMs: number;
  readonly isUsed: boolean;
  /** Turns until the answer to this turn's request is read. Undefined: never. */
  readonly answerIn: number | undefined;
}

function probe(turns: readonly Turn[]): { readonly states: readonly boolean[]; readonly sent: number } {
  const [time, liveness] = [new RunningTime(), new Liveness()];
  const pending: { readonly at: number; readonly request: number }[] = [];
  const states: boolean[] = [];
  let monotonicMs = 1000;
  let sent = 0;
  for (const [at, { stepMs, isUsed, answerIn }] of turns.entries()) {
    monotonicMs += stepMs;
    const now = time.turn(monotonicMs);
    liveness.judge(now);
    if (liveness.isDue(now, isUsed)) {
      liveness.sent(++sent, now);
      if (answerIn !== undefined) pending.push({ at: at + answerIn, request: sent });
    }
    for (const it of pending) if (it.at === at) liveness.answered(it.request, time.at(monotonicMs + 1));
    states.push(liveness.isAlive);
  }
  return { states, sent };
}

const turns = (count: number, of: Partial<Turn> = {}): readonly Turn[] =>
  Array.from({ length: count }, () => ({ stepMs: PROBE_MS, isUsed: true, answerIn: 0, ...of }));

const silent = { answerIn: undefined };

describe("the liveness of a target", () => {
  it("does not change while every request is answered within two turns, however late turns are", () => {
    const anyTurn = fc.record({
      stepMs: fc.integer({ min: 1, max: 20_000 }),
      isUsed: fc.boolean(),
      answerIn: fc.constantFrom(0, 1, 2),
    });
    fc.assert(
      fc.property(fc.array(anyTurn, { maxLength: 100 }), (late) => {
        const { states } = probe([...turns(2), ...late]);
        expect(states.slice(2)).toEqual(late.map(() => true));
      }),
    );
  });

  it("changes at most once in three turns, whatever is answered", () => {
    const anyTurn = fc.record({
      stepMs: fc.integer({ min: PROBE_MS, max: 5000 }),
      isUsed: fc.boolean(),
      answerIn: fc.option(fc.integer({ min: 0, max: 8 }), { nil: undefined }),
    });
    fc.assert(
      fc.property(fc.array(anyTurn, { maxLength: 100 }), (any) => {
        const { states } = probe([...turns(1), ...any]);
        const changes = states.flatMap((it, at) => (at > 0 && it !== states[at - 1] ? [at] : []));
        for (const [at, change] of changes.entries())
          if (at > 0) expect(change - (changes[at - 1] ?? 0)).toBeGreaterThanOrEqual(2);
      }),
    );
  });

  it.each([0.1, 1, 40, 90])(
    "ends at most 0.8 s after a target in use ceased to answer, however late in an interval, with a round trip of %d ms",
    (rttMs) => {
      const liveness = new Liveness();
      let nowMs = 0;
      const turn = (isAnswered: boolean): void => {
        nowMs += PROBE_MS;
        liveness.judge(nowMs);
        liveness.sent(nowMs, nowMs);
        if (isAnswered) liveness.answered(nowMs, nowMs + rttMs);
      };
      for (let at = 0; at < 20; at += 1) turn(true);
      // At the earliest right after the last answer.
      const ceasedMs = nowMs + rttMs;
      while (liveness.isAlive) turn(false);
      expect(nowMs - ceasedMs).toBeGreaterThanOrEqual(DEAD_MS);
      expect(nowMs - ceasedMs).toBeLessThanOrEqual(800);
    },
  );

  it("ends within an idle interval more for a target without traffic, which is probed often as soon as it is in doubt", () => {
    const idle = { isUsed: false };
    const { states } = probe([...turns(80, idle), ...turns(40, { ...idle, ...silent })]);
    const diedAt = states.indexOf(false, 1) - 80;
    expect(diedAt * PROBE_MS).toBeLessThanOrEqual(IDLE_PROBE_MS + DEAD_MS + 2 * PROBE_MS);
    expect(states.at(79)).toBe(true);
  });

  it("costs a request each two seconds while there is no traffic", () => {
    const idle = probe(turns(401, { isUsed: false })).sent;
    expect(idle).toBeLessThanOrEqual((400 * PROBE_MS) / IDLE_PROBE_MS + 2);
    expect(probe(turns(400)).sent).toBe(400);
  });

  it("costs no more while a target does not answer for long", () => {
    const { sent } = probe(turns(400, silent));
    expect(sent).toBeLessThan(100);
  });

  it("comes back after three answers, none of which is missing between", () => {
    const { states } = probe([...turns(4), ...turns(20, silent), ...turns(10)]);
    expect(states.slice(24, 27)).toEqual([false, false, true]);
  });

  it("does not come back by answers to what was sent before it died, which come all at once", () => {
    const late = [3, 2, 1].flatMap((answerIn) => turns(1, { answerIn }));
    const { states } = probe([...turns(4), ...turns(1, silent), ...late, ...turns(2)]);
    // It died in the last of the late turns, whose answer counts: it was sent after that.
    expect(states.slice(6)).toEqual([true, false, false, true]);
  });

  it("has to answer for longer after each death that follows soon on another one, up to a minute", () => {
    const backAfter = (deaths: number): number => {
      const flaps = Array.from({ length: deaths }, (_, at) => [
        ...turns(20, silent),
        // As long as the last one held it off, and a little more.
        ...turns(Math.ceil(Math.min(60_000, 2000 * 2 ** (at - 1)) / PROBE_MS) * (at === 0 ? 0 : 1) + 100),
      ]).flat();
      const { states } = probe([...turns(4), ...flaps, ...turns(20, silent), ...turns(800)]);
      const from = 4 + flaps.length + 20;
      return (states.indexOf(true, from) - from + 1) * PROBE_MS;
    };
    expect(backAfter(0)).toBe(3 * PROBE_MS);
    for (const [deaths, holdMs] of [2, 4, 8, 16, 32, 60, 60].map((it, at) => [at + 1, it * 1000] as const)) {
      const backMs = backAfter(deaths);
      expect(backMs).toBeGreaterThan(holdMs);
      // One that has been silent for long is probed less often.
      expect(backMs).toBeLessThanOrEqual(holdMs + IDLE_PROBE_MS + PROBE_MS);
    }
  });

  it("is alive a small part of the time while it comes and goes", () => {
    const flap = [...turns(6, silent), ...turns(6)];
    const { states } = probe([...turns(20), ...Array.from({ length: 40 }, () => flap).flat()]);
    expect(states.slice(20).filter(Boolean).length / (40 * 12)).toBeLessThan(0.1);
  });

  it("measures the round trip, and the share of requests that are lost", () => {
    const liveness = new Liveness();
    liveness.sent(1, 0);
    expect(liveness.answered(1, 40)).toBe(true);
    expect(liveness.answered(1, 80)).toBe(false);
    expect(liveness.rttMs).toBe(40);
    liveness.sent(2, 100);
    liveness.judge(100 + DEAD_MS + 50);
    expect(liveness.loss).toBeCloseTo(1 / 40);
  });
});
