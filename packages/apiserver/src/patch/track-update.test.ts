import { describe, expect, it } from "vitest";
import type { ApiObject } from "#values/object.ts";
import { builtinSchema, resolveDefinition } from "#schema/definitions.ts";
import type { Schema } from "#schema/types.ts";
import { apply } from "./apply.ts";
import { trackUpdate } from "./track-update.ts";

const ORIGIN = {
  apiVersion: "v1",
  subresource: "",
  hasStatus: false,
  now: "2026-01-01T00:00:00Z",
  schema: builtinSchema("", "v1", "ConfigMap") as Schema,
  resolve: resolveDefinition,
} as const;

function config(data: Record<string, string>, metadata: object = {}): ApiObject {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c", ...metadata }, data };
}

function write(
  before: ApiObject | undefined,
  manager: string,
  data: Record<string, string>,
  more: object = {},
): ApiObject {
  return trackUpdate({ ...ORIGIN, before, after: config(data, before?.metadata), manager, ...more });
}

describe("a write other than apply", () => {
  it("owns what it created", () => {
    expect(write(undefined, "kubectl-create", { a: "1" }).metadata.managedFields).toEqual([
      {
        manager: "kubectl-create",
        operation: "Update",
        apiVersion: "v1",
        time: "2026-01-01T00:00:00Z",
        fieldsType: "FieldsV1",
        fieldsV1: { "f:data": { ".": {}, "f:a": {} } },
      },
    ]);
  });
  it("does not own fields that the server writes of an empty object", () => {
    const schema = builtinSchema("", "v1", "Event") as Schema;
    const says = { metadata: { name: "e" }, reportingComponent: "", involvedObject: {} };
    const after: ApiObject = { apiVersion: "v1", kind: "Event", ...says, reason: "Because" };
    const empty = { reportingComponent: "", involvedObject: {} };
    const { metadata } = trackUpdate({ ...ORIGIN, schema, before: undefined, after, empty, manager: "a" });
    expect(metadata.managedFields?.map((it) => it.fieldsV1)).toEqual([{ "f:reason": {} }]);
  });
  it("takes ownership of fields that it changed, and ends ownership of fields that it removed", () => {
    const one = write(undefined, "a", { x: "1", y: "1", z: "1" });
    const two = write(one, "b", { x: "2", z: "1" }, { now: "2026-01-01T00:00:05Z" });
    expect(two.metadata.managedFields?.map((it) => [it.manager, it.fieldsV1])).toEqual([
      ["a", { "f:data": { ".": {}, "f:z": {} } }],
      ["b", { "f:data": { "f:x": {} } }],
    ]);
  });
  it("that changes nothing leaves the entries and their times", () => {
    const one = write(undefined, "a", { x: "1" });
    const two = write(one, "b", { x: "1" }, { now: "2027-01-01T00:00:00Z" });
    expect(two).toEqual(one);
  });
  it("adds to the fields of the same manager, and updates its time", () => {
    const one = write(undefined, "a", { x: "1" });
    const two = write(one, "a", { x: "1", y: "1" }, { now: "2027-01-01T00:00:00Z" });
    expect(two.metadata.managedFields).toMatchObject([
      { time: "2027-01-01T00:00:00Z", fieldsV1: { "f:data": { ".": {}, "f:x": {}, "f:y": {} } } },
    ]);
  });
  it("renews its time where it changes a value that it owns already", () => {
    const one = write(undefined, "a", { x: "1" });
    const two = write(one, "a", { x: "2" }, { now: "2027-01-01T00:00:00Z" });
    expect(two.metadata.managedFields?.map((it) => it.time)).toEqual(["2027-01-01T00:00:00Z"]);
  });
  it("takes over fields of appliers, so that their next apply conflicts", () => {
    const one = apply({
      ...ORIGIN,
      live: undefined,
      applied: config({ x: "1" }),
      manager: "a",
      force: false,
    });
    const two = write(one, "b", { x: "2" });
    expect(() =>
      apply({ ...ORIGIN, live: two, applied: config({ x: "1" }), manager: "a", force: false }),
    ).toThrow('conflict with "b" using v1: .data.x');
  });
  it("does not own fields that the server sets on every object", () => {
    const after = config(
      {},
      { uid: "u", creationTimestamp: "t", resourceVersion: "1", generation: 1, labels: { l: "1" } },
    );
    const tracked = trackUpdate({ ...ORIGIN, before: undefined, after, manager: "a" });
    expect(tracked.metadata.managedFields?.[0]?.fieldsV1).toEqual({
      "f:data": {},
      "f:metadata": { "f:labels": { ".": {}, "f:l": {} } },
    });
  });
  it("by an unnamed writer is recorded as manager unknown", () => {
    expect(write(undefined, "", { x: "1" }).metadata.managedFields?.[0]?.manager).toBe("unknown");
  });
});

