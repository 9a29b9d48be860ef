import { describe, expect, it } from "vitest";
import { CONFIG_MAPS } from "#api/core/v1/types.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "#api/discovery/v1/types.ts";
import { parseResponse, readObject } from "./read.ts";

describe("a response with the nulls that Go writes", () => {
  it("has no null fields at any depth, and keeps the items of lists", () => {
    const text = '{"a":null,"b":{"c":null,"d":[{"e":null,"f":1},null]},"g":"null"}';
    expect(parseResponse(text)).toEqual({ b: { d: [{ f: 1 }, null] }, g: "null" });
  });

  it("is read however deep it is nested, as one deep object would stand for a whole list", () => {
    const levels = 20_000;
    const text = `${"[".repeat(levels)}{"a":null,"b":9007199254740993}${"]".repeat(levels)}`;
    let read = parseResponse(text);
    for (let at = 0; at < levels; at += 1) read = (read as unknown[])[0];
    expect(read).toEqual({ b: 9007199254740993n });
  });

  it("has every digit of its integers", () => {
    const text = '{"a":9007199254740993,"b":[-9223372036854775808],"c":"1234567890123456789","d":1}';
    const read = parseResponse(text);
    expect(read).toEqual({
      a: 9007199254740993n,
      b: [-9223372036854775808n],
      c: "1234567890123456789",
      d: 1,
    });
    expect(JSON.stringify(read)).toBe(text);
  });

  it("has the lists that its type requires", () => {
    const empty = parseResponse(
      '{"metadata":{"name":"a"},"addressType":"IPv4","endpoints":null,"ports":null}',
    ) as EndpointSlice;
    expect(readObject(ENDPOINT_SLICES, empty)).toEqual({
      metadata: { name: "a" },
      addressType: "IPv4",
      endpoints: [],
    });
    expect(readObject(CONFIG_MAPS, { metadata: { name: "a" } })).toEqual({ metadata: { name: "a" } });
  });
});
