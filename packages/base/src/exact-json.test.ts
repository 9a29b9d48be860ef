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
