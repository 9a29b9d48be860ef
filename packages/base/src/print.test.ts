import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { escapeControls, hasControls, oneLine } from "./print.ts";

const STEERS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
const hostile = fc.oneof(
  fc.string({ unit: "binary" }),
  fc
    .array(
      fc.constantFrom("\u001b[2K", "\u009b1A", "\r", "\u202e", "\u{e0041}", "\u007f", "a", "\n", "\t", "\\"),
      { maxLength: 20 },
    )
    .map((it) => it.join("")),
);

describe("escapeControls", () => {
  it("leaves no character that steers a terminal, other than line breaks and tabs", () => {
    fc.assert(
      fc.property(hostile, (text) => {
        const printed = escapeControls(text);
        expect(printed.replaceAll(/[\n\t]/g, "")).not.toMatch(STEERS);
        expect(hasControls(text)).toBe(printed !== text);
      }),
    );
  });

  it("keeps the meaning of JSON", () => {
    fc.assert(
      fc.property(hostile, hostile, (key, value) => {
        const data = { [key]: [value] };
        expect(JSON.parse(escapeControls(JSON.stringify(data, undefined, 2)))).toEqual(data);
      }),
    );
  });

  it("shows an escape sequence as text", () => {
    expect(escapeControls("a\u001b[31mb\u009b\u{e0041}")).toBe("a\\u001b[31mb\\u009b\\udb40\\udc41");
  });

  it("leaves letters of all languages as they are", () => {
    const text = "naïve Größe\tדָּבָר 日本語 👍🏽\n";
    expect(escapeControls(text)).toBe(text);
  });
});

it("oneLine leaves nothing that begins a line", () => {
  expect(oneLine("a\r\nb\n\tc\u2028d")).toBe("a  b  c d");
});
