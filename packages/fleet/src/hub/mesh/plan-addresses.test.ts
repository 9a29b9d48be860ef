import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { overlaps, parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { POD_RANGES } from "#api/fairlead.dev/names.ts";
import {
  type AddressBlock,
  type ClusterMeshProfile,
  RELEASED_AT_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { type AddressesView, planAddresses, RECLAIM_MS } from "./plan-addresses.ts";
import { planProfileStatus } from "./plan-profile.ts";

const EPOCH = { keyEpoch: 1, keyEpochSince: "2026-06-01T00:00:00Z" };
const NOW = Date.parse("2026-06-01T00:00:00Z");

const NONE = { leaving: [], elsewhere: [], beyond: [], absent: [] };

function profileOf(ipv4 = "10.112.0.0/16", status?: ClusterMeshProfile["status"]): ClusterMeshProfile {
  return {
    metadata: { name: "p", uid: "u" },
    spec: {
      memberSelector: {},
      network: { mode: "parallel", addresses: { ipv4, ipv6: "fd12:3456:789a::/48" } },
    },
    ...(status === undefined ? {} : { status }),
  };
}
function member(name: string, pods?: string): MemberCluster {
  const annotations = pods === undefined ? {} : { annotations: { [POD_RANGES]: pods } };
  return { metadata: { name, ...annotations }, spec: { identity: { kind: "User", name } } };
}
const members = (...names: string[]) => names.map((it) => member(it));

function planned(view: Partial<AddressesView>) {
  return planAddresses({
    profile: profileOf(),
    members: [],
    network: undefined,
    blocks: [],
    nodesOf: () => 1,
    progressOf: () => undefined,
    unconnected: [],
    nowMs: NOW,
    ...view,
  });
}
/** As they are stored. */
function stored(plan: ReturnType<typeof planAddresses>): AddressBlock[] {
  return [
    ...plan.blocks.map((spec) => ({ metadata: { name: spec.cluster }, spec })),
    ...plan.released.map(({ spec, at }) => ({
      metadata: { name: spec.cluster, annotations: { [RELEASED_AT_ANNOTATION]: at } },
      spec,
    })),
  ];
}
const ipv4Of = (plan: ReturnType<typeof planAddresses>) =>
  Object.fromEntries(plan.blocks.map((it) => [it.cluster, it.ipv4.join()]));

describe("the addresses of members", () => {
  it("stay with them, and with those that left for a day, and never overlap", () => {
    const step = fc.record({
      present: fc.subarray(["a", "b", "c", "d", "e"]),
      hours: fc.integer({ min: 0, max: 30 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        let blocks: AddressBlock[] = [];
        let nowMs = NOW;
        const last = new Map<string, { readonly ipv4: string; readonly atMs: number }>();
        for (const { present, hours } of steps) {
          nowMs += hours * 3_600_000;
          const plan = planned({ members: members(...present), blocks, nowMs });
          blocks = stored(plan);
          const all = blocks.flatMap((it) => [...it.spec.ipv4, ...it.spec.ipv6]).map((it) => parsePrefix(it));
          for (const [at, it] of all.entries())
            expect(all.slice(0, at).some((other) => overlaps(it, other))).toBe(false);
          expect(Object.keys(ipv4Of(plan)).toSorted()).toEqual(present.toSorted());
          for (const [name, ipv4] of Object.entries(ipv4Of(plan))) {
            const others = [...last].filter(([other, held]) => held.ipv4 === ipv4 && other !== name);
            for (const [, { atMs }] of others) expect(nowMs - atMs).toBeGreaterThanOrEqual(RECLAIM_MS);
            last.set(name, { ipv4, atMs: nowMs });
          }
        }
      }),
      { numRuns: 30 },
    );
  });

  it("of one that left are free after a day, when it is looked at again", () => {
    const before = stored(planned({ members: members("a") }));
    const left = planned({ blocks: before });
    expect(left.released).toMatchObject([{ at: "2026-06-01T00:00:00Z" }]);
    expect(left.againInMs).toBe(RECLAIM_MS);
    expect(planned({ blocks: stored(left), nowMs: NOW + RECLAIM_MS }).released).toEqual([]);
    const back = planned({ blocks: stored(left), members: members("b", "a"), nowMs: NOW + 5000 });
    expect(ipv4Of(back)).toEqual({ a: "10.112.0.0/21", b: "10.112.8.0/21" });
    expect(back.released).toEqual([]);
  });

  it("are not given to a member whose own overlap them, and a condition says what to do", () => {
    const all = [member("a"), member("b", "10.244.0.0/16,10.112.4.0/24")];
    const plan = planned({ members: all });
    expect(ipv4Of(plan)).toEqual({ a: "10.112.0.0/21" });
    const { conditions } = planProfileStatus(
      { profile: profileOf(), members: all, ...NONE, problem: undefined },
      { ...plan, unconnected: [] },
      EPOCH,
    );
    expect(conditions).toEqual([
      {
        type: "Ready",
        status: "False",
        reason: "AddressesOverlap",
        message:
          "10.112.4.0/24 of the pod addresses of member b overlaps 10.112.0.0/16: it gets no fleet addresses; use a profile with another spec.network.addresses.ipv4",
      },
    ]);
  });

  it("wait for the agent, which knows the ranges that its cluster uses", () => {
    const all = members("a", "b");
    const plan = planned({ members: all, nodesOf: (it) => (it === "a" ? 3 : undefined) });
    expect(Object.keys(ipv4Of(plan))).toEqual(["a"]);
    const { conditions } = planProfileStatus(
      { profile: profileOf(), members: all, ...NONE, problem: undefined },
      { ...plan, unconnected: [] },
      EPOCH,
    );
    expect(conditions[0]).toMatchObject({ reason: "WaitingForMembers" });
    expect(conditions[0]?.message).toContain("of b to report");
  });

  it("are further blocks for a member with more nodes, in the family that needs them", () => {
    const plan = planned({ members: members("a", "b"), nodesOf: (it) => (it === "a" ? 9 : 8) });
    expect(plan.blocks.map((it) => [it.ipv4.length, it.ipv6.length])).toEqual([
      [2, 1],
      [1, 1],
    ]);
  });

  it("that are used up are a condition that names who has none", () => {
    const all = members("a", "b", "c");
    const plan = planned({ members: all, profile: profileOf("10.112.0.0/19") });
    expect(ipv4Of(plan)).toEqual({ a: "10.112.0.0/21", b: "10.112.8.0/21", c: "10.112.16.0/21" });
    const more = planned({ members: [...all, member("d")], profile: profileOf("10.112.0.0/19") });
    expect(more.faults).toMatchObject([{ reason: "AddressesExhausted" }]);
    expect(more.faults[0]?.message).toContain("10.112.0.0/19 has no free block of 21 bits for d");
    expect(ipv4Of(more)).toEqual(ipv4Of(plan));
  });

  it("keep their prefixes, whatever the profile says later, until no member uses them", () => {
    const plan = planned({ members: members("a") });
    const status = { addresses: { ipv4: "10.112.0.0/16", ipv6: "fd12:3456:789a::/48" } };
    const changed = profileOf("10.64.0.0/16", status);
    const later = planned({ profile: changed, members: members("a"), blocks: stored(plan) });
    expect(ipv4Of(later)).toEqual(ipv4Of(plan));
    const { conditions } = planProfileStatus(
      { profile: changed, members: members("a"), ...NONE, problem: undefined },
      { ...later, unconnected: [] },
      EPOCH,
    );
    expect(conditions[0]?.message).toContain("stay in use while members have blocks of them");
    const network = { ...status.addresses, mode: "parallel" as const, vipIPv4: "", vipIPv6: "", keyEpoch: 1 };
    const lost = { profile: profileOf("10.64.0.0/16"), network, members: members("a"), blocks: stored(plan) };
    expect(ipv4Of(planned(lost))).toEqual(ipv4Of(plan));
    const free = planned({ profile: changed, members: members("b") });
    expect(ipv4Of(free)).toEqual({ b: "10.64.0.0/21" });
  });

  it("do not exist in a flat network, nor where the prefixes cannot be used", () => {
    const flat = profileOf();
    flat.spec.network.mode = "flat";
    expect(planned({ profile: flat, members: members("a") })).toMatchObject({ blocks: [], faults: [] });
    const wrong = planned({ profile: profileOf("10.0.0.0/30"), members: members("a") });
    expect(wrong).toMatchObject({ blocks: [], faults: [{ reason: "InvalidAddresses" }] });
  });
});
