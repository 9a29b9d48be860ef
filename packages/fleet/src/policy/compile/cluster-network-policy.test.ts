import type { ClusterNetworkPolicy } from "#api/policy.networking.k8s.io/v1alpha2/types.ts";
import { describe, expect, it } from "vitest";
import type { Compilation, Rule } from "../model.ts";
import { compileClusterPolicy } from "./cluster-network-policy.ts";

const settings = { cluster: "a", isLocalByDefault: true };
const SPEC = { tier: "Admin", priority: 7, subject: { namespaces: {} } };

function compiled(spec: object): Compilation {
  return compileClusterPolicy({ metadata: { name: "p" }, spec } as ClusterNetworkPolicy, settings);
}

const rule = (action: string, fields: object): object => ({
  ...SPEC,
  egress: [{ action, to: [{ namespaces: {} }], ...fields }],
});

describe("a ClusterNetworkPolicy", () => {
  it("has a tier, a priority, and rules in order", () => {
    const egress = ["Pass", "Deny", "Accept"].map((action) => ({
      action,
      to: [{ networks: ["10.0.0.0/8"] }],
    }));
    const { policies, refusals } = compiled({ ...SPEC, egress });
    expect(refusals).toEqual([]);
    expect(policies).toMatchObject([{ tier: "admin", priority: 7, egress: { isDefaultDeny: false } }]);
    expect(policies[0]?.egress?.rules.map((it) => it.action)).toEqual(["pass", "deny", "allow"]);
    expect(policies[0]?.egress?.rules[0]?.peers).toMatchObject([{ matchesPods: true, matchesNodes: true }]);
  });

  it("takes names with a leading star for all depths", () => {
    const to = [{ domainNames: ["*.example.com", "example.org"] }];
    expect(compiled(rule("Accept", { to })).policies[0]?.egress?.rules[0]?.peers).toMatchObject([
      { key: "fqdn:**.example.com" },
      { key: "fqdn:example.org" },
    ]);
  });

  it.each([
    ["a peer of an unknown kind", { to: [{ moons: ["x"] }] }, "spec.egress[0].to[0].moons"],
    ["two kinds in a peer", { to: [{ namespaces: {}, nodes: {} }] }, "spec.egress[0].to[0]"],
    ["no peers", { to: [] }, "spec.egress[0].to"],
    [
      "a network that cannot be read",
      { to: [{ networks: ["10.0.0.0"] }] },
      "spec.egress[0].to[0].networks[0]",
    ],
    [
      "pods without a selector of pods",
      { to: [{ pods: { namespaceSelector: {} } }] },
      "spec.egress[0].to[0].pods.podSelector",
    ],
    [
      "port 0",
      { protocols: [{ tcp: { destinationPort: { number: 0 } } }] },
      "spec.egress[0].protocols[0].tcp.destinationPort.number",
    ],
    [
      "port 65536",
      { protocols: [{ tcp: { destinationPort: { number: 65_536 } } }] },
      "spec.egress[0].protocols[0].tcp.destinationPort.number",
    ],
    [
      "a range from its end",
      { protocols: [{ udp: { destinationPort: { range: { start: 2, end: 1 } } } }] },
      "spec.egress[0].protocols[0].udp.destinationPort.range",
    ],
    ["an unknown protocol", { protocols: [{ icmp: {} }] }, "spec.egress[0].protocols[0].icmp"],
    ["an empty protocol", { protocols: [{}] }, "spec.egress[0].protocols[0]"],
    ["an unknown field", { log: true }, "spec.egress[0].log"],
  ])("accepts nothing, and denies everything, for %s", (_name, fields, field) => {
    const of = (action: string): Compilation => compiled(rule(action, fields));
    const first = ({ policies }: Compilation): Rule | undefined => policies[0]?.egress?.rules[0];
    expect(of("Accept").refusals).toMatchObject([{ field, effect: "matches nothing" }]);
    const { peers = [], ports = [] } = first(of("Accept")) ?? {};
    expect(Math.min(peers.length, ports.length)).toBe(0);
    for (const action of ["Deny", "Pass"]) {
      expect(of(action).refusals).toMatchObject([{ field, effect: "denies more" }]);
      expect(first(of(action))?.action).toBe("deny");
      expect([first(of(action))?.peers, first(of(action))?.ports]).toContain("any");
    }
  });

  it("denies everything for an unknown action, and names that are to be denied", () => {
    expect(compiled(rule("Allow", {})).policies[0]?.egress?.rules).toMatchObject([
      { action: "deny", peers: "any" },
    ]);
    const to = [{ domainNames: ["example.com"] }];
    expect(compiled(rule("Deny", { to })).policies[0]?.egress?.rules).toMatchObject([
      { action: "deny", peers: "any" },
    ]);
  });

  it.each([
    ["an unknown tier", { ...SPEC, tier: "User" }, "spec.tier"],
    ["a priority above 1000", { ...SPEC, priority: 1001 }, "spec.priority"],
    ["no subject", { ...SPEC, subject: undefined }, "spec.subject"],
    ["two subjects", { ...SPEC, subject: { namespaces: {}, pods: {} } }, "spec.subject"],
  ])("is not enforced with %s", (_name, spec, field) => {
    expect(compiled(spec)).toMatchObject({
      policies: [],
      refusals: [{ field, effect: "policy not enforced" }],
    });
  });
});
