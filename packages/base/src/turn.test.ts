import { describe, expect, it } from "vitest";
import { finish, nextTurn, type Steps, TurnQueue } from "./turn.ts";

describe("a queue of long work", () => {
  it("does one piece of one work in each turn, in rotation", async () => {
    let nowMs = 0;
    let turn = 0;
    const turns = new TurnQueue(() => nowMs, 5);
    const seen: string[] = [];
    // Each step takes longer than a piece may.
    function* work(name: string, steps: number): Steps<string> {
      for (let at = 0; at < steps; at += 1) {
        seen.push(`${turn}${name}`);
        nowMs += 10;
        yield;
      }
      return name;
    }
    const works = Promise.all([work("a", 3), work("b", 2), work("c", 1)].map((it) => turns.finish(it)));
    for (turn = 1; turn < 10; turn += 1) await nextTurn();
    expect(await works).toEqual(["a", "b", "c"]);
    const order = seen.map((it) => it.slice(1));
    expect(order).toEqual(["a", "b", "c", "a", "b", "a"]);
    expect(new Set(seen.map((it) => it.slice(0, 1))).size).toBe(seen.length);
  });

  it("rejects with the error of the work, and continues with the others", async () => {
    const turns = new TurnQueue(() => 0, 5);
    function* failing(): Steps<void> {
      yield;
      throw new Error("refused");
    }
    const failed = turns.finish(failing());
    const other = turns.next();
    await expect(failed).rejects.toThrow("refused");
    await other;
  });
});

it("work that is finished at once returns its result", () => {
  function* work(): Steps<number> {
    yield;
    return 1;
  }
  expect(finish(work())).toBe(1);
});
