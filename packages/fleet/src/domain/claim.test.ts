import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Claimant, parseClaims, planClaims, renderClaims } from "./claim.ts";

const claimant = (cluster: string, since: number, isShared = false): Claimant => ({
  mailbox: `fleet-member-${cluster}`,
  cluster,
  since: `2026-01-0${since}T00:00:00Z`,
  isShared,
});
const a = claimant("a", 2);
const b = claimant("b", 1);
const names = (claims: readonly { readonly cluster: string }[]): string[] => claims.map((it) => it.cluster);

describe("the claim of a fleet import", () => {
  it("is kept by its holder, then passes to the member that has asked longest", () => {
    expect(names(planClaims([a], [b, a]))).toEqual(["a"]);
    expect(names(planClaims([], [a, b]))).toEqual(["b"]);
    expect(names(planClaims([claimant("gone", 1)], [a, b]))).toEqual(["b"]);
    expect(planClaims([a], [])).toEqual([]);
  });

  it("C1: is one member's by default, and several members' where all of them share it", () => {
    const [c, d] = [claimant("c", 3, true), claimant("d", 4, true)];
    expect(names(planClaims([], [c, d]))).toEqual(["c", "d"]);
    expect(names(planClaims([c], [b, c, d]))).toEqual(["c", "d"]);
    expect(names(planClaims([b], [b, c, d]))).toEqual(["b"]);
    expect(names(planClaims([b], [c, d]))).toEqual(["c", "d"]);
  });

  it("falls to the one who asked first when those who share no longer do", () => {
    const [c, d] = [claimant("c", 3), claimant("d", 4)];
    expect(names(planClaims([c, d], [d, c]))).toEqual(["c"]);
  });

  it("is written as other agents write it, and text that cannot be read claims nothing", () => {
    expect(renderClaims([a])).toBe('{"MemberClusters":{"fleet-member-a":"a"}}');
    expect(renderClaims([b, a])).toBe('{"MemberClusters":{"fleet-member-a":"a","fleet-member-b":"b"}}');
    expect(renderClaims([])).toBeUndefined();
    expect(parseClaims(renderClaims([a]))).toEqual([{ mailbox: "fleet-member-a", cluster: "a" }]);
    for (const bad of [
      undefined,
      "",
      "null",
      "[]",
      '{"MemberClusters":{}}',
      '{"MemberClusters":{"work":"a"}}',
    ])
      expect(parseClaims(bad)).toEqual([]);
  });

  const anyClaimants = fc.uniqueArray(
    fc.tuple(fc.constantFrom("a", "b", "c", "d"), fc.integer({ min: 1, max: 3 }), fc.boolean()),
    { selector: ([name]) => name, maxLength: 4 },
  );

  it("converges, has a holder if any member asks, and several only if all of them share", () => {
    fc.assert(
      fc.property(anyClaimants, anyClaimants, (before, after) => {
        const asking = after.map((it) => claimant(...it));
        const first = planClaims(
          before.map((it) => claimant(...it)),
          asking,
        );
        expect(planClaims(first, asking.toReversed())).toEqual(first);
        expect(first.length > 0).toBe(asking.length > 0);
        const sharing = new Set(asking.filter((it) => it.isShared).map((it) => it.cluster));
        expect(first.length < 2 || names(first).every((it) => sharing.has(it))).toBe(true);
      }),
    );
  });
});
