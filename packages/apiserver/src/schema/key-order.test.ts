import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonKey } from "@fairlead/base/json.ts";
import { byUtf8, inKeyOrder } from "./key-order.ts";

describe("fields in the order of their names", () => {
  it("are sorted at every level, and lists stay as they are", () => {
    const value = { spec: { b: 1, a: [{ y: 1, x: 2 }, "z", "a"] }, kind: "Widget", apiVersion: "v1" };
    expect(JSON.stringify(inKeyOrder(value))).toBe(
      '{"apiVersion":"v1","kind":"Widget","spec":{"a":[{"x":2,"y":1},"z","a"],"b":1}}',
    );
  });
  it("leave a sorted value, and sorted parts of a value, as they are", () => {
    const sorted = { a: [{ x: { y: 1 } }], b: null };
    expect(inKeyOrder(sorted)).toBe(sorted);
    expect(inKeyOrder({ d: 1, c: sorted }).c).toBe(sorted);
  });
  it("do not change the value", () => {
    const value = { b: [{ d: 1, c: 2 }], e: { g: 1, f: 1 } };
    const text = JSON.stringify(value);
    inKeyOrder(value);
    expect(JSON.stringify(value)).toBe(text);
  });
  it("say the same as before", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        fc.pre(!JSON.stringify(value).includes("__proto__"));
        const sorted = inKeyOrder(value);
        expect(sorted).toEqual(value);
        expect(inKeyOrder(sorted)).toEqual(sorted);
        expect(JSON.stringify(sorted)).toBe(jsonKey(value));
      }),
    );
  });
  it("keep integers of 64 bits, and places of fields that are not filled in yet", () => {
    const sorted = inKeyOrder({ n: 2n ** 63n - 1n, later: undefined });
    expect(Object.keys(sorted)).toEqual(["later", "n"]);
    expect(sorted.n).toBe(2n ** 63n - 1n);
  });
  it("take a time that does not grow with the depth more than the value does", () => {
    let nested: unknown = { b: 1, a: 1 };
    for (let depth = 0; depth < 500; depth++) nested = { x: nested };
    expect(JSON.stringify(inKeyOrder(nested))).toContain('{"a":1,"b":1}');
  });
  it("are compared by the bytes of their UTF-8", () => {
    const texts = fc.string({
      unit: fc.constantFrom("a", "b", "\u00E9", "\uD7FF", "\uE000", "\uFFFD", "\u{10000}"),
      maxLength: 4,
    });
    fc.assert(
      fc.property(texts, texts, (a, b) => {
        expect(Math.sign(byUtf8(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
      }),
    );
    expect(["\u{1F600}", "\uFFFD", "a"].toSorted(byUtf8)).toEqual(["a", "\uFFFD", "\u{1F600}"]);
  });
  it("are not sorted where they read as array indices", () => {
    expect(Object.keys(inKeyOrder({ a: 1, "-": 1, "10": 1, "9": 1 }))).toEqual(["9", "10", "-", "a"]);
  });
});
