import { describe, expect, it } from "vitest";
import { own, sameJson } from "./json.ts";

describe("a key named as what every object inherits", () => {
  it.each(["constructor", "toString", "hasOwnProperty"])(
    "counts where an object has it itself: %s",
    (key) => {
      expect(sameJson({}, { [key]: "x" })).toBe(false);
      expect(sameJson({ [key]: "x" }, {})).toBe(false);
      expect(sameJson({ [key]: "x" }, { [key]: "x" })).toBe(true);
      expect(own({}, key)).toBeUndefined();
      expect(own({ [key]: 1 }, key)).toBe(1);
    },
  );
});
