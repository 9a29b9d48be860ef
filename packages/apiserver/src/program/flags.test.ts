import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { command } from "./main.ts";
import { parseAddress, parseSeconds } from "./parse.ts";

const GUIDE = readFileSync(join(import.meta.dirname, "../../../../docs/apiserver.md"), "utf8");

describe("the flags of the API server", () => {
  it("are listed in docs/apiserver.md", () => {
    const rows = GUIDE.split("\n").filter((it) => it.startsWith("| `--"));
    const listed = rows.flatMap((row) =>
      [...(row.split("|")[1] ?? "").matchAll(/`(--[a-z-]+)`/g)].map((it) => it[1]),
    );
    expect(new Set(listed)).toEqual(new Set(command().options.map((it) => it.long)));
  });

  it.each<[(text: string) => unknown, string, unknown]>([
    [parseSeconds, "60", 60_000],
    [parseSeconds, "90s", 90_000],
    [parseSeconds, "2m", 120_000],
    [parseSeconds, "250ms", 250],
    [parseAddress, "fd00::1", "fd00::1"],
  ])("%o parses %j as %j", (parse, text, value) => {
    expect(parse(text)).toBe(value);
  });

  it.each<[(text: string) => unknown, string]>([
    [parseSeconds, "soon"],
    [parseSeconds, "-1s"],
    [parseAddress, "foo"],
  ])("%o rejects %j with an error", (parse, text) => {
    expect(() => parse(text)).toThrow(`is expected, got "${text}"`);
  });
});
