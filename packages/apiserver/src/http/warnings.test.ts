import { describe, expect, it } from "vitest";
import { Warnings } from "./warnings.ts";

function shown(texts: readonly string[]): readonly string[] {
  const warnings = new Warnings();
  for (const it of texts) warnings.add(it);
  return warnings.shown();
}

describe("the warnings of an answer", () => {
  it("are sent in full, each once, while they fit", () => {
    expect(shown(["a", "b", "a"])).toEqual(["a", "b"]);
    expect(shown(["x".repeat(4096)])).toEqual(["x".repeat(4096)]);
  });
  it("are cut to 256 characters each and to 4096 together where they do not", () => {
    expect(shown(["x".repeat(4097), "y"])).toEqual(["x".repeat(256), "y"]);
    const many = shown(Array.from({ length: 10_000 }, (_, at) => `${at} ${"x".repeat(1000)}`));
    expect(many).toHaveLength(16);
    expect(many.join("")).toHaveLength(4096);
  });
});
