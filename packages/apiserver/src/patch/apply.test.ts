import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isObject } from "@fairlead/base/json.ts";
import type { ApiObject } from "#values/object.ts";
import { builtinSchema, resolveDefinition } from "#schema/definitions.ts";
import type { Schema } from "#schema/types.ts";
import { apply, type ApplyRequest } from "./apply.ts";
import { trackUpdate } from "./track-update.ts";

const DEPLOYMENT = builtinSchema("apps", "v1", "Deployment") as Schema;

const WIDGET: Schema = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      properties: {
        size: { type: "integer" },
        colour: { type: "string" },
        point: {
          type: "object",
          "x-kubernetes-map-type": "atomic",
          properties: { x: { type: "integer" }, y: { type: "integer" } },
        },
        tags: { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } },
        words: { type: "array", items: { type: "string" } },
        options: { type: "object", additionalProperties: { type: "string" } },
        free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
        parts: {
          type: "array",
          "x-kubernetes-list-type": "map",
          "x-kubernetes-list-map-keys": ["name"],
          items: {
            type: "object",
            required: ["name"],
            properties: { name: { type: "string" }, size: { type: "integer" }, colour: { type: "string" } },
          },
        },
      },
    },
    status: { type: "object", properties: { ready: { type: "boolean" } } },
  },
};

type Options = Partial<ApplyRequest> & { spec?: unknown };

function config(spec: unknown, metadata: object = {}): ApiObject {
  return { apiVersion: "example.com/v1", kind: "Widget", metadata: { name: "w", ...metadata }, spec };
}

const ORIGIN = {
  apiVersion: "example.com/v1",
  subresource: "",
  hasStatus: true,
  now: "2026-01-01T00:00:00Z",
  schema: WIDGET,
  resolve: resolveDefinition,
} as const;

function applied(
  live: ApiObject | undefined,
  manager: string,
  spec: unknown,
  options: Options = {},
): ApiObject {
  return apply({ ...ORIGIN, live, manager, applied: config(spec), force: false, ...options });
}

function updated(
  before: ApiObject | undefined,
  manager: string,
  spec: unknown,
  now: string = ORIGIN.now,
): ApiObject {
  const after = {
    ...config(spec, before?.metadata),
    ...(before?.["status"] === undefined ? {} : { status: before["status"] }),
  };
  return trackUpdate({ ...ORIGIN, now, before, after, manager });
}

function ownedBy(object: ApiObject, manager: string): unknown {
  return object.metadata.managedFields?.find((it) => it.manager === manager)?.fieldsV1;
}

function codeOf(act: () => unknown): number {
  try {
    act();
  } catch (error) {
    return (error as { code: number }).code;
  }
  return 0;
}

