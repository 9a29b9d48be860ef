import * as fc from "fast-check";
import { expect, it } from "vitest";
import { cloneJson, sameJson } from "./json.ts";
import { parseExact } from "./exact-json.ts";

it("integers of 64 bits are written with the digits that they were read with", () => {
  const text =
    '{"a":[9007199254740993,-9223372036854775808,{"b":9223372036854775807}],"c":9007199254740992,"d":"12345678901234567890"}';
  expect(JSON.stringify(parseExact(text))).toBe(text);
  expect(JSON.stringify(cloneJson(parseExact(text)))).toBe(text);
});

it("only integers that a number cannot hold are bigints", () => {
  expect(parseExact('{"a":9007199254740993,"b":9007199254740992,"c":1,"d":0.1234567890123456}')).toEqual({
    a: 9_007_199_254_740_993n,
    b: 2 ** 53,
    c: 1,
    d: 0.1234567890123456,
  });
});

it("neighbours that one number would stand for differ", () => {
  const of = (digits: string): unknown => parseExact(`{"a":${digits}}`);
  expect(sameJson(of("9007199254740993"), of("9007199254740993"))).toBe(true);
  expect(sameJson(of("9007199254740993"), of("9007199254740995"))).toBe(false);
});

it("no nesting exhausts the stack, and deep values are read as others are", () => {
  const levels = 5000;
  const strings = fc.oneof(
    fc.string(),
    fc.constantFrom("\u{E000}1", "\u{E000}\u{E000}", '\\"', "12345678901234567890"),
  );
  const values = fc.jsonValue({ stringUnit: "binary" });
  fc.assert(
    fc.property(values, fc.dictionary(strings, fc.oneof(strings, fc.maxSafeInteger())), (value, texts) => {
      const inner = `{"long": 9007199254740993, "value":${JSON.stringify([value, texts])},"escaped":"\\ue0007"}`;
      let read = parseExact(`${"[".repeat(levels)}${inner}${"]".repeat(levels)}`);
      for (let at = 0; at < levels; at += 1) read = (read as unknown[])[0];
      expect(read).toEqual(parseExact(inner));
      expect(read).toMatchObject({ long: 9_007_199_254_740_993n, escaped: "\u{E000}7" });
    }),
    { numRuns: 20 },
  );
});
