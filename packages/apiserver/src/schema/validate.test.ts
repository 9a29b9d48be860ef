import { describe, expect, it } from "vitest";
import { isOfFormat } from "./formats.ts";
import { validateValue } from "./validate.ts";

function problems(value: unknown, schema: object, old?: unknown): string[] {
  return validateValue({
    value,
    schema,
    path: "spec.x",
    resolve: () => undefined,
    old,
  }).map((it) => `${it.field}: ${it.message}`);
}

describe("a value that violates its schema", () => {
  it.each([
    [
      "a",
      { type: "integer" },
      'spec.x: Invalid value: "string": spec.x in body must be of type integer: "string"',
    ],
    [
      1.5,
      { type: "integer" },
      'spec.x: Invalid value: "number": spec.x in body must be of type integer: "number"',
    ],
    [
      null,
      { type: "string" },
      'spec.x: Invalid value: "null": spec.x in body must be of type string: "null"',
    ],
    [
      3_000_000_000,
      { type: "integer", format: "int32" },
      '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x',
    ],
    [
      true,
      { "x-kubernetes-int-or-string": true },
      'spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean"',
    ],
    [
      0,
      { type: "integer", minimum: 1 },
      "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
    ],
    [
      1,
      { type: "integer", minimum: 1, exclusiveMinimum: true },
      "spec.x: Invalid value: 1: spec.x in body should be greater than 1",
    ],
    [
      9,
      { type: "number", maximum: 8 },
      "spec.x: Invalid value: 9: spec.x in body should be less than or equal to 8",
    ],
    [
      7,
      { type: "integer", multipleOf: 5 },
      "spec.x: Invalid value: 7: spec.x in body should be a multiple of 5",
    ],
    [
      1,
      { type: "number", multipleOf: 0.5 },
      "spec.x: Invalid value: 0: factor MultipleOf declared for spec.x must be positive: 0",
    ],
    [
      "b",
      { type: "string", pattern: "^a$" },
      "spec.x: Invalid value: \"b\": spec.x in body should match '^a$'",
    ],
    [
      "",
      { type: "string", minLength: 1 },
      'spec.x: Invalid value: "": spec.x in body should be at least 1 chars long',
    ],
    ["abc", { type: "string", maxLength: 2 }, "spec.x: Too long: may not be more than 2 bytes"],
    ["c", { type: "string", enum: ["b", "a"] }, 'spec.x: Unsupported value: "c": supported values: "b", "a"'],
    [
      "x",
      { type: "string", format: "date-time" },
      'spec.x: Invalid value: "x": spec.x in body must be of type date-time: "x"',
    ],
    [
      [],
      { type: "array", minItems: 1 },
      "spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
    ],
    [[1, 2], { type: "array", maxItems: 1 }, "spec.x: Too many: 2: must have at most 1 item"],
    [{}, { type: "object", required: ["y"] }, "spec.x.y: Required value"],
    [
      { y: "1" },
      { type: "object", properties: { y: { type: "integer" } } },
      'spec.x.y: Invalid value: "string": spec.x.y in body must be of type integer: "string"',
    ],
    [{}, { type: "object", "x-kubernetes-embedded-resource": true }, "spec.x.kind: Required value"],
    [
      {},
      { type: "object", oneOf: [{ required: ["a"] }, { required: ["b"] }] },
      '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid',
    ],
    [
      { a: 1, b: 1 },
      { type: "object", oneOf: [{ required: ["a"] }, { required: ["b"] }] },
      '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives',
    ],
    [
      5,
      { type: "integer", anyOf: [{ minimum: 6 }, { maximum: 4 }] },
      '<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
    ],
    [
      5,
      { type: "integer", not: { minimum: 4 } },
      '<nil>: Invalid value: "": "spec.x" must not validate the schema (not)',
    ],
    [
      5,
      { type: "integer", allOf: [{ maximum: 4 }] },
      "spec.x: Invalid value: 5: spec.x in body should be less than or equal to 4",
    ],
  ])("is rejected: %j", (value, schema, problem) => {
    expect(problems(value, schema)).toContain(problem);
  });
});

