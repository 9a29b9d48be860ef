import * as fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { cloneJson, isObject } from "@fairlead/base/json.ts";
import { applyTo } from "./apply.fake.ts";
import { applyIfChanged, isApplied } from "./apply.ts";
import { takenFields } from "./reverted.ts";
import { CONFIG_MAPS } from "#api/core/v1/types.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { FakeKubeClient } from "#client/client.fake.ts";

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

describe("applying a configuration that others changed", () => {
  const desired = { metadata: { name: "one", namespace: "work" }, data: { size: "3", colour: "red" } };
  const events = { record: vi.fn<(of: unknown, object: unknown, event: { message: string }) => void>() };
  const edited = async (data: Record<string, string>) => {
    events.record.mockClear();
    const client = new FakeKubeClient();
    await client.apply(CONFIG_MAPS, desired, by);
    const current = await client.apply(CONFIG_MAPS, { ...desired, data }, { fieldManager: "kubectl-edit" });
    // Servers take a field from its owner with its value; the fake lets both own it.
    const [mine] = current.metadata.managedFields ?? [];
    const owned = mine?.fieldsV1?.["f:data"];
    for (const name of Object.keys(data))
      if (data[name] !== desired.data[name as "size"] && isObject(owned)) delete owned[`f:${name}`];
    const apply = vi.spyOn(client, "apply");
    const after = await applyIfChanged(client, CONFIG_MAPS, { current, desired, ...by, events });
    return {
      after,
      requests: apply.mock.calls.length,
      messages: events.record.mock.calls.map((it) => it[2].message),
    };
  };

  it("sets it back with one request, and an Event that names the manager and the field", async () => {
    const { after, requests, messages } = await edited({ size: "4" });
    expect(after.data).toEqual(desired.data);
    expect(requests).toBe(1);
    expect(messages).toEqual(["kubectl-edit changed data.size, which mine writes: set back"]);
  });
  it("reports no fields of others, and none that they set to the same value", async () => {
    const { requests, messages } = await edited({ other: "1", colour: "red" });
    expect([requests, messages]).toEqual([0, []]);
  });

  const applied = { manager: "mine", operation: "Apply" as const, fieldsV1: {} };
  const update = (fieldsV1: Record<string, unknown>) => ({
    manager: "kubectl-edit",
    operation: "Update" as const,
    fieldsV1,
  });
  it.each([
    { what: "a map that is owned as a whole", f: [{ a: "1" }, { a: "2" }], owned: {}, found: ["f"] },
    { what: "a list that is owned as a whole", f: [[1], [2]], owned: {}, found: ["f"] },
    {
      what: "an item of a list",
      f: [[{ port: 80, name: "x" }], [{ port: 80, name: "y" }]],
      owned: { 'k:{"port":80}': { ".": {}, "f:name": {}, "f:port": {} } },
      found: ["f[port=80].name"],
    },
    { what: "nothing of equal values", f: [{ a: "1" }, { a: "1" }], owned: { "f:a": {} }, found: [] },
    { what: "nothing that is not wanted", f: [{ a: "1" }, { b: "1" }], owned: { "f:b": {} }, found: [] },
  ])("finds $what", ({ f: [wanted, now], owned, found }) => {
    const managedFields = [applied, update({ "f:f": owned })];
    const current = { metadata: { name: "one", managedFields }, f: now };
    expect(takenFields(current, { f: wanted }, "mine").map((it) => it.field)).toEqual(found);
  });
  it("finds nothing in keys that are not JSON, or of other fields than the list has", () => {
    const owned = { "k:{": { "f:name": {} }, "k:7": {}, 'k:{"a":1}': {}, 'k:{"b":1}': {}, 'k:{"c":1}': {} };
    const managedFields = [applied, update({ "f:f": owned })];
    const current = { metadata: { name: "one", managedFields }, f: [{ port: 80, name: "y" }] };
    expect(takenFields(current, { f: [{ port: 80, name: "x" }] }, "mine")).toEqual([]);
  });

  it("looks at each item of a long list, and of others' fields, a bounded number of times", () => {
    let reads = 0;
    const seen = (port: number): object =>
      Object.defineProperty({}, "port", { enumerable: true, get: () => ((reads += 1), port) });
    const ports = Array.from({ length: 1000 }, (_, at) => at);
    const owned = Object.fromEntries(ports.map((it) => [`k:{"port":${it}}`, { "f:name": {} }]));
    const managedFields = [applied, update({ "f:f": owned })];
    const current = { metadata: { name: "one", managedFields }, f: ports.map(seen) };
    takenFields(current, { f: ports.map(seen) }, "mine");
    expect(reads).toBeLessThan(20 * ports.length);
  });

  it("finds nothing in an object that the manager did not apply before", () => {
    const current = { metadata: { name: "one", managedFields: [update({ "f:f": {} })] }, f: 1 };
    expect(takenFields(current, { f: 2 }, "mine")).toEqual([]);
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
