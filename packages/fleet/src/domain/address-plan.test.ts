import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  containsPrefix,
  formatPrefix,
  overlaps,
  parsePrefix,
  type Prefix,
} from "@fairlead/base/netaddr/prefix.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import {
  type AddressPlan,
  BLOCK_LENGTHS,
  blockCount,
  divide,
  findOverlap,
  type Owner,
  planOf,
} from "./address-plan.ts";

function profileWith(addresses?: { ipv4?: string; ipv6?: string }): ClusterMeshProfile {
  return {
    metadata: { name: "p", uid: "6ba7b810-9dad-11d1-80b4-00c04fd430c8" },
    spec: {
      memberSelector: {},
      network: { mode: "parallel", ...(addresses === undefined ? {} : { addresses }) },
    },
  };
}

function validPlan(addresses?: { ipv4?: string; ipv6?: string }): AddressPlan {
  const plan = planOf(profileWith(addresses));
  if (typeof plan === "string") throw new Error(plan);
  return plan;
}

describe("the prefixes of a network", () => {
  it("have their last parts for virtual IPs", () => {
    const plan = validPlan({ ipv4: "10.112.0.0/12", ipv6: "fd12:3456:789a::/48" });
    expect([plan.vipIPv4, plan.vipIPv6].map(formatPrefix)).toEqual([
      "10.127.0.0/16",
      "fd12:3456:789a:ff00::/56",
    ]);
  });

  it.each(["10.0.0.0/8", "10.112.0.0/12", "10.112.0.0/16", "10.112.0.0/17", "10.112.0.0/20"])(
    "%s has as many blocks as can be given to members",
    (ipv4) => {
      const plan = validPlan({ ipv4 });
      const owners = [{ name: "first", has: [], wants: 0 }];
      const rest = Array.from({ length: blockCount(plan.ipv4) + 1 }, (_, at) => ({
        name: `m${at}`,
        has: [],
        wants: 1,
      }));
      const all = { parents: [plan.ipv4], length: BLOCK_LENGTHS.IPv4.member, except: [plan.vipIPv4] };
      expect(divide({ ...all, owners: [...owners, ...rest] }).lacking).toHaveLength(1);
      expect(blockCount(plan.ipv6)).toBe(255);
    },
  );

  it("are 10.112.0.0/12 and a unique local prefix of the profile's own if it names none", () => {
    const { ipv4, ipv6 } = validPlan();
    expect(formatPrefix(ipv4)).toBe("10.112.0.0/12");
    expect(containsPrefix(parsePrefix("fd00::/8"), ipv6)).toBe(true);
    expect(planOf({ ...profileWith(), metadata: { name: "p", uid: "other" } })).not.toMatchObject({ ipv6 });
  });

  it.each([
    [{ ipv4: "10.0.0.0/7" }, "ipv4"],
    [{ ipv4: "10.112.0.0/21" }, "ipv4"],
    [{ ipv4: "10.112.0.1/12" }, "ipv4"],
    [{ ipv4: "fd00::/16" }, "ipv4"],
    [{ ipv4: "224.0.0.0/8" }, "special"],
    [{ ipv6: "fd00::/56" }, "ipv6"],
    [{ ipv6: "fc00::/48" }, "ipv6"],
    [{ ipv6: "2001:db8::/48" }, "ipv6"],
    [{ ipv6: "10.0.0.0/12" }, "ipv6"],
  ])("cannot be %o, which a message names", (addresses, what) => {
    const problem = planOf(profileWith(addresses));
    expect(problem).toContain(Object.values(addresses)[0]);
    expect(problem).toContain(what === "special" ? "overlaps 224.0.0.0/4" : `addresses.${what}`);
  });

  it("are compared with the ranges of clusters", () => {
    const plan = validPlan();
    const ranges = (...texts: string[]): Prefix[] => texts.map((it) => parsePrefix(it));
    expect(findOverlap(plan, ranges("10.96.0.0/12", "10.244.0.0/16", "fd00::/64"))).toBeUndefined();
    expect(findOverlap(plan, ranges("10.244.0.0/16", "10.0.0.0/8"))).toEqual(parsePrefix("10.0.0.0/8"));
    expect(findOverlap(plan, ranges("10.126.1.0/24"))).toEqual(parsePrefix("10.126.1.0/24"));
    expect(findOverlap(plan, [plan.vipIPv6])).toEqual(plan.vipIPv6);
  });
});

/** Sizes that are used up soon: 16 blocks, of which the last is for virtual IPs. */
const PARENT = parsePrefix("10.112.0.0/20");
const EXCEPT = parsePrefix("10.112.15.0/24");
const LENGTH = 24;

