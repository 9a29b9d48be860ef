import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseMerged } from "./json-merged.ts";

describe("JSON text with duplicate keys", () => {
  it("merges repeated objects, and replaces any other repeated value", () => {
    const text =
      '{"data":{"x":"1","l":[1]},"n":1,"data":{"y":"2","l":[2,{"a":{"b":1},"a":{"c":2}}]},"n":null}';
    expect(parseMerged(text)).toEqual({
      data: { x: "1", y: "2", l: [2, { a: { b: 1, c: 2 } }] },
      n: null,
    });
  });
  it("equals the result of JSON.parse without duplicate keys", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value, undefined, 1);
        fc.pre(!text.includes("__proto__"));
        expect(parseMerged(text)).toEqual(JSON.parse(text));
      }),
    );
  });
});