describe("server-side apply", () => {
  it("creates the object, and records what the manager set", () => {
    const object = applied(undefined, "a", {
      size: 1,
      parts: [{ name: "p", size: 2 }],
      tags: ["t"],
      point: { x: 1 },
    });
    expect(object).toMatchObject({ metadata: { name: "w" }, spec: { size: 1, tags: ["t"] } });
    expect(object.metadata.managedFields).toEqual([
      {
        manager: "a",
        operation: "Apply",
        apiVersion: "example.com/v1",
        time: "2026-01-01T00:00:00Z",
        fieldsType: "FieldsV1",
        fieldsV1: {
          "f:spec": {
            "f:size": {},
            "f:parts": { 'k:{"name":"p"}': { ".": {}, "f:name": {}, "f:size": {} } },
            "f:tags": { 'v:"t"': {} },
            "f:point": {},
          },
        },
      },
    ]);
  });
  it("twice is a no-op: the same object is returned, with the same time", () => {
    const once = applied(undefined, "a", { size: 1, options: { k: "v" } });
    const twice = applied(once, "a", { size: 1, options: { k: "v" } }, { now: "2027-01-01T00:00:00Z" });
    expect(twice).toBe(once);
  });
  it("removes a field that the manager no longer applies", () => {
    const once = applied(undefined, "a", { size: 1, colour: "red", options: { k: "v", l: "w" } });
    expect(applied(once, "a", { size: 1, options: { l: "w" } })["spec"]).toEqual({
      size: 1,
      options: { l: "w" },
    });
  });
  it("removes a map that becomes empty", () => {
    const once = applied(undefined, "a", { size: 1, options: { k: "v" } });
    expect(applied(once, "a", { size: 1 })["spec"]).toEqual({ size: 1 });
  });
  it("keeps a field that another manager owns too, by apply or by update", () => {
    const one = applied(undefined, "a", { size: 1, colour: "red" });
    const two = applied(one, "b", { colour: "red" });
    expect(applied(two, "a", { size: 1 })["spec"]).toEqual({ size: 1, colour: "red" });
    const three = applied(updated(undefined, "x", { colour: "red" }), "a", { size: 1, colour: "red" });
    expect(applied(three, "a", { size: 1 })["spec"]).toEqual({ size: 1, colour: "red" });
  });
  it("leaves the time of a manager that applies less without a change of the object", () => {
    const two = applied(applied(undefined, "a", { size: 1, colour: "red" }), "b", { colour: "red" });
    const later = applied(two, "a", { size: 1 }, { now: "2027-01-01T00:00:00Z" });
    expect(later.metadata.managedFields?.map((it) => [it.manager, it.time])).toEqual([
      ["b", undefined],
      ["a", "2026-01-01T00:00:00Z"],
    ]);
  });
  it("keeps fields that the manager did not apply", () => {
    const created = updated(undefined, "x", { size: 1, parts: [{ name: "p", size: 1 }] });
    const object = applied(created, "a", { parts: [{ name: "q" }] });
    expect(object["spec"]).toEqual({ size: 1, parts: [{ name: "p", size: 1 }, { name: "q" }] });
    expect(applied(object, "a", {})["spec"]).toEqual({ size: 1, parts: [{ name: "p", size: 1 }] });
  });
  it("removes an item that it added, and uses the order of the configuration", () => {
    const live = updated(undefined, "x", { parts: [{ name: "l" }] });
    const one = applied(live, "a", { parts: [{ name: "1" }, { name: "2" }, { name: "3" }] });
    const two = applied(one, "a", { parts: [{ name: "3" }, { name: "1" }] });
    expect((two["spec"] as { parts: { name: string }[] }).parts.map((it) => it.name)).toEqual([
      "l",
      "3",
      "1",
    ]);
  });
  it("merges sets, and replaces atomic lists as a whole", () => {
    const live = updated(undefined, "x", { tags: ["a"], words: ["a"] });
    const object = applied(live, "m", { tags: ["b"], words: ["b"] }, { force: true });
    expect(object["spec"]).toEqual({ tags: ["a", "b"], words: ["b"] });
  });
  it("does not change a field of free form for which the configuration has null", () => {
    const live = updated(undefined, "x", { free: { a: { b: 1 } } });
    expect(applied(live, "m", { free: { a: null } })["spec"]).toEqual({ free: { a: { b: 1 } } });
  });
  it("owns keys below a field of free form individually", () => {
    const one = applied(undefined, "a", { free: { x: { y: 1 }, list: [1] } });
    const two = applied(one, "b", { free: { z: 2 } });
    expect(two["spec"]).toEqual({ free: { x: { y: 1 }, list: [1], z: 2 } });
    expect(ownedBy(two, "b")).toEqual({ "f:spec": { "f:free": { "f:z": {} } } });
  });
});

describe("a field with the name of an inherited member", () => {
  it.each(["constructor", "toString", "valueOf"])("is owned like any other: %s", (name) => {
    const written = updated(undefined, "x", { options: { k: "1" } });
    const added = updated(written, "y", { options: { k: "1", [name]: "1" } });
    expect(ownedBy(added, "y")).toEqual({ "f:spec": { "f:options": { [`f:${name}`]: {} } } });
    const one = applied(added, "a", { options: { [name]: "2" } }, { force: true });
    expect(one["spec"]).toEqual({ options: { k: "1", [name]: "2" } });
    expect(applied(one, "a", {})["spec"]).toEqual({ options: { k: "1" } });
  });
});