const anyBlock = fc.oneof(
  fc.integer({ min: 0, max: 20 }).map((it) => `10.112.${it}.0/24`),
  fc.constantFrom("10.112.0.0/23", "10.112.1.7/24", "10.112.1.0/25", "fd00::/24", "x", "", "10.112.0.0/0"),
);
const anyOwners = fc
  .uniqueArray(
    fc.record({
      name: fc.constantFrom("a", "b", "c", "d", "e", "f"),
      has: fc.array(anyBlock, { maxLength: 4 }),
      wants: fc.oneof(fc.integer({ min: 0, max: 6 }), fc.constant(1_000_000_000)),
    }),
    { selector: (it) => it.name },
  )
  .map((it): readonly Owner[] => it);

const divided = (owners: readonly Owner[]) =>
  divide({ parents: [PARENT], length: LENGTH, except: [EXCEPT], owners });

describe("blocks", () => {
  it("are parts of their parent, belong to one owner, and are not in what is kept free", () => {
    fc.assert(
      fc.property(anyOwners, (owners) => {
        const all = [...divided(owners).blocks.values()].flat().map((it) => parsePrefix(it));
        for (const it of all) {
          expect(it.length).toBe(LENGTH);
          expect(containsPrefix(PARENT, it)).toBe(true);
          expect(overlaps(EXCEPT, it)).toBe(false);
        }
        for (const [at, it] of all.entries())
          expect(all.slice(0, at).some((other) => overlaps(it, other))).toBe(false);
      }),
    );
  });

  it("stay with their owner when other owners come and go", () => {
    fc.assert(
      fc.property(anyOwners, anyOwners, (owners, later) => {
        const initial = divided(owners).blocks;
        const known = owners.map((it) => ({ ...it, has: initial.get(it.name) ?? [] }));
        expect(divided(known).blocks).toEqual(initial);
        const newer = later.filter(({ name }) => !initial.has(name)).map((it) => ({ ...it, has: [] }));
        const after = divided([...newer, ...known]).blocks;
        for (const [name, blocks] of initial)
          expect(after.get(name)?.slice(0, blocks.length)).toEqual(blocks);
      }),
    );
  });

  it("are given while one is free: an owner is without a block only when all are taken", () => {
    fc.assert(
      fc.property(anyOwners, (owners) => {
        const { blocks, lacking } = divided(owners);
        const taken = [...blocks.values()].flat().length;
        for (const { name, wants } of owners) {
          const count = blocks.get(name)?.length ?? 0;
          expect(lacking.includes(name)).toBe(count < wants);
          if (wants > 0 && count === 0) expect(taken).toBe(15);
        }
      }),
    );
  });

  it("are left for those who have none, however many one owner wants", () => {
    const { blocks, lacking } = divided([
      { name: "greedy", has: [], wants: 1_000_000_000 },
      { name: "b", has: [], wants: 1 },
    ]);
    expect(blocks.get("greedy")).toHaveLength(11);
    expect(blocks.get("b")).toEqual(["10.112.1.0/24"]);
    expect(lacking).toEqual(["greedy"]);
    const known = [...blocks].map(([name, has]) => ({ name, has, wants: 1 }));
    const newer = ["c", "d", "e", "f"].map((name) => ({ name, has: [], wants: 1 }));
    expect(divided([...known, ...newer]).lacking).toEqual(["f"]);
  });

  it("of 255 members fit the default prefixes, each with the blocks of its nodes", () => {
    const plan = validPlan();
    const owners = Array.from({ length: 255 }, (_, at) => ({ name: `m${at}`, has: [], wants: 1 }));
    const v4 = divide({ parents: [plan.ipv4], length: 21, except: [plan.vipIPv4], owners });
    const v6 = divide({ parents: [plan.ipv6], length: 56, except: [plan.vipIPv6], owners });
    expect([v4.lacking, v6.lacking]).toEqual([[], []]);
    const nodes = Array.from({ length: 9 }, (_, at) => ({ name: `n${at}`, has: [], wants: 1 }));
    const ofMember = (v4.blocks.get("m7") ?? []).map((it) => parsePrefix(it));
    const ofNodes = divide({ parents: ofMember, length: BLOCK_LENGTHS.IPv4.node, owners: nodes });
    expect(ofNodes.lacking).toEqual(["n8"]);
    expect(
      [...ofNodes.blocks.values()].flat().every((it) => containsPrefix(ofMember[0]!, parsePrefix(it))),
    ).toBe(true);
  });
});