describe("a null in a field of free form", () => {
  it("is a value: fields that replace it belong to the writer, the field itself to its former owner", () => {
    const schema: Schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
    const free = (spec: unknown): ApiObject => ({
      apiVersion: "v1",
      kind: "W",
      metadata: { name: "w" },
      spec,
    });
    const one = trackUpdate({ ...ORIGIN, schema, before: undefined, after: free({ a: null }), manager: "a" });
    const after = { ...free({ a: { b: 1 } }), metadata: one.metadata };
    const two = trackUpdate({ ...ORIGIN, schema, before: one, after, manager: "b" });
    expect(two.metadata.managedFields?.map((it) => [it.manager, it.fieldsV1])).toEqual([
      ["a", { "f:spec": { ".": {}, "f:a": {} } }],
      ["b", { "f:spec": { "f:a": { "f:b": {} } } }],
    ]);
  });
});

describe("a built-in kind", () => {
  it("has the ownership of kube-apiserver: structs by value exist before they have fields", () => {
    const after: ApiObject = {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "d", labels: { app: "d" } },
      spec: {
        replicas: 1,
        selector: { matchLabels: { app: "d" } },
        strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1 } },
        template: {
          metadata: { labels: { app: "d" } },
          spec: { securityContext: {}, containers: [{ name: "c", image: "i", resources: {} }] },
        },
      },
      status: {},
    };
    const schema = builtinSchema("apps", "v1", "Deployment") as Schema;
    const tracked = trackUpdate({
      ...ORIGIN,
      apiVersion: "apps/v1",
      schema,
      hasStatus: true,
      before: undefined,
      after,
      manager: "m",
    });
    expect(tracked.metadata.managedFields?.[0]?.fieldsV1).toEqual({
      "f:metadata": { "f:labels": { ".": {}, "f:app": {} } },
      "f:spec": {
        "f:replicas": {},
        "f:selector": {},
        "f:strategy": { "f:rollingUpdate": { ".": {}, "f:maxSurge": {} }, "f:type": {} },
        "f:template": {
          "f:metadata": { "f:labels": { ".": {}, "f:app": {} } },
          "f:spec": {
            "f:containers": { 'k:{"name":"c"}': { ".": {}, "f:image": {}, "f:name": {}, "f:resources": {} } },
            "f:securityContext": {},
          },
        },
      },
    });
  });
});

describe("managedFields that the client sends", () => {
  const one = write(undefined, "a", { x: "1" });
  const sendFields = (managedFields: unknown): ApiObject =>
    trackUpdate({ ...ORIGIN, before: one, after: config({ x: "1" }, { managedFields }), manager: "b" });

  it("end the tracking if they are [{}] or none at all", () => {
    expect(sendFields([{}]).metadata.managedFields).toBeUndefined();
    expect(sendFields([]).metadata.managedFields).toBeUndefined();
  });
  it("are ignored if they are missing or malformed", () => {
    expect(sendFields(undefined).metadata.managedFields).toEqual(one.metadata.managedFields);
    expect(
      sendFields([{ manager: "x", operation: "Apply", fieldsV1: { x: {} } }]).metadata.managedFields,
    ).toEqual(one.metadata.managedFields);
  });
  it("may rename a manager", () => {
    const [entry] = one.metadata.managedFields ?? [];
    expect(sendFields([{ ...entry, manager: "renamed" }]).metadata.managedFields).toMatchObject([
      { manager: "renamed" },
    ]);
  });
});

describe("many managers", () => {
  it("are limited to 10 updaters: the oldest are merged into ancient-changes with their fields", () => {
    let live: ApiObject | undefined;
    const data: Record<string, string> = {};
    for (let n = 0; n < 14; n++) {
      data[`k${n}`] = "v";
      live = write(live, `m${n}`, { ...data }, { now: `2026-01-01T00:00:${String(n).padStart(2, "0")}Z` });
    }
    const entries = live?.metadata.managedFields ?? [];
    expect(entries.map((it) => it.manager)).toEqual([
      "ancient-changes",
      "m5",
      "m6",
      "m7",
      "m8",
      "m9",
      "m10",
      "m11",
      "m12",
      "m13",
    ]);
    expect(entries[0]?.fieldsV1).toEqual({
      "f:data": { ".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}, "f:k4": {} },
    });
  });
});

describe("a schema that changed since", () => {
  const widget = (mapType: "atomic" | "granular"): Schema => ({
    type: "object",
    properties: {
      spec: {
        type: "object",
        "x-kubernetes-map-type": mapType,
        properties: { a: { type: "string" }, b: { type: "string" } },
      },
    },
  });
  const object = (a: string, b: string): ApiObject => ({
    apiVersion: "v1",
    kind: "W",
    metadata: { name: "w" },
    spec: { a, b },
  });

  it("from granular to atomic makes the owners of parts owners of the whole", () => {
    const one = apply({
      ...ORIGIN,
      schema: widget("granular"),
      live: undefined,
      applied: object("1", "1"),
      manager: "a",
      force: false,
    });
    expect(() =>
      apply({
        ...ORIGIN,
        schema: widget("atomic"),
        live: one,
        applied: object("2", "1"),
        manager: "b",
        force: false,
      }),
    ).toThrow('conflict with "a": .spec');
  });
});
