import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseJson } from "./json.ts";

describe("the JSON of a request", () => {
  it("parses like JSON.parse if there are no duplicates", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 4 }), (text) => {
        fc.pre(!text.includes("__proto__"));
        expect(parseJson(text)).toEqual({ value: JSON.parse(text) as unknown, duplicates: [] });
      }),
    );
  });
  it("reports the path of a duplicate key, and uses the last value", () => {
    const text = '{"spec":{"a:b":"x,[{","ports":[{"port":1},{"port":2,"po\\u0072t":3}]},"spec":{"ports":[]}}';
    expect(parseJson(text)).toEqual({
      value: { spec: { ports: [] } },
      duplicates: ["spec.ports[1].port", "spec"],
    });
  });
  it("reports a bounded number of duplicate keys of bounded length", () => {
    const twice = Array.from({ length: 20_000 }, (_, at) => `"k${at}":1,"k${at}":2`).join();
    const { duplicates } = parseJson(`{"${"A".repeat(100_000)}":{${twice}}}`);
    expect(duplicates[0]).toBe(`${"A".repeat(512)}....k0`);
    expect(duplicates.join("").length).toBeLessThan(70_000);
  });
  it("keeps integers of 64 bits, and rejects larger ones", () => {
    expect(parseJson("[9007199254740991,-9007199254740991,1e300,0.12345678901234567890]").duplicates).toEqual(
      [],
    );
    expect(parseJson('{"a":9007199254740993}').value).toEqual({ a: 9_007_199_254_740_993n });
    expect(parseJson('{"a":-9223372036854775808}').value).toEqual({ a: -(2n ** 63n) });
    expect(() => parseJson('{"a":9223372036854775808}')).toThrow(/would be rounded/);
  });
  it("rejects nesting that would exhaust the stack of its readers", () => {
    expect(() => parseJson("[".repeat(100_000))).toThrow(/max depth/);
  });
  it("rejects __proto__ in any spelling", () => {
    expect(() => parseJson('{"a":{"__proto__":{}}}')).toThrow(/__proto__/);
    expect(() => parseJson('{"\\u005f_proto__":1}')).toThrow(/__proto__/);
  });
  it("rejects malformed JSON with a Status 400", () => {
    expect(() => parseJson('{"a":}')).toThrow(expect.objectContaining({ code: 400 }));
    expect(() => parseJson('"abc')).toThrow(/json parse error/);
  });
});
