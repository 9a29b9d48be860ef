import * as fc from "fast-check";
import fastJsonPatch from "fast-json-patch";
import { describe, expect, it } from "vitest";
import { applyJsonPatch } from "./json-patch.ts";

const document = { a: 1, list: [1, 2, 3], "x/y": { "m~n": true } };

describe("a JSON patch", () => {
  it("applies operations in order, and does not modify its target", () => {
    const before = structuredClone(document);
    const patch = [
      { op: "test", path: "/a", value: 1 },
      { op: "replace", path: "/a", value: { b: [] } },
      { op: "add", path: "/a/b/-", value: "end" },
      { op: "copy", from: "/list/0", path: "/a/b/0" },
      { op: "move", from: "/x~1y/m~0n", path: "/moved" },
      { op: "remove", path: "/list/1" },
    ];
    expect(applyJsonPatch(document, patch)).toEqual({
      a: { b: [1, "end"] },
      list: [1, 3],
      "x/y": {},
      moved: true,
    });
    expect(document).toEqual(before);
  });
  it("counts negative indices from the end, as Go's library does", () => {
    expect(applyJsonPatch(document, [{ op: "remove", path: "/list/-1" }])).toMatchObject({ list: [1, 2] });
    expect(applyJsonPatch(document, [{ op: "add", path: "/list/-1", value: 4 }])).toMatchObject({
      list: [1, 2, 3, 4],
    });
    expect(applyJsonPatch(document, [{ op: "replace", path: "/list/-3", value: 0 }])).toMatchObject({
      list: [0, 2, 3],
    });
  });
  it.each([
    [{ op: "remove", path: "/b" }],
    [{ op: "replace", path: "/list/9", value: 1 }],
    [{ op: "frob", path: "" }],
    [{ op: "add" }],
    [{ op: "move", path: "/a" }],
    [{ op: "add", path: "/b/c", value: 1 }],
    [{ op: "add", path: "/list/5", value: 1 }],
    [{ op: "add", path: "/list/01", value: 1 }],
    [{ op: "test", path: "/a", value: 2 }],
    [{ op: "test", path: "/constructor", value: 2 }],
    [{ op: "move", from: "/x~1y", path: "/x~1y/z" }],
  ])("that cannot be applied is rejected with 422: %j", (operation) => {
    expect(() => applyJsonPatch(document, [operation])).toThrow(expect.objectContaining({ code: 422 }));
  });
  it("that is malformed is rejected with 400", () => {
    for (const patch of [[1], {}, "add"])
      expect(() => applyJsonPatch(document, patch)).toThrow(expect.objectContaining({ code: 400 }));
  });
  it("replaces absent values, and accepts pointers without a slash, as Go's library does", () => {
    expect(applyJsonPatch({}, [{ op: "replace", path: "/b", value: 1 }])).toEqual({ b: 1 });
    expect(applyJsonPatch({}, [{ op: "add", path: "any/b", value: 1 }])).toEqual({ b: 1 });
  });
  it("cannot modify the prototype", () => {
    expect(() => applyJsonPatch({}, [{ op: "add", path: "/__proto__/x", value: 1 }])).toThrow(/__proto__/);
  });
  it("is limited to 10,000 operations, and to a bounded amount of copies", () => {
    const many = Array.from({ length: 10_001 }, () => ({ op: "test", path: "", value: 1 }));
    expect(() => applyJsonPatch(1, many)).toThrow(expect.objectContaining({ code: 413 }));
    const doubling = Array.from({ length: 100 }, () => ({ op: "copy", from: "", path: "/list/-" }));
    expect(() => applyJsonPatch(document, doubling)).toThrow(expect.objectContaining({ code: 413 }));
  });
  it.each([
    ["moves", { op: "move", from: "/x", path: "/x" }],
    ["shifts", { op: "add", path: "/x/0", value: 1 }],
  ])("cannot read a big value with each of many operations: one that %s", (_, operation) => {
    const big = { x: Array.from({ length: 100_000 }, () => []) };
    const patch = Array.from({ length: 1000 }, () => operation);
    expect(() => applyJsonPatch(big, patch)).toThrow(expect.objectContaining({ code: 413 }));
  });
  it("cannot compare a big value with each of many operations", () => {
    const big = { x: Array.from({ length: 100_000 }, (_, at) => at) };
    const patch = Array.from({ length: 100 }, () => ({ op: "test", path: "/x", value: big.x }));
    expect(() => applyJsonPatch(big, patch)).toThrow(expect.objectContaining({ code: 413 }));
  });
  it("moves values without a copy", () => {
    const patch = [
      { op: "move", from: "/list", path: "/moved" },
      { op: "add", path: "/moved/-", value: 4 },
    ];
    expect(applyJsonPatch(document, patch)).toMatchObject({ moved: [1, 2, 3, 4] });
    expect(document.list).toEqual([1, 2, 3]);
  });
  it("cannot nest values deeper than their readers can follow", () => {
    const deep = JSON.parse(`${"[".repeat(400)}${"]".repeat(400)}`) as unknown;
    const patch = [
      { op: "add", path: "/a", value: deep },
      { op: "add", path: `/a${"/0".repeat(399)}/-`, value: deep },
    ];
    expect(() => applyJsonPatch(document, patch)).toThrow(/nested deeper/);
  });
  it("from fast-json-patch turns one document into the other", () => {
    const plain = fc.jsonValue({ maxDepth: 3 }).filter((it) => !JSON.stringify(it).includes("__proto__"));
    const document$ = fc.record({ a: plain, b: plain, c: fc.array(plain) });
    fc.assert(
      fc.property(document$, document$, (from, to) => {
        const [a, b] = [structuredClone(from), JSON.parse(JSON.stringify(to)) as typeof to];
        expect(applyJsonPatch(from, fastJsonPatch.compare(a, b))).toEqual(b);
      }),
    );
  });
});
