import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { Enforced } from "#policy/enforced.ts";
import type { Rule } from "#policy/model.ts";
import { fqdnPeer, podsPeer } from "#policy/peers.ts";
import { selectorOf } from "#policy/selector.ts";
import { describe, expect, it } from "vitest";
import { isDenied } from "./flows.ts";

const POD = parseAddress("10.244.1.7");
const OTHER = parseAddress("10.244.1.8");
const NODE = parseAddress("192.0.2.1");
const SERVER = parseAddress("10.244.2.9");

function enforcedWith(rules: readonly Rule[], more: readonly string[] = []): Enforced {
  const enforced = new Enforced();
  const policy = { kind: "CiliumNetworkPolicy", namespace: "x", name: "names" };
  enforced.apply({
    sets: ["fqdn:*.example.com", "known:all", ...more].map((key) => ({
      key,
      state: "new",
      added: [],
      removed: [],
    })),
    groups: [
      {
        key: "e1",
        way: "egress",
        tiers: [
          {
            tier: "network-policy",
            isDefaultDeny: true,
            rules: rules.map((it) => ({ ...it, policy })),
          },
        ],
      },
    ],
    groupsGone: [],
    addresses: [
      { address: POD, groups: { egress: "e1" } },
      { address: OTHER, groups: {} },
    ],
    host: undefined,
  });
  return enforced;
}

const ALL: Rule = { action: "allow", peers: "any", ports: "any", origin: "spec.egress[0]" };

function isCut(enforced: Enforced, source: typeof POD, answerer: typeof POD, port: number): boolean {
  const flow = { protocol: 17, source, answerer, port, icmpType: undefined };
  return isDenied(flow, { enforced, cluster: "a", isUnidentified: () => false, isOwn: (it) => it === NODE });
}

describe("flows of pods whose policies are about names", () => {
  const names = enforcedWith([ALL, { ...ALL, dns: ["*.example.com"], origin: "spec.egress[1]" }]);
  const addresses = enforcedWith([{ ...ALL, peers: [fqdnPeer("*.example.com")] }]);

  it("last where they lead to the DNS proxy", () => {
    expect(isCut(names, POD, NODE, 9253)).toBe(false);
    expect(isCut(addresses, POD, NODE, 9253)).toBe(false);
    expect(isCut(addresses, POD, NODE, 9254)).toBe(true);
    expect(isCut(addresses, POD, SERVER, 9253)).toBe(true);
  });

  it("are ended where they lead past the proxy to a DNS server", () => {
    expect(isCut(names, POD, SERVER, 53)).toBe(true);
    expect(isCut(names, POD, SERVER, 80)).toBe(false);
    expect(isCut(names, OTHER, SERVER, 53)).toBe(false);
    expect(isCut(enforcedWith([ALL]), POD, SERVER, 53)).toBe(false);
  });
});

it("flows with a pod of another cluster that is not identified last only if they may be allowed when it is", () => {
  const selector = (of: string) => selectorOf([{ attribute: "cluster", operator: "In", values: [of] }]);
  const of = (cluster: string): Rule => ({ ...ALL, peers: [podsPeer(selector(cluster))] });
  const kept = (...rules: readonly Rule[]): boolean => {
    const flow = { protocol: 17, source: POD, answerer: SERVER, port: 80, icmpType: undefined };
    const sets = rules.flatMap((it) => (it.peers === "any" ? [] : it.peers.map((one) => one.key)));
    const enforced = enforcedWith(rules, [...new Set(sets)]);
    return !isDenied(flow, {
      enforced,
      cluster: "a",
      isUnidentified: (it) => it === SERVER,
      isOwn: () => false,
    });
  };
  const denied = (rule: Rule): Rule => ({ ...rule, action: "deny" });
  expect([kept(), kept(of("a")), kept(of("b"))]).toEqual([false, false, true]);
  expect([kept(denied(of("b")), ALL), kept(denied(ALL), of("b"))]).toEqual([true, false]);
});

it("a rule about names allows a query for one of them only", () => {
  const enforced = enforcedWith([{ ...ALL, dns: ["*.example.com"] }]);
  const asks = (dnsName?: string): boolean =>
    enforced.verdict(
      {
        source: POD,
        destination: SERVER,
        traffic: { kind: "transport", protocol: "UDP", port: 53 },
        ...(dnsName === undefined ? {} : { dnsName }),
      },
      "egress",
    ).isAllowed;
  expect([asks("a.example.com"), asks("example.com"), asks("a.example.org"), asks()]).toEqual([
    true,
    false,
    false,
    false,
  ]);
});
