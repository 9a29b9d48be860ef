import { describe, expect, it } from "vitest";
import {
  all,
  between,
  choice,
  distinct,
  each,
  fields,
  filled,
  firstOf,
  oneOf,
  optional,
  present,
} from "./rules.ts";
import { invalid, required } from "#values/field-errors.ts";

const wrong = (at: string) => (value: unknown, path: string) => [invalid(path, value, at)];

describe("rules of fields", () => {
  it("report the path of an error, also inside lists", () => {
    const port = fields({ ports: each(fields({ port: between(1, 65_535) })) });
    expect(port({ ports: [{ port: 80 }, { port: 0 }, {}] }, "spec").map((it) => it.field)).toEqual([
      "spec.ports[1].port",
      "spec.ports[2].port",
    ]);
  });

  it("treat an absent field as the empty text or zero, unless it is optional", () => {
    expect(oneOf("A")(undefined, "x")[0]?.message).toBe('Unsupported value: "": supported values: "A"');
    expect(optional(oneOf("A"))("", "x")).toEqual([]);
    expect(present(oneOf("A"))("", "x")).toHaveLength(1);
    expect(present(oneOf("A"))(undefined, "x")).toEqual([]);
  });

  it("report a field as missing or as invalid, but not both", () => {
    expect(filled("why", wrong("a"))("", "x").map((it) => it.message)).toEqual(["Required value: why"]);
    expect(filled("why", wrong("a"))("v", "x").map((it) => it.message)).toEqual(['Invalid value: "v": a']);
  });

  it("report all errors in order, or only that of the first rule that fails", () => {
    expect(all(wrong("a"), wrong("b"))(1, "x")).toHaveLength(2);
    expect(firstOf(() => [], wrong("b"), wrong("c"))(1, "x").map((it) => it.message)).toEqual([
      "Invalid value: 1: b",
    ]);
  });

  it("report the second of two equal values that must be unique", () => {
    expect(distinct((it) => it)(["a", "b", "a"], "x").map((it) => it.field)).toEqual(["x[2]"]);
  });

  it("require exactly one of several fields", () => {
    const one = choice(
      {
        of: ["a", "b"],
        none: (path) => required(path, "one"),
        several: (path, field) => invalid(`${path}.${field}`, "", "two"),
      },
      { a: wrong("of a") },
    );
    expect(one({}, "x").map((it) => it.message)).toEqual(["Required value: one"]);
    expect(one({ a: 1, b: 2 }, "x").map((it) => it.field)).toEqual(["x.a", "x.b"]);
  });
});
