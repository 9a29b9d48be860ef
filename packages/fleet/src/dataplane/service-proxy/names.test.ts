import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { affinityTimeout, affinityTimeouts } from "./names.ts";

describe("a timeout of an affinity", () => {
  it("is rounded up to the next timeout that has a chain", () => {
    const all = affinityTimeouts();
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 86_400 }), (seconds) => {
        expect(affinityTimeout(seconds)).toBe(all.find((it) => it >= seconds));
      }),
    );
    for (const usual of [1, 3, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 86_400])
      expect(affinityTimeout(usual)).toBe(usual);
  });
});