describe("a value of another type", () => {
  const wrongType = (type: string, actual: string): string =>
    `spec.x: Invalid value: "${actual}": spec.x in body must be of type ${type}: "${actual}"`;

  it("is refused for its type and for not being one of an enumeration", () => {
    expect(problems(0, { type: "string", enum: ["a"] })).toEqual([
      wrongType("string", "integer"),
      'spec.x: Unsupported value: 0: supported values: "a"',
    ]);
  });
  it("is refused for its type and by combinations of schemas", () => {
    const schema = {
      "x-kubernetes-int-or-string": true,
      anyOf: [{ type: "integer" }, { type: "string" }],
    };
    expect(problems([], schema)).toEqual([
      wrongType("integer,string", "array"),
      '<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
      wrongType("integer", "array"),
    ]);
  });
  it("that is null is not one of an enumeration, whether null is one of them", () => {
    expect(problems(null, { type: "string", nullable: true, enum: ["a", null] })).toEqual([
      'spec.x: Unsupported value: null: supported values: "a", "null"',
    ]);
  });
  it("is taken as a text that has a format if it is a list", () => {
    expect(problems(["x"], { type: "string", format: "date-time" })).toEqual([]);
    expect(problems(["x"], { type: "string", format: "frob" })).toEqual([wrongType("string", "array")]);
  });
});

describe("a part that is validated alone", () => {
  const schema = {
    type: "object",
    minProperties: 1,
    properties: { n: { type: "integer", format: "int32" }, s: { type: "string", minLength: 1 } },
    not: { required: ["no"] },
  } as const;
  const problemsOf = (value: unknown): string[] =>
    validateValue({ value, schema, path: "status", part: "status", resolve: () => undefined }).map(
      (it) => `${it.field}: ${it.message}`,
    );

  it("is not named by texts", () => {
    expect(problemsOf({})).toEqual(["status: Invalid value: 0:  in body should have at least 1 properties"]);
    expect(problemsOf({ s: "" })).toEqual([
      'status.s: Invalid value: "": s in body should be at least 1 chars long',
    ]);
  });
  it("is the field of errors that have none", () => {
    expect(problemsOf({ n: 3_000_000_000 })).toEqual([
      'status: Invalid value: "": Checked value must be of type integer with format int32 in n',
    ]);
    expect(problemsOf({ no: 1 })).toEqual([
      'status: Invalid value: "": "" must not validate the schema (not)',
    ]);
  });
});

describe("a value that satisfies its schema", () => {
  it.each([
    [null, { type: "string", nullable: true }],
    ["80%", { "x-kubernetes-int-or-string": true }],
    [0.3, { type: "number", multipleOf: 0.1 }],
    ["😀😀", { type: "string", maxLength: 2 }],
    [{ a: { x: 1 } }, { type: "object", additionalProperties: { type: "object" } }],
    ["x\ny", { type: "string", pattern: "(?s)^x.y\\z" }],
  ])("has no problems: %j", (value, schema) => {
    expect(problems(value, schema)).toEqual([]);
  });
});

describe("an update", () => {
  const schema = {
    type: "object",
    properties: {
      a: { type: "integer", maximum: 1 },
      b: { type: "integer" },
      list: {
        type: "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["n"],
        items: { type: "object", properties: { n: { type: "string" }, v: { type: "integer", maximum: 1 } } },
      },
    },
  };

  it("is not validated by a newer rule in parts that it does not change", () => {
    const old = { a: 5, b: 1, list: [{ n: "x", v: 5 }] };
    expect(problems({ ...old, b: 2, list: [{ n: "y" }, { n: "x", v: 5 }] }, schema, old)).toEqual([]);
  });
  it("is validated by a newer rule in parts that it changes", () => {
    const old = { a: 5, list: [{ n: "x", v: 5 }] };
    expect(problems({ a: 6, list: [{ n: "x", v: 6 }] }, schema, old)).toHaveLength(2);
  });
});

describe("formats", () => {
  it.each([
    ["date-time", "2026-02-28T23:59:60.5+01:00", "2026-02-30T00:00:00Z"],
    ["date", "2024-02-29", "2025-02-29"],
    ["duration", "1h2m3.5s", "1 lightyear"],
    ["ipv4", "10.0.0.1", "10.0.0.256"],
    ["ipv6", "fd00::1", "fd00:::1"],
    ["cidr", "fd00::/64", "10.0.0.0/33"],
    ["cidr", "10.0.0.0/8", "10.0.0.0"],
    ["mac", "00:11:22:33:44:55", "00:11"],
    ["hostname", "a.example", "a..b"],
    ["uuid", "7d444840-9dc0-11d1-b245-5ffdce74fad2", "7d44"],
    ["uuid4", "7d444840-9dc0-41d1-b245-5ffdce74fad2", "7d444840-9dc0-11d1-b245-5ffdce74fad2"],
    ["uri", "https://a.example/x", "no uri"],
    ["byte", "aGk=", "aGk"],
    ["email", "a@b.example", "a.example"],
    ["k8s-short-name", "a-b", "a.b"],
  ])("%s takes %j and refuses %j", (format, good, bad) => {
    expect([isOfFormat(good, format), isOfFormat(bad, format)]).toEqual([true, false]);
  });
  it("that are unknown accept any value", () => {
    expect(isOfFormat("x", "frob")).toBe(true);
  });
});
