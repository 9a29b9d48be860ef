import { describe, expect, it } from "vitest";
import { applyDefaults } from "./defaults.ts";
import { resolveDefinition } from "./definitions.ts";
import { fieldProblems, pruneObject } from "./prune.ts";
import type { Schema } from "./types.ts";

const SCHEMA: Schema = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      properties: {
        size: { type: "integer", default: 1 },
        mode: { type: "string", default: "auto", nullable: true },
        parts: {
          type: "array",
          items: {
            type: "object",
            properties: { name: { type: "string" }, kind: { type: "string", default: "k" } },
          },
        },
        free: {
          type: "object",
          "x-kubernetes-preserve-unknown-fields": true,
          properties: { known: { type: "object", properties: { a: { type: "string" } } } },
        },
        map: {
          type: "object",
          additionalProperties: { type: "object", properties: { v: { type: "integer", default: 2 } } },
        },
        any: { type: "object", additionalProperties: true },
        none: { type: "object" },
        pod: {
          type: "object",
          "x-kubernetes-embedded-resource": true,
          properties: { spec: { type: "object" } },
        },
      },
    },
  },
};

const wrap = (spec: unknown): Record<string, unknown> => ({
  apiVersion: "a/v1",
  kind: "K",
  metadata: { name: "n" },
  spec,
});

describe("pruning", () => {
  it("drops unknown fields at every depth, and reports their paths", () => {
    const object = {
      ...wrap({
        sise: 1,
        parts: [{ name: "a" }, { name: "b", x: 1 }],
        map: { k: { v: 1, w: 2 } },
        none: { x: 1 },
      }),
      extra: 1,
    };
    expect(pruneObject(object, SCHEMA, resolveDefinition)).toEqual({
      value: wrap({ parts: [{ name: "a" }, { name: "b" }], map: { k: { v: 1 } }, none: {} }),
      unknown: ["extra", "spec.map.k.w", "spec.none.x", "spec.parts[1].x", "spec.sise"],
    });
  });
  it("keeps unknown fields where the schema preserves them, and still prunes below known ones", () => {
    const spec = { free: { x: { y: 1 }, known: { a: "1", b: 2 } }, any: { x: { y: 1 } } };
    expect(pruneObject(wrap(spec), SCHEMA, resolveDefinition)).toEqual({
      value: wrap({ free: { x: { y: 1 }, known: { a: "1" } }, any: { x: { y: 1 } } }),
      unknown: ["spec.free.known.b"],
    });
  });
  it("keeps apiVersion, kind and metadata, also of embedded objects, and prunes the metadata", () => {
    const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "p", nmae: "q" } };
    const { value, unknown } = pruneObject(wrap({ pod }), SCHEMA, resolveDefinition);
    expect(value).toEqual(wrap({ pod: { apiVersion: "v1", kind: "Pod", metadata: { name: "p" } } }));
    expect(unknown).toEqual(["spec.pod.metadata.nmae"]);
  });
  it("returns the same object if no field is unknown", () => {
    const object = wrap({ size: 1, parts: [{ name: "a" }] });
    expect(pruneObject(object, SCHEMA, resolveDefinition).value).toBe(object);
  });
  it("does not treat members of Object.prototype as known fields", () => {
    expect(pruneObject(wrap({ constructor: 1, toString: 2 }), SCHEMA, resolveDefinition).unknown).toEqual([
      "spec.constructor",
      "spec.toString",
    ]);
  });
  it("is reported in the words of upstream", () => {
    expect(fieldProblems(["spec.foo"], ["spec.bar"])).toEqual([
      'duplicate field "spec.bar"',
      'unknown field "spec.foo"',
    ]);
  });
});

describe("defaulting", () => {
  const defaulted = (spec: unknown): unknown => {
    const object = wrap(spec);
    applyDefaults(object, SCHEMA);
    return object["spec"];
  };

  it("fills in absent fields, in lists and maps too", () => {
    expect(defaulted({ parts: [{}], map: { k: {} } })).toEqual({
      size: 1,
      mode: "auto",
      parts: [{ kind: "k" }],
      map: { k: { v: 2 } },
    });
  });
  it("replaces a null in a non-nullable field, and keeps one in a nullable field", () => {
    expect(defaulted({ size: null, mode: null })).toEqual({ size: 1, mode: null });
  });
  it("does not create objects only for their defaults", () => {
    expect(defaulted(undefined)).toBeUndefined();
  });
  it("does not share defaults between objects", () => {
    const schema: Schema = { type: "object", properties: { a: { type: "object", default: { b: 1 } } } };
    const [one, two]: Record<string, Record<string, unknown>>[] = [{}, {}];
    applyDefaults(one, schema);
    applyDefaults(two, schema);
    if (one?.["a"] !== undefined) one["a"]["b"] = 2;
    expect(two).toEqual({ a: { b: 1 } });
  });
});
