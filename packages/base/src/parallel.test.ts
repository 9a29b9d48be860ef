import { expect, it } from "vitest";
import { inParallel } from "./parallel.ts";

it("work runs on all items, on so many at once, and no other begins after an error", async () => {
  let running = 0;
  let most = 0;
  const done: number[] = [];
  const work = async (item: number): Promise<void> => {
    most = Math.max(most, ++running);
    await Promise.resolve();
    running--;
    if (item === 5) throw new Error("five");
    done.push(item);
  };
  await inParallel([1, 2, 3, 4], 2, work);
  expect([most, done]).toEqual([2, [1, 2, 3, 4]]);
  await expect(inParallel([1, 5, 6, 7, 8, 9], 2, work)).rejects.toThrow("five");
  expect(done).not.toContain(9);
});
