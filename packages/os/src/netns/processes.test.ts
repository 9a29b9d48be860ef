import { expect, it } from "vitest";
import { pidsByNetns } from "./processes.ts";

it("a network namespace that is absent has no processes, and hides those of no other", async () => {
  const [absent, below, own] = ["/run/none/netns", "/proc/self/stat/netns", "/proc/self/ns/net"];
  const found = await pidsByNetns([absent, below, own]);
  expect(found.get(absent)).toEqual([]);
  expect(found.get(below)).toEqual([]);
  expect(found.get(own)).toContain(process.pid);
});
