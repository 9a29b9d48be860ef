import * as fc from "fast-check";
import { expect, it } from "vitest";
import { largestPassing, MTU_RANGE } from "./mtu.ts";

it("the search finds the largest size that passes, with few tries", async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 500, max: 9300 }), async (limit) => {
      let tries = 0;
      const found = await largestPassing(MTU_RANGE, (size) => {
        tries++;
        return Promise.resolve(size <= limit);
      });
      expect(found).toBe(limit < MTU_RANGE.least ? undefined : Math.min(limit, MTU_RANGE.most));
      expect(tries).toBeLessThan(17);
    }),
  );
});
