import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DelayQueue } from "./queue.ts";

const frame = (text: string): Uint8Array => Buffer.from(text);
const takeAll = (queue: DelayQueue, nowMs: number): readonly string[] => {
  const taken: string[] = [];
  for (let it = queue.take(nowMs); it !== undefined; it = queue.take(nowMs))
    taken.push(Buffer.from(it).toString());
  return taken;
};

describe("the frames on a wire", () => {
  it("leave in the order in which they came, none before its time, also while the delay changes", () => {
    const event = fc.record({
      delayMs: fc.integer({ min: 0, max: 50 }),
      waitMs: fc.integer({ min: 0, max: 20 }),
    });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 100 }), (events) => {
        const queue = new DelayQueue({ frames: 1000, bytes: 1_000_000 });
        const dueMs: number[] = [];
        const left: number[] = [];
        let nowMs = 0;
        for (const { delayMs, waitMs } of events) {
          queue.push(frame(String(dueMs.length)), nowMs + delayMs);
          dueMs.push(nowMs + delayMs);
          nowMs += waitMs;
          for (const it of takeAll(queue, nowMs)) {
            expect(dueMs[Number(it)]).toBeLessThanOrEqual(nowMs);
            left.push(Number(it));
          }
          expect(queue.nextDueMs ?? Infinity).toBeGreaterThan(nowMs);
        }
        left.push(...takeAll(queue, nowMs + 50).map(Number));
        expect(left).toEqual(dueMs.keys().toArray());
        expect(queue.nextDueMs).toBeUndefined();
      }),
    );
  });

  it("are bounded in number and in bytes; what does not fit is lost", () => {
    const few = new DelayQueue({ frames: 2, bytes: 100 });
    for (const it of ["a", "b", "c"]) few.push(frame(it), 0);
    expect(takeAll(few, 0)).toEqual(["a", "b"]);
    few.push(frame("d"), 0);
    expect(takeAll(few, 0)).toEqual(["d"]);
    const small = new DelayQueue({ frames: 100, bytes: 5 });
    for (const it of ["abc", "def", "gh"]) small.push(frame(it), 0);
    expect(takeAll(small, 0)).toEqual(["abc", "gh"]);
  });
});
