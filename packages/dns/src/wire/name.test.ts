import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { foldName, isUnder, labelBytes, labelText, parseName, splitLabels } from "./name.ts";

describe("a domain name", () => {
  it("keeps every byte of its labels in its text", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 63 }), (bytes) => {
        const text = labelText(Buffer.from(bytes), 0, bytes.length);
        expect(labelBytes(text)).toEqual(Uint8Array.from(bytes));
        expect(splitLabels(`${text}.`)).toEqual([text]);
        expect(text).toMatch(/^[!-~]+$/);
      }),
    );
  });

  it("gets its final dot", () => {
    expect(parseName("clusterset.local")).toBe("clusterset.local.");
    expect(parseName("clusterset.local.")).toBe("clusterset.local.");
    expect(parseName(".")).toBe(".");
    expect(parseName("a\\.")).toBe("a\\..");
  });

  it.each([
    "a..b",
    ".a",
    "",
    "a b",
    "ä.local",
    `${"x".repeat(64)}.local`,
    "x.".repeat(128),
    "a\\999.b",
    "a\\",
  ])("%j is refused", (text) => {
    expect(() => parseName(text)).toThrow(expect.objectContaining({ code: "DNS_MALFORMED" }));
  });

  it("is under a zone only at a dot that separates labels", () => {
    expect(isUnder("a.clusterset.local.", "clusterset.local.")).toBe(true);
    expect(isUnder("clusterset.local.", "clusterset.local.")).toBe(true);
    expect(isUnder("aclusterset.local.", "clusterset.local.")).toBe(false);
    expect(isUnder("a\\.clusterset.local.", "clusterset.local.")).toBe(false);
    expect(isUnder("a\\\\.clusterset.local.", "clusterset.local.")).toBe(true);
    expect(isUnder("local.", "clusterset.local.")).toBe(false);
    expect(isUnder("anything.", ".")).toBe(true);
  });

  it("compares without case", () => {
    expect(foldName("Hello.WORK.svc.")).toBe("hello.work.svc.");
  });
});
