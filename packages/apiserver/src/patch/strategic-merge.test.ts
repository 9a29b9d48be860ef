import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { builtinSchema, resolveDefinition } from "#schema/definitions.ts";
import type { Schema } from "#schema/types.ts";
import { applyStrategicMergePatch } from "./strategic-merge.ts";

const POD = builtinSchema("", "v1", "Pod") as Schema;
const DEPLOYMENT = builtinSchema("apps", "v1", "Deployment") as Schema;
const SERVICE = builtinSchema("", "v1", "Service") as Schema;

function patched(target: Record<string, unknown>, patch: unknown, schema = POD): Record<string, unknown> {
  return applyStrategicMergePatch(target, patch, schema, resolveDefinition);
}

const containers = (...items: unknown[]): Record<string, unknown> => ({ spec: { containers: items } });

describe("a strategic merge patch", () => {
  it("merges maps, and removes keys with a null", () => {
    const target = { metadata: { labels: { a: "1", b: "2" } }, spec: { nodeName: "n" } };
    expect(patched(target, { metadata: { labels: { a: null, c: "3" } }, spec: null })).toEqual({
      metadata: { labels: { b: "2", c: "3" } },
    });
  });
  it("merges a list of objects by its key, and inserts new items in the order of the patch", () => {
    const target = containers({ name: "a", image: "a:1" }, { name: "b", image: "b:1" });
    expect(patched(target, containers({ name: "b", image: "b:2" }, { name: "c" }))).toEqual(
      containers({ name: "a", image: "a:1" }, { name: "b", image: "b:2" }, { name: "c" }),
    );
  });
  it("replaces a list without a patch strategy", () => {
    const target = { spec: { containers: [{ name: "a", args: ["1", "2"] }] } };
    expect(patched(target, containers({ name: "a", args: ["3"] }))).toEqual(
      containers({ name: "a", args: ["3"] }),
    );
  });
  it("forms the union of lists of scalars with strategy merge", () => {
    expect(
      patched({ metadata: { finalizers: ["a", "b"] } }, { metadata: { finalizers: ["b", "c"] } }),
    ).toEqual({
      metadata: { finalizers: ["a", "b", "c"] },
    });
  });
  it("is rejected if an item lacks the merge key", () => {
    expect(() => patched(containers({ name: "a" }), containers({ image: "x" }))).toThrow(
      "does not contain declared merge key: name",
    );
  });
  it("does not modify its arguments", () => {
    const target = containers({ name: "a", image: "1" });
    const patch = containers({ name: "a", image: "2" }, { name: "b", $patch: "delete" });
    const before = structuredClone({ target, patch });
    patched(target, patch);
    expect({ target, patch }).toEqual(before);
  });
  it("is idempotent", () => {
    const item = fc.record(
      {
        name: fc.constantFrom("a", "b", "c", "d"),
        image: fc.option(fc.string()),
        args: fc.array(fc.string()),
      },
      { requiredKeys: ["name"], noNullPrototype: true },
    );
    const list = fc.uniqueArray(item, { selector: (it) => it.name });
    fc.assert(
      fc.property(list, list, (target, patch) => {
        const once = patched(containers(...target), containers(...patch));
        expect(patched(once, containers(...patch))).toEqual(once);
      }),
    );
  });
});

describe("directives", () => {
  it("delete an item by its key", () => {
    const target = containers({ name: "a" }, { name: "b" });
    expect(patched(target, containers({ name: "a", $patch: "delete" }))).toEqual(containers({ name: "b" }));
  });
  it("replace a list", () => {
    const target = containers({ name: "a" }, { name: "b" });
    expect(patched(target, containers({ $patch: "replace" }, { name: "c", image: null }))).toEqual(
      containers({ name: "c" }),
    );
  });
  it("replace or empty a map", () => {
    const target = { metadata: { labels: { a: "1" }, annotations: { b: "2" } } };
    const patch = { metadata: { labels: { $patch: "replace", c: "3" }, annotations: { $patch: "delete" } } };
    expect(patched(target, patch)).toEqual({ metadata: { labels: { c: "3" }, annotations: {} } });
  });
  it("keep only some keys of a map", () => {
    const target = { spec: { strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1 } } } };
    const patch = { spec: { strategy: { $retainKeys: ["type"], type: "Recreate" } } };
    expect(patched(target, patch, DEPLOYMENT)).toEqual({ spec: { strategy: { type: "Recreate" } } });
    const odd = { spec: { strategy: { $retainKeys: ["x"], type: "Recreate" } } };
    expect(() => patched(target, odd, DEPLOYMENT)).toThrow("retainKeys");
  });
  it("remove items of a list of scalars", () => {
    const patch = { metadata: { "$deleteFromPrimitiveList/finalizers": ["a"], finalizers: ["c"] } };
    expect(patched({ metadata: { finalizers: ["a", "b"] } }, patch)).toEqual({
      metadata: { finalizers: ["c", "b"] },
    });
  });
  it("set the order of items, and keep other items near their place", () => {
    const target = containers({ name: "x" }, { name: "a" }, { name: "y" }, { name: "b" });
    const patch = {
      spec: {
        "$setElementOrder/containers": [{ name: "b" }, { name: "a" }, { name: "c" }],
        containers: [{ name: "c" }],
      },
    };
    expect(patched(target, patch)).toEqual(
      containers({ name: "x" }, { name: "y" }, { name: "b" }, { name: "a" }, { name: "c" }),
    );
  });
  it("append a new item if the patch deletes one, as upstream does", () => {
    const target = containers({ name: "1" }, { name: "2" }, { name: "4" });
    const patch = {
      spec: {
        "$setElementOrder/containers": [{ name: "2" }, { name: "3" }],
        containers: [{ name: "3" }, { name: "1", $patch: "delete" }],
      },
    };
    expect(patched(target, patch)).toEqual(containers({ name: "2" }, { name: "4" }, { name: "3" }));
  });
  it("set the order of scalars", () => {
    const patch = { metadata: { "$setElementOrder/finalizers": ["c", "a"], finalizers: ["c"] } };
    expect(patched({ metadata: { finalizers: ["a", "b"] } }, patch)).toEqual({
      metadata: { finalizers: ["c", "a", "b"] },
    });
  });
  it("apply as kubectl sends them for a changed port of a Service", () => {
    const target = { spec: { ports: [{ port: 80, protocol: "TCP", targetPort: 80, nodePort: 30000 }] } };
    const patch = {
      spec: {
        $retainKeys: null,
        "$setElementOrder/ports": [{ port: 81 }],
        ports: [
          { port: 81, protocol: "TCP" },
          { $patch: "delete", port: 80 },
        ],
      },
    };
    delete (patch.spec as Record<string, unknown>)["$retainKeys"];
    expect(patched(target, patch, SERVICE)).toEqual({ spec: { ports: [{ port: 81, protocol: "TCP" }] } });
  });
  it("are never stored in the object", () => {
    const patch = {
      spec: { volumes: [{ name: "v", emptyDir: { $patch: "delete" }, $retainKeys: ["name", "emptyDir"] }] },
    };
    expect(patched({ spec: {} }, patch)).toEqual({ spec: { volumes: [{ name: "v" }] } });
  });
  it("that are unknown are rejected", () => {
    expect(() => patched({}, { $patch: "frob" })).toThrow(/unknown patch type/);
  });
});
