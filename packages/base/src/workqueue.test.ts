import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FakeClock } from "./clock.fake.ts";
import { createMetrics } from "./metrics.ts";
import { noMetrics } from "./metrics.none.ts";
import { WorkQueue } from "./workqueue.ts";

function createQueue(clock = new FakeClock()) {
  return { clock, queue: new WorkQueue<string>({ name: "test", clock, metrics: noMetrics }) };
}

describe("a work queue", () => {
  it("gives a key once however often it was added before it was taken", async () => {
    const { queue } = createQueue();
    queue.add("a");
    queue.add("b");
    queue.add("a");
    expect(await queue.take()).toBe("a");
    expect(await queue.take()).toBe("b");
    expect(queue.size).toBe(0);
  });

  it("gives a key that was added during the work on it again, but only after that work", async () => {
    const { queue } = createQueue();
    queue.add("a");
    await queue.take();
    queue.add("a");
    queue.add("b");
    expect(await queue.take()).toBe("b");
    queue.done("a");
    expect(await queue.take()).toBe("a");
  });

  it("puts a key that comes back behind those that wait", async () => {
    const { queue } = createQueue();
    queue.add("a");
    await queue.take();
    queue.add("a");
    queue.add("b");
    queue.done("a");
    expect([await queue.take(), await queue.take()]).toEqual(["b", "a"]);
  });

  it("lets keys pass those that can wait, but for every ninth", async () => {
    const { queue } = createQueue();
    for (const key of ["old-1", "old-2", "old-3"]) queue.addBehind(key);
    for (let at = 1; at <= 10; at += 1) queue.add(`new-${at}`);
    const taken = [];
    while (queue.size > 0) taken.push(await queue.take());
    expect(taken.slice(0, 10)).toEqual([
      ...Array.from({ length: 8 }, (_, at) => `new-${at + 1}`),
      "old-1",
      "new-9",
    ]);
    expect(taken.slice(10)).toEqual(["new-10", "old-2", "old-3"]);
  });

  it("moves a key that can wait to the others when it changes, and gives it once", async () => {
    const { queue } = createQueue();
    queue.addBehind("a");
    queue.addBehind("b");
    queue.add("b");
    queue.addBehind("b");
    expect([await queue.take(), await queue.take(), queue.size]).toEqual(["b", "a", 0]);
    queue.addBehind("a");
    queue.done("a");
    expect(await queue.take()).toBe("a");
  });

  it("doubles the delay of a key's retries from 5 ms up to 1000 s, and starts over once it is forgotten", () => {
    const { queue, clock } = createQueue();
    const delays = Array.from({ length: 22 }, () => {
      const delayMs = queue.addRateLimited("a");
      // Time for the bucket that all keys share to fill up again; the retry itself is not taken.
      void clock.advance(1000);
      return delayMs;
    });
    expect(delays.slice(0, 4)).toEqual([5, 10, 20, 40]);
    expect(Math.max(...delays)).toBe(1_000_000);
    queue.forget("a");
    expect(queue.addRateLimited("a")).toBe(5);
  });

  it("lets all keys together retry a hundred times at once and ten times a second after that", () => {
    const { queue } = createQueue();
    const delays = Array.from({ length: 110 }, (_, at) => queue.addRateLimited(`key-${at}`));
    expect(delays[99]).toBe(5);
    expect(delays[100]).toBe(100);
    expect(delays[109]).toBe(1000);
  });

  it("makes a delayed key due when its time has come, the last delay given counting", async () => {
    const { queue, clock } = createQueue();
    queue.addAfter("a", 1000);
    queue.addAfter("a", 3000);
    await clock.advance(2999);
    expect(queue.size).toBe(0);
    await clock.advance(1);
    expect(queue.size).toBe(1);
  });

  it("is not idle while a retry waits, and is while only delayed keys do", async () => {
    const { queue, clock } = createQueue();
    let isIdle = false;
    queue.addRateLimited("a");
    queue.addAfter("b", 60_000);
    void queue.idle().then(() => (isIdle = true));
    await clock.advance(5);
    expect(isIdle).toBe(false);
    expect(await queue.take()).toBe("a");
    queue.forget("a");
    queue.done("a");
    await clock.advance(0);
    expect(isIdle).toBe(true);
  });

  it("wakes those who wait when it is shut down, and takes nothing more", async () => {
    const { queue, clock } = createQueue();
    const waiting = queue.take();
    queue.shutDown();
    queue.add("a");
    queue.addAfter("b", 1);
    await clock.advance(10);
    expect(await waiting).toBeUndefined();
    expect(await queue.take()).toBeUndefined();
    expect(clock.pending).toBe(0);
  });

  it("reports depth, adds, retries and the age of unfinished work under client-go's names", async () => {
    const metrics = createMetrics();
    const clock = new FakeClock();
    const queue = new WorkQueue<string>({ name: "slices", clock, metrics });
    queue.add("a");
    queue.add("b");
    await queue.take();
    await clock.advance(2000);
    queue.addRateLimited("c");
    const text = await metrics.render();
    expect(text).toContain('workqueue_depth{name="slices",controller="slices"} 1');
    expect(text).toContain('workqueue_adds_total{name="slices",controller="slices"} 2');
    expect(text).toContain('workqueue_retries_total{name="slices",controller="slices"} 1');
    expect(text).toContain(
      'workqueue_longest_running_processor_seconds{name="slices",controller="slices"} 2',
    );
  });
});

describe("under any interleaving of adds, workers and retries", () => {
  const keys = fc.constantFrom("a", "b", "c");
  const step = fc.oneof(
    fc.record({ do: fc.constant("add" as const), key: keys }),
    fc.record({ do: fc.constant("retry" as const), key: keys }),
    fc.record({ do: fc.constant("take" as const) }),
    fc.record({ do: fc.constant("done" as const) }),
    fc.record({ do: fc.constant("time" as const), ms: fc.integer({ min: 1, max: 100 }) }),
  );

  it("no key is worked on twice at a time, and every add is followed by a pass that began after it", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const { queue, clock } = createQueue();
        const working = new Set<string>();
        const owed = new Set<string>();
        const take = async (): Promise<void> => {
          const key = await queue.take();
          if (key === undefined) return;
          expect(working.has(key)).toBe(false);
          working.add(key);
          owed.delete(key);
        };
        const finish = (): void => {
          const [key] = working;
          if (key === undefined) return;
          working.delete(key);
          queue.done(key);
        };
        for (const it of steps) {
          if (it.do === "add") owed.add(it.key);
          if (it.do === "add") queue.add(it.key);
          else if (it.do === "retry") queue.addRateLimited(it.key);
          else if (it.do === "time") await clock.advance(it.ms);
          else if (it.do === "done") finish();
          else if (queue.size > 0) await take();
        }
        while (working.size > 0 || queue.size > 0) {
          finish();
          if (queue.size > 0) await take();
        }
        expect([...owed]).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });
});
