import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { podsPeer } from "#policy/peers.ts";
import { selectorOf } from "#policy/selector.ts";
import type { Changes, Group, GroupRule, SetChange } from "#policy/state.ts";
import { peerSet, IPV4, IPV6 } from "./names.ts";
import { PolicyDraft } from "./policy-draft.ts";

const PEERS = Array.from({ length: 7 }, (_, at) =>
  podsPeer(selectorOf([{ attribute: "pod:app", operator: "In", values: [`app-${at}`] }])),
);
const ADDRESSES = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1", "fd00::2"].map((it) => parseAddress(it));

/** For each policy, which peers it allows. */
function groupOf(key: string, policies: readonly (readonly number[])[]): Group {
  const rules = policies.map((peers, at): GroupRule => ({
    action: "allow",
    peers: peers.flatMap((it) => PEERS[it] ?? []),
    ports: "any",
    origin: "spec.ingress[0]",
    policy: { kind: "NetworkPolicy", namespace: "shop", name: `policy-${at}` },
  }));
  return { key, way: "ingress", tiers: [{ tier: "network-policy", isDefaultDeny: true, rules }] };
}

const NOTHING: Changes = { sets: [], groups: [], groupsGone: [], addresses: [], host: undefined };

/** By peer, which of the addresses it has. */
type Members = readonly ReadonlySet<number>[];

function made(members: Members): readonly SetChange[] {
  return PEERS.map(({ key }, at) => ({
    key,
    state: "new" as const,
    added: ADDRESSES.filter((_, index) => members[at]?.has(index) === true),
    removed: [],
  }));
}

const whole = (members: Members, groups: readonly Group[]): PolicyDraft => {
  const draft = new PolicyDraft();
  draft.apply({ ...NOTHING, sets: made(members), groups });
  return draft;
};

/** Rules that look into sets. */
function lookups(draft: PolicyDraft, chain: string): number {
  const rules = draft.table.whole.chains.get(chain)?.rules ?? [];
  return rules.filter((it) => it.text?.includes("@") === true).length;
}

describe("a pod that many policies select", () => {
  it("costs a packet one lookup for each family and port, and not one for each policy", () => {
    const none: Members = [];
    const of = (count: number): number => {
      const policies = Array.from({ length: count }, (_, at) => [at]);
      return lookups(whole(none, [groupOf("g", policies)]), "ingress-g");
    };
    expect([1, 3].map(of)).toEqual([2, 6]);
    expect([4, 5, 7].map(of)).toEqual([2, 2, 2]);
  });

  it("is reached from the addresses of all their peers, also while these change, and nothing is left when it is gone", () => {
    const member = fc.uniqueArray(fc.nat(ADDRESSES.length - 1));
    const policies = fc.array(fc.uniqueArray(fc.nat(PEERS.length - 1)), { maxLength: 4 });
    const step = fc.record({ peer: fc.nat(PEERS.length - 1), member, g: policies, h: policies });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 8 }), (steps) => {
        const members = PEERS.map(() => new Set<number>());
        const draft = whole(members, []);
        for (const { peer, member: next, g, h } of steps) {
          const before = members[peer] ?? new Set();
          const after = new Set(next);
          const has = (set: ReadonlySet<number>) => ADDRESSES.filter((_, at) => set.has(at));
          const change: SetChange = {
            key: PEERS[peer]?.key ?? "",
            state: "changed",
            added: has(after.difference(before)),
            removed: has(before.difference(after)),
          };
          members[peer] = after;
          const groups = [groupOf("g", g), groupOf("h", h)];
          draft.apply({ ...NOTHING, sets: [change], groups });
          expect(diffTable(draft.table.whole, whole(members, groups).table.whole)).toEqual([]);
        }
        draft.apply({ ...NOTHING, groupsGone: ["g", "h"] });
        expect(diffTable(draft.table.whole, whole(members, []).table.whole)).toEqual([]);
      }),
    );
  });

  it("costs one element more for a pod whose labels change", () => {
    const draft = whole([], [groupOf("g", [[0, 1], [2], [3]])]);
    draft.table.takeChanges();
    const { key } = PEERS[2] ?? { key: "" };
    const address = parseAddress("10.0.0.9");
    draft.apply({ ...NOTHING, sets: [{ key, state: "changed", added: [address], removed: [] }] });
    const { before, after } = draft.table.takeChanges();
    const changed = [...after.sets].filter(([, it]) => it.elements.size > 0).map(([name]) => name);
    expect(changed).toHaveLength(2);
    expect(changed).toContain(peerSet(key, IPV4));
    expect(changed).not.toContain(peerSet(key, IPV6));
    expect(diffTable(before, after)).toHaveLength(2);
  });
});
