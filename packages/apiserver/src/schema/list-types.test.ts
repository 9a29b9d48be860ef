import { describe, expect, it } from "vitest";
import { validateListTypes } from "./list-types.ts";
import type { Schema } from "./types.ts";

const MAP_LIST: Schema = {
  type: "array",
  "x-kubernetes-list-type": "map",
  "x-kubernetes-list-map-keys": ["n"],
};
const SET: Schema = { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } };

function problems(value: unknown, field: Schema): string[] {
  const schema: Schema = { type: "object", properties: { x: field } };
  return validateListTypes({ x: value }, schema).map((it) => `${it.field}: ${it.message}`);
}

describe("items of sets and of keyed lists", () => {
  it.each<[unknown, Schema, string[]]>([
    [["a", "a", "a", "b"], SET, ['x[1]: Duplicate value: "a"']],
    [
      [
        { a: 1, b: 2 },
        { b: 2, a: 1 },
      ],
      SET,
      ['x[1]: Duplicate value: {"b":2,"a":1}'],
    ],
    [[{ n: 1 }, { n: 2 }, { n: 1, m: 1 }], MAP_LIST, ['x[2]: Duplicate value: {"n":1}']],
    [[{ m: 1 }, null], MAP_LIST, ["x[1]: Duplicate value: {}"]],
    [
      [{ n: 1 }, 0, "a", { n: 1 }],
      MAP_LIST,
      ["x[1]: Invalid value: 0: must be an object for an array of list-type map"],
    ],
    [[["a", "a"]], { type: "array", items: SET }, ['x[0][1]: Duplicate value: "a"']],
    [{ k: ["a", "a"] }, { type: "object", additionalProperties: SET }, ['x[k][1]: Duplicate value: "a"']],
    [["a", "b"], SET, []],
    ["a", SET, []],
    [["a", "a"], { type: "array", items: { type: "string" } }, []],
  ])("of %j", (value, schema, expected) => {
    expect(problems(value, schema)).toEqual(expected);
  });

  it("are not reported beyond a hundred errors", () => {
    const values = Array.from({ length: 1000 }, (_, at) => String(at >> 1));
    expect(problems(values, SET)).toHaveLength(100);
  });
});
