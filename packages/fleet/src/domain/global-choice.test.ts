import { describe, expect, it } from "vitest";
import type { DrainMode } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { OfferedSlice } from "./eligible.ts";
import { chooseGlobal, type GlobalRules } from "./global-choice.ts";
import { chooseSides } from "./global-service.ts";

const STATES = {
  ready: { ready: true },
  leaving: { ready: false, serving: true, terminating: true },
  none: { ready: false, serving: false },
} as const;
type State = keyof typeof STATES;
const ALL = Object.keys(STATES) as readonly State[];

function offered(cluster: string, state: State, more: Partial<OfferedSlice["facts"]> = {}): OfferedSlice {
  const endpoints = [{ addresses: ["10.0.0.1"], conditions: STATES[state] }];
  const facts = { addressType: "IPv4" as const, ports: [{ name: "http", port: 8080 }], endpoints, ...more };
  return { cluster, facts, isAlive: () => true };
}
const rules = (more: Partial<GlobalRules> = {}): GlobalRules => ({
  own: "a",
  affinity: "none",
  clusters: ["a", "b", "c"].map((cluster) => ({ cluster, global: true })),
  drained: new Map(),
  ...more,
});
/** The clusters that a port uses. */
function used(of: GlobalRules, slices: readonly OfferedSlice[], port = "http"): string {
  const serves = chooseGlobal(of, () => slices);
  return ["a", "b", "c"].filter((it) => serves(it, "IPv4", port)).join("");
}

describe("the clusters that a global Service uses", () => {
  it.each(
    (["none", "local", "remote"] as const).flatMap((affinity) =>
      ALL.flatMap((a) => ALL.flatMap((b) => ALL.map((c) => [affinity, a, b, c] as const))),
    ),
  )(
    "with affinity %s, and %s here, %s and %s elsewhere, are those of the sides that it uses",
    (affinity, a, b, c) => {
      const health = (...states: readonly State[]) => ({
        isActive: states.includes("ready"),
        isHealthy: states.some((it) => it !== "none"),
      });
      const sides = chooseSides(affinity, health(a), health(b, c));
      const expected = `${sides.local ? "a" : ""}${sides.remote ? "bc" : ""}`;
      expect(used(rules({ affinity }), [offered("a", a), offered("b", b), offered("c", c)])).toBe(expected);
    },
  );

  it("are only those whose Service is global, and that have a weight", () => {
    const clusters = [
      { cluster: "a", global: true },
      { cluster: "b" },
      { cluster: "c", global: true, weight: 0 },
    ];
    expect(used(rules({ clusters }), [])).toBe("a");
    expect(used(rules({ clusters: [{ cluster: "b", global: true }] }), [])).toBe("ab");
  });

  it.each<[Record<string, DrainMode>, Record<string, State>, string]>([
    [{ b: "Soft" }, { a: "ready", b: "ready", c: "ready" }, "ac"],
    // Its own are there, and drained ones are the last choice.
    [{ b: "Soft" }, { a: "ready", b: "ready", c: "none" }, "a"],
    [{ b: "Soft" }, { a: "leaving", b: "ready", c: "none" }, "abc"],
    [{ b: "Soft" }, { a: "none", b: "ready", c: "none" }, "abc"],
    [{ b: "Soft", c: "Soft" }, { a: "ready", b: "ready", c: "ready" }, "a"],
    [{ b: "Hard" }, { a: "ready", b: "ready", c: "none" }, "ac"],
    [{ a: "Soft" }, { a: "ready", b: "ready", c: "ready" }, "bc"],
    [{ a: "Soft" }, { a: "ready", b: "none", c: "none" }, "abc"],
    [{ a: "Soft", b: "Soft" }, { a: "ready", b: "ready", c: "ready" }, "c"],
  ])("with drains %j, and endpoints %j, are %s", (drains, states, expected) => {
    const slices = Object.entries(states).map(([cluster, state]) => offered(cluster, state));
    expect(used(rules({ drained: new Map(Object.entries(drains)) }), slices)).toBe(expected);
  });

  it("are others for each port and family, and do not count endpoints in maintenance or without an answer", () => {
    const local = rules({ affinity: "local" });
    const slices = [
      offered("a", "ready", { ports: [{ name: "http", port: 1 }] }),
      offered("a", "none", { ports: [{ name: "admin", port: 2 }] }),
      offered("b", "ready", {
        ports: [
          { name: "http", port: 1 },
          { name: "admin", port: 2 },
        ],
      }),
    ];
    expect(used(local, slices)).toBe("a");
    expect(used(local, slices, "admin")).toBe("abc");
    expect(used(local, [offered("a", "ready", { weight: 0 }), offered("b", "ready")])).toBe("abc");
    const silent = { ...offered("b", "ready"), isAlive: () => false };
    expect(used(rules({ affinity: "remote" }), [offered("a", "ready"), silent])).toBe("abc");
  });
});