describe("a conflict", () => {
  it("names the first 1000 of very many fields, and their count", () => {
    const labels = (value: string): ApiObject => ({
      ...config({}),
      metadata: {
        name: "a",
        labels: Object.fromEntries(Array.from({ length: 1200 }, (_, at) => [`k${at}`, value])),
      },
    });
    const live = apply({ ...ORIGIN, live: undefined, manager: "a", applied: labels("1"), force: false });
    const attempt = (): unknown =>
      apply({ ...ORIGIN, live, manager: "b", applied: labels("2"), force: false });
    expect(attempt).toThrow(
      /^Apply failed with 1200 conflicts: conflicts with "a":(\n- \.metadata[^\n]*){1000}$/,
    );
  });

  const live = applied(undefined, "a", { size: 1, colour: "red" });

  it("is reported with the field and its owner", () => {
    expect(() => applied(live, "b", { size: 2 })).toThrow(
      'Apply failed with 1 conflict: conflict with "a": .spec.size',
    );
    expect(codeOf(() => applied(live, "b", { size: 2 }))).toBe(409);
  });
  it("of several fields is listed by manager, with one cause each", () => {
    const mixed = updated(live, "x", { size: 1, colour: "red", parts: [{ name: "p", size: 1 }] });
    try {
      applied(mixed, "b", { size: 2, colour: "blue", parts: [{ name: "p", size: 3 }] });
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({
        status: {
          reason: "Conflict",
          message: [
            'Apply failed with 3 conflicts: conflicts with "a":',
            "- .spec.colour",
            "- .spec.size",
            'conflicts with "x" using example.com/v1:',
            '- .spec.parts[name="p"].size',
          ].join("\n"),
          details: {
            causes: [
              { reason: "FieldManagerConflict", message: 'conflict with "a"', field: ".spec.colour" },
              { reason: "FieldManagerConflict", message: 'conflict with "a"', field: ".spec.size" },
              {
                reason: "FieldManagerConflict",
                message: 'conflict with "x" using example.com/v1',
                field: '.spec.parts[name="p"].size',
              },
            ],
          },
        },
      });
    }
  });
  it("does not occur if the value is the same: then both managers own the field", () => {
    const object = applied(live, "b", { size: 1 });
    expect(ownedBy(object, "a")).toEqual({ "f:spec": { "f:size": {}, "f:colour": {} } });
    expect(ownedBy(object, "b")).toEqual({ "f:spec": { "f:size": {} } });
  });
  it("is resolved by force, which takes over the field", () => {
    const object = applied(live, "b", { size: 2 }, { force: true });
    expect(object["spec"]).toEqual({ size: 2, colour: "red" });
    expect(ownedBy(object, "a")).toEqual({ "f:spec": { "f:colour": {} } });
  });
  it("of an atomic field applies to the whole field", () => {
    const before = applied(undefined, "a", { point: { x: 1, y: 1 } });
    expect(() => applied(before, "b", { point: { x: 1 } })).toThrow(".spec.point");
  });
});

describe("an object without managedFields", () => {
  const { managedFields: _, ...metadata } = updated(undefined, "x", { size: 1 }).metadata;
  const untracked = config({ size: 1 }, { ...metadata, uid: "u" });

  it("conflicts with the manager before-first-apply", () => {
    expect(() => applied(untracked, "a", { size: 2 })).toThrow(
      'conflict with "before-first-apply" using example.com/v1: .spec.size',
    );
    const object = applied(untracked, "a", { colour: "red" });
    expect(ownedBy(object, "before-first-apply")).toMatchObject({ "f:spec": { "f:size": {} } });
  });
  it("stays untracked when it is updated", () => {
    expect(updated(untracked, "x", { size: 3 }).metadata.managedFields).toBeUndefined();
  });
});

