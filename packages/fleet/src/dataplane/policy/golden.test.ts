import { expect, it } from "vitest";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { renderScript } from "@fairlead/os/nft/render.ts";
import type { Peer, PortMatch } from "#policy/model.ts";
import { cidrPeer, entityPeer, fqdnPeer, KNOWN, matchOf, podsPeer } from "#policy/peers.ts";
import { selectorOf } from "#policy/selector.ts";
import type { Group, GroupRule, SetElement } from "#policy/state.ts";
import { bootTable, renderBootTable } from "./boot-table.ts";
import { POLICY_TABLE } from "./names.ts";
import { PolicyDraft } from "./policy-draft.ts";

const PODS = podsPeer(selectorOf([{ attribute: "pod:app", operator: "In", values: ["web"] }]));
const OTHERS = podsPeer(selectorOf([{ attribute: "cluster", operator: "In", values: ["far"] }]));
const NET = cidrPeer([parsePrefix("192.0.2.0/24"), parsePrefix("2001:db8::/32")], {
  matchesPods: false,
  matchesNodes: false,
});
const FQDN = fqdnPeer("*.example.com");
const HOST = entityPeer("host");

const tcp = (first: number, last = first): PortMatch => ({ kind: "range", protocol: "TCP", first, last });

function ruleOf(
  action: GroupRule["action"],
  peers: "any" | readonly Peer[],
  ports: "any" | readonly PortMatch[] = "any",
): GroupRule {
  return {
    action,
    peers,
    ports,
    origin: "spec.ingress[0]",
    policy: { kind: "NetworkPolicy", namespace: "shop", name: "web" },
  };
}

const INGRESS: Group = {
  key: "i1",
  way: "ingress",
  tiers: [
    {
      tier: "admin",
      isDefaultDeny: false,
      rules: [
        ruleOf(
          "pass",
          [PODS],
          [tcp(80), tcp(81, 90), { kind: "range", protocol: "UDP", first: 0, last: 65_535 }],
        ),
        ruleOf("deny", [OTHERS]),
        ruleOf("allow", [], [tcp(1)]),
      ],
    },
    {
      tier: "network-policy",
      isDefaultDeny: true,
      rules: [
        ruleOf("deny", "any", [
          { kind: "icmp", family: "IPv4", type: 8 },
          { kind: "protocol", number: 112 },
        ]),
        ruleOf("allow", [PODS], [tcp(443), { kind: "named", protocol: "TCP", name: "http" }]),
        ruleOf("allow", [NET, HOST]),
        ruleOf("allow", [OTHERS, PODS]),
      ],
    },
  ],
};

const EGRESS: Group = {
  key: "e1",
  way: "egress",
  tiers: [
    { tier: "network-policy", isDefaultDeny: false, rules: [ruleOf("allow", [FQDN], [tcp(443)])] },
    { tier: "baseline", isDefaultDeny: false, rules: [ruleOf("deny", [entityPeer("world")])] },
  ],
};

function added(key: string | undefined, ...elements: readonly SetElement[]) {
  return { key: key ?? "", state: "new" as const, added: elements, removed: [] };
}

function example(): PolicyDraft {
  const draft = new PolicyDraft();
  draft.setProxies([parseAddress("192.0.2.1")]);
  draft.guard(true);
  draft.setNodePrefixes(["10.244.1.0/24", "fd00:244:0:1::/64"]);
  draft.setLogged(["10.244.1.7", "fd00:244:0:1::7"]);
  draft.apply({
    sets: [
      added(matchOf(PODS).set, parseAddress("10.244.1.7"), parseAddress("fd00:244:0:1::7")),
      added(matchOf(OTHERS).set, parseAddress("10.245.0.9")),
      added(matchOf(NET).set, parsePrefix("192.0.2.0/24"), parsePrefix("2001:db8::/32")),
      added(matchOf(FQDN).set),
      added(matchOf(HOST).set, parseAddress("192.0.2.1")),
      added(KNOWN, parseAddress("10.244.1.7"), parseAddress("192.0.2.1")),
      added("port:TCP:http", { address: parseAddress("10.244.1.7"), port: 8080 }),
    ],
    groups: [INGRESS, EGRESS],
    groupsGone: [],
    addresses: [
      { address: parseAddress("10.244.1.7"), groups: { ingress: "i1", egress: "e1" } },
      { address: parseAddress("fd00:244:0:1::7"), groups: { ingress: "i1" } },
      { address: parseAddress("10.244.1.8"), groups: {} },
    ],
    host: { ingress: "i1", egress: "e1" },
  });
  return draft;
}

it("is the table that the golden file shows", async () => {
  const { table } = example();
  await expect(renderScript(POLICY_TABLE, diffTable(undefined, table.whole))).toMatchFileSnapshot(
    "goldens/table.nft",
  );
});

it("leaves no local pod known to the next boot, and the policies of the node in place", async () => {
  const { table } = example();
  const saved = bootTable(table.whole);
  await expect(renderBootTable(table.whole)).toMatchFileSnapshot("goldens/boot.nft");
  for (const it of ["known-4", "known-6", "ingress-4", "egress-4", "isolated-4", "self-4", "dns-4"])
    expect([it, saved.sets.get(it)?.elements.size]).toEqual([it, 0]);
});

it("closes the addresses that pods had outside of the prefixes of their node, too, after a boot", () => {
  const draft = example();
  draft.setNodePrefixes(["10.244.1.0/29", "fd00:244:0:1::/64"]);
  const node = (family: 4 | 6): unknown => [
    ...(bootTable(draft.table.whole).sets.get(`node-${family}`)?.elements.keys() ?? []),
  ];
  expect(node(4)).toEqual(["10.244.1.0/29", "10.244.1.8"]);
  expect(node(6)).toEqual(["fd00:244:0:1::/64"]);
});

it("costs what has changed", async () => {
  const draft = example();
  draft.table.takeChanges();
  const web = matchOf(PODS).set ?? "";
  draft.apply({
    sets: [
      {
        key: web,
        state: "changed",
        added: [parseAddress("10.244.2.8")],
        removed: [parseAddress("fd00:244:0:1::7")],
      },
    ],
    groups: [],
    groupsGone: [],
    host: undefined,
    addresses: [{ address: parseAddress("10.244.1.9"), groups: { ingress: "i1" } }],
  });
  const { before, after } = draft.table.takeChanges();
  const ops = diffTable(before, after);
  expect(ops.every((it) => it.verb === "add-elements" || it.verb === "delete-elements")).toBe(true);
  await expect(renderScript(POLICY_TABLE, ops)).toMatchFileSnapshot("goldens/change.nft");
  expect(draft.table.isChanged).toBe(false);
});

it("has nothing left of groups, sets and pods that are gone", () => {
  const draft = example();
  const empty = new PolicyDraft();
  empty.setProxies([parseAddress("192.0.2.1")]);
  draft.guard(false);
  draft.setNodePrefixes([]);
  draft.setLogged([]);
  draft.apply({
    sets: [
      ...new Set([PODS, OTHERS, NET, FQDN, HOST].map((it) => matchOf(it).set ?? "")),
      KNOWN,
      "port:TCP:http",
    ].map((key) => ({ key, state: "gone" as const, added: [], removed: [] })),
    groups: [],
    groupsGone: ["i1", "e1"],
    host: {},
    addresses: ["10.244.1.7", "fd00:244:0:1::7", "10.244.1.8"].map((it) => ({
      address: parseAddress(it),
      groups: undefined,
    })),
  });
  expect(diffTable(draft.table.whole, empty.table.whole)).toEqual([]);
});
