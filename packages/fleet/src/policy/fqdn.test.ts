import { describe, expect, it } from "vitest";
import { doesFqdnMatch } from "./fqdn.ts";

describe("a pattern of DNS names", () => {
  it.each([
    ["x.io", ["x.io", "X.IO"], ["a.x.io", "x.ioo", "io"]],
    ["a.b.io", ["a.b.io"], ["axb.io", "a-b.io", "a.bxio"]],
    ["*.a.b.io", ["x.a.b.io"], ["x.axb.io", "xxa.b.io", "x.a.bxio"]],
    ["**.a.b.io", ["x.y.a.b.io"], ["x.y.axb.io", "xxa.b.io"]],
    ["*.x.io", ["a.x.io", "-.x.io"], ["x.io", "a.b.x.io"]],
    ["**.x.io", ["a.x.io", "a.b.x.io"], ["x.io", "ax.io"]],
    ["*", ["x", "a.b.c"], []],
    ["a*c.x.io", ["ac.x.io", "abc.x.io"], ["a.x.io", "acb.x.io", "c.x.io"]],
    ["a*b*a.io", ["aba.io", "axbxa.io"], ["aa.io", "ab.io", "abxa", "ab-a-b.io"]],
  ])("%s", (pattern, matching, others) => {
    for (const name of matching) expect([name, doesFqdnMatch(name, pattern)]).toEqual([name, true]);
    for (const name of others) expect([name, doesFqdnMatch(name, pattern)]).toEqual([name, false]);
  });
});
