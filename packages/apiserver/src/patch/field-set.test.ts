import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  difference,
  EMPTY,
  intersection,
  leaves,
  parseFieldSet,
  renderPath,
  sameSet,
  union,
  type FieldSet,
} from "./field-set.ts";

const elements = fc.constantFrom("f:a", "f:b", 'k:{"n":1}', 'v:"x"');
const paths = fc.array(elements, { minLength: 1, maxLength: 3 });

function setOf(list: readonly (readonly string[])[]): FieldSet {
  return list.reduce<FieldSet>((set, path) => {
    const leaf: FieldSet = {};
    return union(
      set,
      path.reduceRight<FieldSet>((child, element) => ({ [element]: child }), leaf),
    );
  }, EMPTY);
}

/** Every path that is in the set, as text. */
function members(set: FieldSet, above: readonly string[] = []): string[] {
  return Object.entries(set).flatMap(([element, child]) => {
    if (element === ".") return [];
    const path = [...above, element];
    const isIn = Object.keys(child).length === 0 || "." in child;
    return [...(isIn ? [path.join("/")] : []), ...members(child, path)];
  });
}

const sets = fc
  .array(paths, { maxLength: 6 })
  .map((list) => ({ set: setOf(list), paths: new Set(list.map((it) => it.join("/"))) }));

describe("sets of fields", () => {
  it("have union, intersection and difference like sets of paths", () => {
    fc.assert(
      fc.property(sets, sets, (a, b) => {
        expect(new Set(members(union(a.set, b.set)))).toEqual(a.paths.union(b.paths));
        expect(new Set(members(intersection(a.set, b.set)))).toEqual(a.paths.intersection(b.paths));
        expect(new Set(members(difference(a.set, b.set)))).toEqual(a.paths.difference(b.paths));
        expect(sameSet(a.set, b.set)).toBe(a.paths.symmetricDifference(b.paths).size === 0);
      }),
    );
  });
  it("do not change when they are stored and parsed", () => {
    fc.assert(
      fc.property(sets, ({ set }) => {
        expect(sameSet(parseFieldSet(JSON.parse(JSON.stringify(set))) ?? EMPTY, set)).toBe(true);
      }),
    );
  });
  it("list their deepest paths in the format of messages", () => {
    const set = {
      "f:spec": {
        ".": {},
        "f:l": { 'k:{"name":"a","port":80}': { ".": {}, "f:x": {} }, 'v:"s"': {}, "i:1": {} },
      },
    };
    expect([...leaves(set)].map(renderPath)).toEqual([
      ".spec.l[1]",
      '.spec.l[name="a",port=80].x',
      '.spec.l[="s"]',
    ]);
  });
  it("have keys that are not scalars printed as kube-apiserver prints them", () => {
    expect(renderPath(['k:{"name":{}}', 'k:{"name":[{},1]}', 'k:{"name":{"x":"y"}}'])).toBe(
      '[name=][name=[,1]][name=x="y"]',
    );
  });
  it("are parsed with the fields of a key in any order, and rejected if malformed", () => {
    expect(parseFieldSet({ 'k:{"b":1,"a":"x"}': {} })).toEqual({ 'k:{"a":"x","b":1}': {} });
    expect(parseFieldSet({ spec: {} })).toBeUndefined();
    expect(parseFieldSet({ "f:a": 1 })).toBeUndefined();
    expect(parseFieldSet({ "k:{": {} })).toBeUndefined();
  });
});
