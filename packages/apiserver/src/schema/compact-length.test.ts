import * as fc from "fast-check";
import { expect, it } from "vitest";
import { compactLength } from "./compact-length.ts";

it("the compact length of JSON is never more than the length of its shortest form", () => {
  fc.assert(
    fc.property(fc.json({ stringUnit: "binary" }), fc.constantFrom(undefined, 2, "\t"), (json, indent) => {
      const value: unknown = JSON.parse(json);
      const shortest = Buffer.byteLength(JSON.stringify(value));
      const text = JSON.stringify(value, null, indent);
      const escaped = text.replaceAll(
        /[^\x20-\x7e\n\t]/g,
        (it) => String.raw`\u` + it.charCodeAt(0).toString(16).padStart(4, "0"),
      );
      for (const it of [text, escaped])
        expect(compactLength(Buffer.from(it).toString("latin1"))).toBeLessThanOrEqual(shortest);
    }),
  );
});

it("the compact length leaves out white space between tokens only", () => {
  expect(compactLength('{ "a b" : [\n 1 , "\t" ] }')).toBe('{"a b":[1,"\t"]}'.length);
});
