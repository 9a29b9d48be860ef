import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cloneJson, isObject } from "@fairlead/base/json.ts";
import { applyTo } from "./apply.fake.ts";
import { isApplied } from "./apply.ts";
import type { KubeObject } from "#api/meta/types.ts";

const by = { fieldManager: "mine" };
const applier = { manager: "mine", subresource: undefined, apiVersion: "v1", time: "2026-01-01T00:00:00Z" };
const empty: KubeObject = { metadata: { name: "one" } };

function live(applied: object): KubeObject {
  return applyTo(empty, applied, applier);
}

describe("applying an unchanged configuration", () => {
  const desired = {
    metadata: { name: "one", labels: { app: "web" } },
    spec: { ports: [{ port: 80 }], size: 3 },
  };

  it("is detected, whatever other managers own", () => {
    const current = live(desired);
    Object.assign(current, { status: { ready: true } });
    current.metadata.labels = { ...current.metadata.labels, other: "label" };
    expect(isApplied(current, { apiVersion: "v1", kind: "Thing", ...desired }, by)).toBe(true);
  });
  it.each([
    ["a value that differs", { ...desired, spec: { ...desired.spec, size: 4 } }],
    ["a field that is new", { ...desired, spec: { ...desired.spec, more: true } }],
    ["a field that is left out", { ...desired, spec: { ports: desired.spec.ports } }],
    ["a label that is left out", { ...desired, metadata: { name: "one" } }],
    ["an item of a list that differs", { ...desired, spec: { ...desired.spec, ports: [{ port: 81 }] } }],
  ])("is not mistaken for %s", (_, changed) => {
    expect(isApplied(live(desired), changed, by)).toBe(false);
  });
  it("is not assumed when another manager changed or removed the value", () => {
    const current = live(desired) as KubeObject & { spec: { size?: number } };
    current.spec.size = 5;
    expect(isApplied(current, desired, by)).toBe(false);
    delete current.spec.size;
    expect(isApplied(current, desired, by)).toBe(false);
  });
  it("is not assumed if the fields of the manager are unknown", () => {
    const current = live(desired);
    expect(isApplied(current, desired, { fieldManager: "other" })).toBe(false);
    expect(isApplied(current, desired, { ...by, subresource: "status" })).toBe(false);
    delete current.metadata.managedFields;
    expect(isApplied(current, desired, by)).toBe(false);
  });
  it("compares items of merged lists by their keys, and sets by their members", () => {
    const ready = { type: "Ready", status: "True" };
    const wanted = { metadata: { name: "one", finalizers: ["a"] }, status: { conditions: [ready] } };
    const current = live(wanted) as KubeObject & { status: { conditions: object[] } };
    current.status.conditions.unshift({ type: "Other", status: "False" });
    current.metadata.finalizers = ["b", "a"];
    expect(isApplied(current, wanted, by)).toBe(true);
    const conditions = [{ ...ready, status: "False" }];
    expect(isApplied(current, { ...wanted, status: { conditions } }, by)).toBe(false);
    expect(isApplied(current, { ...wanted, status: { conditions: [] } }, by)).toBe(false);
    expect(isApplied(current, { ...wanted, metadata: { name: "one", finalizers: ["a", "c"] } }, by)).toBe(
      false,
    );
  });

  const leaf = fc.oneof(fc.integer(), fc.string(), fc.boolean(), fc.array(fc.integer(), { maxLength: 2 }));
  const name = fc.constantFrom("a", "b", "c");
  const tree = fc.letrec<{ node: unknown }>((tie) => ({
    node: fc.oneof({ depthSize: "small" }, leaf, fc.dictionary(name, tie("node"), { maxKeys: 3 })),
  })).node;
  const object = fc.record({ spec: fc.dictionary(name, tree), data: tree }, { requiredKeys: [] });

  it("is detected exactly if applying does not change the object", () => {
    fc.assert(
      fc.property(object, object, object, (first, others, second) => {
        const current = live(cloneJson(first));
        addOthers(current as unknown as Record<string, unknown>, others);
        const after = applyTo(current, second, applier);
        const changes = JSON.stringify(sorted(after)) !== JSON.stringify(sorted(current));
        expect(isApplied(current, second, by)).toBe(!changes);
      }),
      { numRuns: 1000 },
    );
  });
});

/** Adds fields of other managers. */
function addOthers(target: Record<string, unknown>, others: Record<string, unknown>): void {
  for (const [key, value] of Object.entries(others)) {
    const present = target[key];
    if (present === undefined) target[key] = value;
    else if (isObject(present) && isObject(value)) addOthers(present, value);
  }
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  const keys = Object.keys(value).toSorted();
  return ["map", ...keys.map((key) => [key, sorted(value[key])])];
}
