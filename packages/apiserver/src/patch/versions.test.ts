import { describe, expect, it } from "vitest";
import { resolveDefinition } from "#schema/definitions.ts";
import type { Schema } from "#schema/types.ts";
import { StatusError } from "#status.ts";
import type { ApiObject } from "#values/object.ts";
import { apply } from "./apply.ts";
import { trackUpdate } from "./track-update.ts";

/** Two versions of a custom kind: v1 has a field `old`, v2 a field `new`; `list` is one value in v1, and has keys in v2. */

const TEXT: Schema = { type: "string" };
const ITEM: Schema = { type: "object", properties: { n: TEXT, v: TEXT } };
const STATUS: Schema = { type: "object", properties: { s: TEXT } };
const SCHEMAS: Readonly<Record<string, Schema>> = {
  "example.com/v1": kind({ old: TEXT, x: TEXT, list: { type: "array", items: ITEM } }),
  "example.com/v2": kind({
    new: TEXT,
    x: TEXT,
    list: {
      type: "array",
      items: ITEM,
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["n"],
    },
  }),
};

function kind(spec: Readonly<Record<string, Schema>>): Schema {
  return { type: "object", properties: { spec: { type: "object", properties: spec }, status: STATUS } };
}

function originOf(version: string, manager: string) {
  const apiVersion = `example.com/${version}`;
  return {
    manager,
    apiVersion,
    subresource: "",
    hasStatus: true,
    isCustom: true,
    now: "2026-01-01T00:00:00Z",
    schema: SCHEMAS[apiVersion] ?? {},
    schemaOf: (it: string) => SCHEMAS[it],
    resolve: resolveDefinition,
  };
}

function widget(version: string, spec: object, more: object = {}): ApiObject {
  return { apiVersion: `example.com/${version}`, kind: "Widget", metadata: { name: "a" }, spec, ...more };
}

/** The object as it is read in another version. */
function as(version: string, { metadata, ...object }: ApiObject): ApiObject {
  return { ...object, metadata, apiVersion: `example.com/${version}` };
}

function created(version: string, spec: object, more: object = {}): ApiObject {
  return trackUpdate({
    ...originOf(version, "one"),
    before: undefined,
    after: widget(version, spec, more),
  });
}

function updated(version: string, before: ApiObject, spec: object): ApiObject {
  const live = as(version, before);
  return trackUpdate({ ...originOf(version, "two"), before: live, after: { ...live, spec } });
}

function applied(version: string, live: ApiObject, spec: object, manager = "two"): ApiObject {
  const config = widget(version, spec);
  return apply({ ...originOf(version, manager), live: as(version, live), applied: config, force: true });
}

function ownersOf({ metadata }: ApiObject): object | undefined {
  return metadata.managedFields?.map((it) => [it.manager, it.apiVersion, it.fieldsV1]);
}

describe("owners of fields in another version", () => {
  it("lose by an update what it changes, as their version sees it", () => {
    const list = [
      { n: "a", v: "1" },
      { n: "b", v: "1" },
    ];
    const before = created("v1", { x: "1", list });
    const after = updated("v2", before, { x: "1", list: [{ n: "a", v: "2" }, list[1]] });
    expect(ownersOf(after)).toEqual([
      ["one", "example.com/v1", { "f:spec": { ".": {}, "f:x": {} } }],
      ["two", "example.com/v2", { "f:spec": { "f:list": { 'k:{"n":"a"}': { "f:v": {} } } } }],
    ]);
  });
  it("lose by an apply what it changes, as their version sees it", () => {
    const before = created("v1", { x: "1", list: [{ n: "a", v: "1" }] });
    const after = applied("v2", before, { list: [{ n: "b", v: "1" }] });
    expect(ownersOf(after)).toEqual([
      [
        "two",
        "example.com/v2",
        { "f:spec": { "f:list": { 'k:{"n":"b"}': { ".": {}, "f:n": {}, "f:v": {} } } } },
      ],
      ["one", "example.com/v1", { "f:spec": { ".": {}, "f:x": {} } }],
    ]);
  });
  it("are lost by an update to a field that their version does not have", () => {
    const after = updated("v2", created("v1", { x: "1" }), { x: "1", new: "2" });
    expect(ownersOf(after)).toBeUndefined();
  });
  it("keep an apply from a field that their version does not have", () => {
    const before = created("v1", { x: "1" });
    expect(() => applied("v2", before, { new: "2" })).toThrow(
      new StatusError({
        code: 500,
        message: "failed to convert new object: .spec.new: field not declared in schema",
      }),
    );
  });
  it("keep an apply from a field that the manager's last version does not have", () => {
    const before = applied("v1", created("v2", { x: "1" }), { x: "1" });
    expect(() => applied("v2", before, { new: "2" })).toThrow(
      "failed to prune fields: failed to convert merged object to last applied version: .spec.new: field not declared in schema",
    );
  });
  it("keep an apply from an object that their version cannot have", () => {
    const before = created("v1", { x: "1" });
    const live = { ...before, spec: { x: "1", new: "2" } };
    expect(() => applied("v2", live, { x: "2" })).toThrow(/^\.spec\.new: field not declared in schema$/);
  });
  it("keep an apply from an object that the version of the write cannot have", () => {
    const before = created("v1", { old: "1" });
    expect(() => applied("v2", before, { x: "2" })).toThrow(
      "failed to create typed live object (/a; example.com/v2, Kind=Widget): .spec.old: field not declared in schema",
    );
  });
  it("have what a manager no longer applies removed, though it applied it in another version", () => {
    const before = applied("v1", created("v2", {}), { x: "1", list: [{ n: "a", v: "1" }] });
    const after = applied("v2", before, { x: "1" });
    expect(after["spec"]).toEqual({ x: "1" });
  });
});

describe("a status that a write drops", () => {
  it("leaves the object without owners where it is not one", () => {
    expect(ownersOf(created("v1", { x: "1" }, { status: { s: [] } }))).toBeUndefined();
    expect(ownersOf(created("v1", { x: "1" }, { status: 1 }))).toBeUndefined();
  });
  it("counts for nothing where it is one", () => {
    expect(ownersOf(created("v1", { x: "1" }, { status: { s: "1" } }))).toEqual([
      ["one", "example.com/v1", { "f:spec": { ".": {}, "f:x": {} } }],
    ]);
  });
});
