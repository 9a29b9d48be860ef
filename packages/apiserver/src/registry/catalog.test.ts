import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { byVersion } from "./catalog.ts";

describe("versions of a group", () => {
  const ordered = ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v1alpha1", "foo1", "v1rc1"];

  it("are ordered GA, beta, alpha, and by number, in whatever order they are added", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray(ordered, { minLength: ordered.length }), (shuffled) => {
        expect(shuffled.toSorted(byVersion)).toEqual(ordered);
      }),
    );
  });
});
