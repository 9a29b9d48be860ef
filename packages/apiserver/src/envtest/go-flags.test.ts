import { describe, expect, it } from "vitest";
import { readGoFlags } from "./go-flags.ts";

describe("flags of a Go program", () => {
  it.each<[string, readonly string[], Readonly<Record<string, string>>]>([
    ["with an equals sign", ["--secure-port=6443", "-v=4"], { "secure-port": "6443", v: "4" }],
    ["with a value behind them", ["--cert-dir", "/tmp/x", "--v", "2"], { "cert-dir": "/tmp/x", v: "2" }],
    ["without a value", ["--allow-privileged", "--v=1"], { "allow-privileged": "true", v: "1" }],
    ["given twice count once, the last", ["--v=1", "--v=2"], { v: "2" }],
    [
      "whose value has an equals sign",
      ["--feature-gates=A=true,B=false"],
      { "feature-gates": "A=true,B=false" },
    ],
    ["next to words that are not flags", ["serve", "--v=1"], { v: "1" }],
  ])("%s", (_name, argv, flags) => {
    expect(Object.fromEntries(readGoFlags(argv))).toEqual(flags);
  });
});
