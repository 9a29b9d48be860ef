import { describe, expect, it } from "vitest";
import { covers, isSelected, isStale, selectionOf, selectorsOf } from "./selection.ts";

const named = (count: number, length = 5): Set<string> =>
  new Set(Array.from({ length: count }, (_, at) => `n${at}`.padEnd(length, "x")));

describe("what a member reads of the view", () => {
  it("is the services of its namespaces, and the slices of other clusters", () => {
    const selectors = selectorsOf(selectionOf(new Set(["web", "db"])), "a");
    expect(selectors).toEqual({
      services: "fairlead.dev/service-namespace in (db,web)",
      slices: "fairlead.dev/source-cluster!=a,fairlead.dev/service-namespace in (db,web)",
    });
  });

  it("is of all namespaces where its own are too many for an address, or cannot be read", () => {
    const slices = "fairlead.dev/source-cluster!=a";
    for (const many of [undefined, named(101), named(100, 60)])
      expect(selectorsOf(selectionOf(many), "a")).toEqual({ services: undefined, slices });
    expect(selectionOf(named(100)).namespaces).toEqual(named(100));
  });

  it("changes with a namespace that comes, and not with one that goes", () => {
    const selection = selectionOf(new Set(["web", "db"]));
    expect(isStale(selection, new Set(["web"]))).toBe(false);
    expect(isStale(selection, new Set(["web", "new"]))).toBe(true);
    expect(isStale(selection, undefined)).toBe(true);
    expect(covers(selection, new Set(["web"]))).toBe(true);
    expect(isSelected(selection, "new")).toBe(false);
  });

  it("is of all namespaces until there are far fewer than too many", () => {
    const all = selectionOf(named(101));
    expect(isStale(all, named(200))).toBe(false);
    expect(isStale(all, named(99))).toBe(false);
    expect(isStale(all, named(50))).toBe(true);
    expect(covers(all, undefined)).toBe(true);
  });
});
