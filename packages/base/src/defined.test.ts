import { describe, expect, it } from "vitest";
import { defined } from "./defined.ts";

describe("the defined fields of an object", () => {
  it("are those that are not undefined, null and empty ones among them", () => {
    const fields = defined({ a: 1, b: undefined, c: null, d: "", e: 0 });
    expect(Object.entries(fields)).toEqual([
      ["a", 1],
      ["c", null],
      ["d", ""],
      ["e", 0],
    ]);
  });
});
