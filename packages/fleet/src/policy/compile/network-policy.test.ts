import { formatPrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { NetworkPolicy } from "@fairlead/kube/api/networking/v1/types.ts";
import { describe, expect, it } from "vitest";
import type { Compilation } from "../model.ts";
import { compileNetworkPolicy } from "./network-policy.ts";

const settings = { cluster: "a", isLocalByDefault: true };

function compiled(spec: object, isLocalByDefault = true): Compilation {
  const policy = { metadata: { name: "p", namespace: "shop" }, spec } as NetworkPolicy;
  return compileNetworkPolicy(policy, { ...settings, isLocalByDefault });
}

/** The rules of ingress as short texts. */
function ingress(spec: object, isLocalByDefault = true): readonly string[] {
  return (compiled(spec, isLocalByDefault).policies[0]?.ingress?.rules ?? []).map(({ peers, ports }) => {
    const of = peers === "any" ? "any" : peers.map((it) => it.key).join(" | ");
    return `${of} on ${ports === "any" ? "any" : JSON.stringify(ports)}`;
  });
}

const refused = (spec: object): readonly string[] =>
  compiled(spec).refusals.map((it) => `${it.field}: ${it.effect}`);
const from = (...peers: readonly unknown[]): object => ({ podSelector: {}, ingress: [{ from: peers }] });
const ports = (...list: readonly unknown[]): object => ({ podSelector: {}, ingress: [{ ports: list }] });

describe("a NetworkPolicy", () => {
  it("selects pods of its namespace, and peers of its namespace in the own cluster", () => {
    const spec = from({ podSelector: { matchLabels: { app: "web" } } });
    expect(compiled(spec).policies[0]?.subject).toMatchObject({
      of: "pods",
      selector: { key: "namespace=shop" },
    });
    expect(ingress(spec)).toEqual(["pods:cluster=a&namespace=shop&pod:app=web on any"]);
    expect(ingress(spec, false)).toEqual(["pods:namespace=shop&pod:app=web on any"]);
  });

  it("selects peers of the clusters that the label names", () => {
    const one = { podSelector: { matchLabels: { "io.cilium.k8s.policy.cluster": "b" } } };
    expect(ingress(from(one))).toEqual(["pods:cluster=b&namespace=shop on any"]);
    const every = { matchExpressions: [{ key: "io.cilium.k8s.policy.cluster", operator: "Exists" }] };
    expect(ingress(from({ podSelector: every, namespaceSelector: {} }))).toEqual(["pods: on any"]);
  });

  it("has one key for selectors that say the same", () => {
    const expressions = [
      { key: "tier", operator: "In", values: ["2", "1", "2"] },
      { key: "app", operator: "In", values: ["web"] },
    ];
    const other = {
      matchLabels: { app: "web" },
      matchExpressions: [{ key: "tier", operator: "In", values: ["1", "2"] }],
    };
    expect(ingress(from({ podSelector: { matchExpressions: expressions } }))).toEqual(
      ingress(from({ podSelector: other })),
    );
  });

  it("takes exceptions out of a CIDR, with its host bits cleared", () => {
    const spec = from({ ipBlock: { cidr: "10.0.0.9/29", except: ["10.0.0.10/31"] } });
    const rule = compiled(spec).policies[0]?.ingress?.rules[0];
    const peer = rule?.peers === "any" ? undefined : rule?.peers[0];
    expect(peer?.kind === "cidr" && peer.prefixes.map(formatPrefix)).toEqual(["10.0.0.8/31", "10.0.0.12/30"]);
    expect(peer).toMatchObject({ matchesPods: true, matchesNodes: true });
  });

  it("with more than 500 exceptions in all allows nothing for the CIDRs beyond, whatever they cost", () => {
    const block = (at: number) => ({
      ipBlock: {
        cidr: "::/0",
        except: Array.from({ length: 250 }, (_, it) => `${(it * 257 + 1).toString(16)}:${at}::1/128`),
      },
    });
    const spec = from(...Array.from({ length: 200 }, (_, at) => block(at + 1)));
    expect(refused(spec)).toHaveLength(198);
    expect(refused(spec)[0]).toBe("spec.ingress[0].from[2].ipBlock.except[0]: matches nothing");
    const rule = compiled(spec).policies[0]?.ingress?.rules[0];
    const [peer] = rule?.peers === "any" ? [] : (rule?.peers ?? []);
    // Each of the first two has what is an exception of the other one.
    expect(peer?.kind === "cidr" && peer.prefixes.map(formatPrefix)).toEqual(["::/0"]);
  });

  it("with 250 exceptions in a CIDR is compiled, and one with more allows nothing for it", () => {
    const except = Array.from({ length: 250 }, (_, index) => `2001:db8:${index}::1/128`);
    const rule = compiled(from({ ipBlock: { cidr: "2001:db8::/32", except } })).policies[0]?.ingress
      ?.rules[0];
    const peer = rule?.peers === "any" ? undefined : rule?.peers[0];
    expect(peer?.kind === "cidr" && peer.prefixes.length).toBeGreaterThan(20_000);
    expect(peer?.key).toMatch(/^cidr:[0-9a-f]{64}$/);
    expect(
      refused(from({ ipBlock: { cidr: "2001:db8::/32", except: [...except, "2001:db8:ffff::/48"] } })),
    ).toEqual(["spec.ingress[0].from[0].ipBlock.except[250]: matches nothing"]);
  });

  it.each([
    ["a peer of an unknown kind", from({ serviceSelector: {} }), "spec.ingress[0].from[0].serviceSelector"],
    ["an empty peer", from({}), "spec.ingress[0].from[0]"],
    ["a peer that is null", from(null), "spec.ingress[0].from[0]"],
    ["peers that are not a list", { podSelector: {}, ingress: [{ from: {} }] }, "spec.ingress[0].from"],
    [
      "a peer with an ipBlock and a selector",
      from({ ipBlock: { cidr: "10.0.0.0/8" }, podSelector: {} }),
      "spec.ingress[0].from[0].ipBlock",
    ],
    [
      "a CIDR that cannot be read",
      from({ ipBlock: { cidr: "10.0.0/8" } }),
      "spec.ingress[0].from[0].ipBlock.cidr",
    ],
    [
      "an exception that cannot be read",
      from({ ipBlock: { cidr: "10.0.0.0/8", except: ["10.1.0.0"] } }),
      "spec.ingress[0].from[0].ipBlock.except[0]",
    ],
    [
      "an exception outside of the CIDR",
      from({ ipBlock: { cidr: "10.0.0.0/8", except: ["11.0.0.0/9"] } }),
      "spec.ingress[0].from[0].ipBlock.except[0]",
    ],
    [
      "an operator that does not exist",
      from({ podSelector: { matchExpressions: [{ key: "a", operator: "Gt", values: ["1"] }] } }),
      "spec.ingress[0].from[0].podSelector.matchExpressions[0].operator",
    ],
    [
      "In without values",
      from({ podSelector: { matchExpressions: [{ key: "a", operator: "In" }] } }),
      "spec.ingress[0].from[0].podSelector.matchExpressions[0].values",
    ],
    ["port 0", ports({ port: 0 }), "spec.ingress[0].ports[0].port"],
    ["port 65536", ports({ port: 65_536 }), "spec.ingress[0].ports[0].port"],
    ["a number as a name", ports({ port: "80" }), "spec.ingress[0].ports[0].port"],
    ["an end before the port", ports({ port: 80, endPort: 79 }), "spec.ingress[0].ports[0].endPort"],
    ["an end of a name", ports({ port: "http", endPort: 80 }), "spec.ingress[0].ports[0].endPort"],
    ["an end without a port", ports({ endPort: 80 }), "spec.ingress[0].ports[0].endPort"],
    ["a protocol that does not exist", ports({ protocol: "ICMP" }), "spec.ingress[0].ports[0].protocol"],
    ["an unknown field of a rule", { podSelector: {}, ingress: [{ form: [] }] }, "spec.ingress[0].form"],
  ])("allows nothing for %s", (_name, spec, field) => {
    expect(refused(spec)).toEqual([`${field}: matches nothing`]);
    const rules = compiled(spec).policies[0]?.ingress?.rules ?? [];
    expect(
      rules.every(
        (it) =>
          (it.peers !== "any" && it.peers.length === 0) || (it.ports !== "any" && it.ports.length === 0),
      ),
    ).toBe(true);
    expect(compiled(spec).policies[0]?.ingress?.isDefaultDeny).toBe(true);
  });

  it("keeps the peers that it understands", () => {
    expect(ingress(from({ podSelector: {} }, { fooSelector: {} }))).toEqual([
      "pods:cluster=a&namespace=shop on any",
    ]);
  });

  it("is not enforced if its subject cannot be read", () => {
    const spec = { podSelector: { matchLabels: { app: 1 } } };
    expect(compiled(spec)).toMatchObject({ policies: [], refusals: [{ effect: "policy not enforced" }] });
  });

  it("says that rules of a direction that policyTypes lacks have no effect", () => {
    const spec = { podSelector: {}, policyTypes: ["Egress"], ingress: [{}] };
    expect(refused(spec)).toEqual(["spec.ingress: part ignored"]);
    expect(compiled(spec).policies[0]?.ingress).toBeUndefined();
  });

  it("with 10,000 labels is compiled", () => {
    const labels = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`key-${index}`, "v"]));
    const values = Object.keys(labels);
    const selector = { matchLabels: labels, matchExpressions: [{ key: "x", operator: "In", values }] };
    expect(ingress(from({ podSelector: selector }))[0]).toContain("pod:key-9999=v");
  });

  it("with names of JavaScript's own as labels selects by them", () => {
    const labels = { constructor: "a", __proto__x: "b", toString: "c" };
    expect(ingress(from({ podSelector: { matchLabels: labels } }))[0]).toContain("pod:constructor=a");
  });
});
