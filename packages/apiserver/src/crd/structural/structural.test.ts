import { describe, expect, it } from "vitest";
import { checkStructural } from "./structural.ts";
import type { Schema } from "#schema/types.ts";

const FIELD = "spec.versions[0].schema.openAPIV3Schema";

/** Errors of a schema whose only field is `part`, as "field below the root: message". */
function problems(part: object): string[] {
  return checkStructural({ type: "object", properties: { part } }, FIELD).map(
    (it) => `${it.field.replace(`${FIELD}.properties[part]`, "")}: ${it.message}`,
  );
}

describe("a structural schema", () => {
  it.each([
    [{ type: "string", pattern: "^a+$", default: "a", enum: ["a"] }],
    [{ "x-kubernetes-int-or-string": true, anyOf: [{ type: "integer" }, { type: "string" }] }],
    [{ "x-kubernetes-preserve-unknown-fields": true }],
    [
      {
        type: "object",
        properties: { a: { type: "string" } },
        oneOf: [{ required: ["a"] }, { properties: { a: { minLength: 1 } } }],
      },
    ],
    [{ type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } }],
    [
      {
        type: "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["n", "p"],
        items: {
          type: "object",
          required: ["n"],
          properties: { n: { type: "string" }, p: { type: "string", default: "TCP" } },
        },
      },
    ],
  ])("accepts %j", (part) => {
    expect(problems(part)).toEqual([]);
  });
  it("requires type object without default at its root", () => {
    expect(checkStructural({ properties: {} }, FIELD).map((it) => it.message)).toEqual([
      "Required value: must not be empty at the root",
    ]);
    expect(
      checkStructural({ type: "array", items: { type: "string" }, default: [] }, FIELD).map((it) => it.field),
    ).toEqual([`${FIELD}.type`, `${FIELD}.default`]);
  });
  it("may only restrict name and generateName of metadata", () => {
    const withMetadata = (metadata: Schema): number =>
      checkStructural({ type: "object", properties: { metadata } }, FIELD).length;
    expect(withMetadata({ type: "object", properties: { name: { type: "string", maxLength: 10 } } })).toBe(0);
    expect(withMetadata({ type: "object" })).toBe(0);
    expect(withMetadata({ type: "object", properties: { labels: { type: "object" } } })).toBe(1);
  });
  it("requires properties used in combinators to be declared", () => {
    const schema: Schema = { type: "object", not: { properties: { a: { minLength: 1 } } } };
    expect(checkStructural(schema, FIELD)).toEqual([
      {
        type: "FieldValueRequired",
        field: `${FIELD}.properties[a]`,
        message: `Required value: because it is defined in ${FIELD}.not.properties[a]`,
      },
    ]);
    expect(checkStructural({ ...schema, properties: { a: { type: "string" } } }, FIELD)).toEqual([]);
  });
  it.each([
    [{}, ".type: Required value: must not be empty for specified object fields"],
    [
      { type: "array", items: {} },
      ".items.type: Required value: must not be empty for specified array items",
    ],
    [
      { type: "text" },
      '.type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string"',
    ],
    [{ $ref: "#/x", type: "object" }, ".$ref: Forbidden: $ref is not supported"],
    [{ type: "array", uniqueItems: true, items: { type: "string" } }, "uniqueItems cannot be set to true"],
    [
      { type: "object", properties: { a: { type: "string" } }, additionalProperties: { type: "string" } },
      "mutual exclusive",
    ],
    [{ type: "array", items: [{ type: "string" }] }, "items must be a schema object and not an array"],
    [{ type: "array" }, ".items: Required value: must be specified"],
    [{ type: "string", pattern: "(" }, "must be a valid regular expression"],
    [{ type: "integer", default: "x" }, ".default: Invalid value: "],
    [
      { type: "object", properties: { a: { type: "string" } }, default: { b: 1 } },
      "must not have unknown fields: b",
    ],
    [
      { type: "string", anyOf: [{ type: "string" }] },
      ".anyOf[0].type: Forbidden: must be empty to be structural",
    ],
    [
      { type: "string", "x-kubernetes-list-type": "set" },
      "must be array if x-kubernetes-list-type is specified",
    ],
    [
      { type: "array", items: { type: "object" }, "x-kubernetes-list-type": "map" },
      "x-kubernetes-list-map-keys: Required value",
    ],
    [
      {
        type: "array",
        items: { type: "object" },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["a"],
      },
      "entries must all be names of item properties",
    ],
    [
      { type: "array", items: { type: "object" }, "x-kubernetes-list-type": "set" },
      "must be atomic as item of a list",
    ],
    [{ type: "object", "x-kubernetes-embedded-resource": true }, ".properties: Required value"],
    [
      { type: "string", "x-kubernetes-map-type": "atomic" },
      "must be object if x-kubernetes-map-type is specified",
    ],
    [{ type: "object", "x-kubernetes-preserve-unknown-fields": false }, "must be true or undefined"],
  ])("rejects %j", (part, problem) => {
    expect(problems(part).some((it) => it.includes(problem))).toBe(true);
  });
});