describe("a configuration that does not match the schema", () => {
  it.each([
    [{ sise: 1 }, ".spec.sise: field not declared in schema"],
    [{ size: "1" }, ".spec.size: expected numeric (int or float), got string"],
    [{ parts: {} }, ".spec.parts: expected list, got &{map[]}"],
    [{ parts: [{ size: 1 }] }, 'omits all key fields ["name"]'],
    [{ parts: [{ name: "p" }, { name: "p" }] }, '.spec.parts: duplicate entries for key [name="p"]'],
    [{ tags: ["t", "t"] }, '.spec.tags: duplicate entries for key [="t"]'],
  ])("is rejected: %j", (spec, message) => {
    expect(() => applied(undefined, "a", spec)).toThrow(message);
    expect(codeOf(() => applied(undefined, "a", spec))).toBe(500);
  });
  it("cannot have another version, nor managedFields", () => {
    expect(() => applied(undefined, "a", {}, { apiVersion: "example.com/v2" })).toThrow(
      "Incorrect version specified",
    );
    const withFields = config({}, { managedFields: [] });
    expect(() => applied(undefined, "a", {}, { applied: withFields })).toThrow(
      "metadata.managedFields must be nil",
    );
  });
});

describe("subresources", () => {
  it("have their own managers, which own only the status", () => {
    const one = applied(undefined, "a", { size: 1 });
    const status = { ...config({ size: 9 }), status: { ready: true } };
    const two = apply({
      ...ORIGIN,
      live: one,
      manager: "a",
      applied: status,
      force: false,
      subresource: "status",
    });
    expect(two.metadata.managedFields?.map((it) => [it.subresource, it.fieldsV1])).toEqual([
      [undefined, { "f:spec": { "f:size": {} } }],
      ["status", { "f:status": { "f:ready": {} } }],
    ]);
  });
  it("do not let the object itself own its status", () => {
    const object = apply({
      ...ORIGIN,
      live: undefined,
      manager: "a",
      applied: { ...config({ size: 1 }), status: { ready: true } },
      force: false,
    });
    expect(ownedBy(object, "a")).toEqual({ "f:spec": { "f:size": {} } });
  });
});

describe("kubectl, moving from client-side apply", () => {
  const annotations = {
    "kubectl.kubernetes.io/last-applied-configuration": JSON.stringify(config({ size: 1, colour: "red" })),
  };
  const created = trackUpdate({
    ...ORIGIN,
    before: undefined,
    after: config({ size: 1, colour: "blue" }, { annotations }),
    manager: "kubectl-client-side-apply",
  });

  it("takes over what it applied before without force, and updates the annotation", () => {
    const object = applied(created, "kubectl", { size: 2 });
    expect(object["spec"]).toEqual({ size: 2, colour: "blue" });
    const text = object.metadata.annotations?.["kubectl.kubernetes.io/last-applied-configuration"] ?? "";
    expect(JSON.parse(text)).toMatchObject({ spec: { size: 2 } });
    expect(applied(object, "kubectl", { size: 2 })).toBe(object);
  });
  it("still conflicts if another manager changed the value since", () => {
    expect(() => applied(created, "kubectl", { colour: "green" })).toThrow(/1 conflict.*\.spec\.colour/);
  });
});

describe("a Deployment", () => {
  it("keeps the sidecar of another manager, and identifies ports by number and protocol", () => {
    const deployment = (containers: unknown[]): ApiObject => ({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "d" },
      spec: { template: { spec: { containers } } },
    });
    const origin = { ...ORIGIN, apiVersion: "apps/v1", schema: DEPLOYMENT, force: false };
    const port = { containerPort: 80 };
    const one = apply({
      ...origin,
      live: undefined,
      manager: "a",
      applied: deployment([{ name: "web", image: "1", ports: [port] }]),
    });
    const two = apply({
      ...origin,
      live: one,
      manager: "b",
      applied: deployment([{ name: "sidecar", image: "s" }]),
    });
    const three = apply({
      ...origin,
      live: two,
      manager: "a",
      applied: deployment([{ name: "web", image: "2", ports: [port] }]),
    });
    expect(three).toMatchObject(
      deployment([
        { name: "web", image: "2" },
        { name: "sidecar", image: "s" },
      ]),
    );
    expect(JSON.stringify(ownedBy(three, "a"))).toContain(
      String.raw`k:{\"containerPort\":80,\"protocol\":\"TCP\"}`,
    );
  });
});

