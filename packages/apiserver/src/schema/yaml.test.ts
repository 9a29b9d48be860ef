import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { parseYaml } from "./yaml.ts";

function valueOf(text: string): unknown {
  return parseYaml(text).value;
}

describe("the YAML of a request", () => {
  it("is parsed as YAML 1.1, as in Go", () => {
    expect(valueOf("{a: yes, b: off, c: 0777, d: 0x1f, e: 1_000, f: ~, g: 1.5, h: 'yes'}")).toEqual({
      a: true,
      b: false,
      c: 511,
      d: 31,
      e: 1000,
      f: null,
      g: 1.5,
      h: "yes",
    });
  });
  it("keeps ports, times and dates as text", () => {
    expect(valueOf("[8080:80, 12:30:45, 2026-01-02, 2026-01-02T03:04:05Z]")).toEqual([
      "8080:80",
      "12:30:45",
      "2026-01-02",
      "2026-01-02T03:04:05Z",
    ]);
  });
  it("converts keys to text", () => {
    expect(valueOf("1: a\ntrue: b\nnull: c\n")).toEqual({ "1": "a", true: "b", null: "c" });
  });
  it("reports the paths of duplicate keys, and uses the last values", () => {
    expect(parseYaml("spec:\n  a: 1\n  l:\n  - x: 1\n    x: 2\n  a: 2\n")).toEqual({
      value: { spec: { a: 2, l: [{ x: 2 }] } },
      duplicates: ["spec.l[0].x", "spec.a"],
    });
  });
  it("follows anchors and merge keys", () => {
    const text = "base: &b {p: 1, q: 1}\none: {<<: *b, q: 2}\ntwo: *b\n";
    expect(valueOf(text)).toEqual({ base: { p: 1, q: 1 }, one: { p: 1, q: 2 }, two: { p: 1, q: 1 } });
  });
  it("ignores tags that Go does not resolve", () => {
    expect(valueOf("a: !!set {x, z}\nb: !!omap [{c: 1}]\nd: !t e\nf: !!str 1\n")).toEqual({
      a: { x: null, z: null },
      b: [{ c: 1 }],
      d: "e",
      f: "1",
    });
  });
  it("reads JSON as JSON, and only the first document", () => {
    expect(parseYaml('{"a":1,"a":2}')).toEqual({ value: { a: 2 }, duplicates: ["a"] });
    expect(valueOf("a: 1\n---\nb: 2\n")).toEqual({ a: 1 });
    expect(valueOf("")).toBeNull();
  });
  it("parses any value that was written as YAML", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 3 }), (value) => {
        const plain = JSON.parse(JSON.stringify(value)) as unknown;
        // The writer does not quote the key "<<", so that it is a merge key.
        fc.pre(!/"(__proto__|<<)":/.test(JSON.stringify(plain)));
        expect(valueOf(stringify(plain, { version: "1.1" }))).toEqual(plain);
      }),
    );
  });
});

describe("hostile YAML", () => {
  it("is rejected if aliases multiply", () => {
    const lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"];
    for (let n = 1; n < 12; n++)
      lines.push(`a${n}: &a${n} [${Array.from({ length: 10 }, () => `*a${n - 1}`).join(",")}]`);
    expect(() => valueOf(lines.join("\n"))).toThrow("excessive aliasing");
  });
  it.each(['""', "null", "{}", "[]", "~", "!!str"])(
    "is refused when aliases multiply %s, which has no text",
    (item) => {
      const list = (it: string): string => `[${Array.from({ length: 900 }, () => it).join(",")}]`;
      const text = `a: &a ${list(item)}\nb: &b ${list("*a")}\nc: ${list("*b")}\n`;
      expect(() => valueOf(text)).toThrow("excessive aliasing");
    },
  );
  it.each([
    ["x: [{a]", "at line 1, column 7"],
    ['a: 1\nb: "\\q"', "at line 2, column 5"],
    ["a: 1\n\tb: 2", "at line 2, column 1"],
  ])("that is malformed is refused by its first error: %j", (text, where) => {
    expect(() => valueOf(text)).toThrow(where);
  });
  it("is rejected if an anchor contains itself", () => {
    expect(() => valueOf("a: &a [*a]")).toThrow("contains itself");
  });
  it("is rejected if it nests too deeply", () => {
    expect(() => valueOf("[".repeat(50_000))).toThrow(expect.objectContaining({ code: 400 }));
  });
  it("is rejected if parsing it would block the server for too long, unless it is JSON", () => {
    const long = "x".repeat(600_000);
    expect(() => valueOf(`a: ${long}`)).toThrow(expect.objectContaining({ code: 413 }));
    expect(valueOf(JSON.stringify({ a: long }))).toEqual({ a: long });
  });
  it.each(["a: [", "a: *b", "a: .nan", "a: 9007199254740993", "? {a: 1}\n: 2", "__proto__: {x: 1}"])(
    "is refused with 400: %j",
    (text) => {
      expect(() => valueOf(text)).toThrow(expect.objectContaining({ code: 400 }));
    },
  );
});