/** Not empty: an empty list has no owner, and is removed by the apply that removes its last item. */
const names = fc.uniqueArray(fc.constantFrom("a", "b", "c", "d"), { minLength: 1, maxLength: 4 });
const part = (name: string): fc.Arbitrary<object> =>
  fc.record(
    { name: fc.constant(name), size: fc.integer({ min: 0, max: 2 }), colour: fc.constantFrom("r", "g") },
    { requiredKeys: ["name"], noNullPrototype: true },
  );
const parts = names.chain((it) => fc.tuple(...it.map(part)));
/** A null leaves a map alone that is there. */
const anyButNull = fc
  .jsonValue({ maxDepth: 1 })
  // No request comes this far with a key `__proto__`: whatever reads a body refuses it.
  .filter((it) => it !== null && !JSON.stringify(it).includes('"__proto__":'));
const specs = fc.record(
  {
    size: fc.integer({ min: 0, max: 2 }),
    colour: fc.constantFrom("red", "blue"),
    point: fc.record({ x: fc.integer({ min: 0, max: 1 }) }, { requiredKeys: [], noNullPrototype: true }),
    tags: names,
    words: names,
    options: fc.dictionary(fc.constantFrom("k", "l"), fc.constantFrom("1", "2"), { noNullPrototype: true }),
    free: fc.dictionary(fc.constantFrom("k", "l"), anyButNull, {
      noNullPrototype: true,
    }),
    parts,
  },
  { requiredKeys: ["size"], noNullPrototype: true },
);

/** Whether every leaf of `wanted` is in `actual`, lists by their items. What was emptied is null, as upstream leaves it. */
function holds(actual: unknown, wanted: unknown): boolean {
  if (actual === null && typeof wanted === "object") return Object.keys(wanted ?? {}).length === 0;
  if (Array.isArray(wanted)) {
    return Array.isArray(actual) && wanted.every((item) => actual.some((it) => holds(it, item)));
  }
  if (!isObject(wanted)) return actual === wanted;
  return isObject(actual) && Object.entries(wanted).every(([key, value]) => holds(actual[key], value));
}

describe("any sequence of configurations", () => {
  it("is contained in the object after a forced apply, and a second apply changes nothing", () => {
    const steps = fc.array(fc.tuple(fc.constantFrom("a", "b", "c"), specs, fc.boolean()), {
      minLength: 1,
      maxLength: 6,
    });
    fc.assert(
      fc.property(steps, (list) => {
        let live: ApiObject | undefined;
        for (const [manager, spec, isUpdate] of list) {
          if (isUpdate) {
            live = updated(live, manager, spec);
            continue;
          }
          const before = JSON.stringify(live);
          const object = applied(live, manager, spec, { force: true });
          expect(JSON.stringify(live)).toBe(before);
          expect(holds(object["spec"], spec)).toBe(true);
          live = object;
          // Where something was emptied, the next apply puts the empty value back for the null.
          if (before?.includes("null") || JSON.stringify(object).includes("null")) continue;
          expect(applied(object, manager, spec, { now: "2030-01-01T00:00:00Z" })).toBe(object);
        }
      }),
    );
  });
  it("never conflicts when managers apply different fields, and each can remove its own", () => {
    fc.assert(
      fc.property(specs, specs, (one, other) => {
        const left = {
          size: 1,
          ...(one.options === undefined ? {} : { options: { a: "1" } }),
          tags: one.tags ?? ["t"],
        };
        const right = { colour: "red", options: { b: "1" }, parts: other.parts ?? [{ name: "p" }] };
        const first = applied(undefined, "a", left);
        const both = applied(first, "b", right);
        const rest = applied(both, "a", {});
        expect(rest["spec"]).toEqual(applied(undefined, "b", right)["spec"]);
      }),
    );
  });
});
