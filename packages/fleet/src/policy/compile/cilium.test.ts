import type { CiliumNetworkPolicy } from "#api/cilium.io/v2/types.ts";
import { describe, expect, it } from "vitest";
import type { Compilation, Rule } from "../model.ts";
import { compileCiliumPolicy } from "./cilium.ts";
import type { PolicyObjects } from "./draft.ts";

const settings = { cluster: "a", isLocalByDefault: true, cidrMatchesPods: false, cidrMatchesNodes: false };
const objects: PolicyObjects = {
  cidrGroups: [{ metadata: { name: "bad" }, spec: { externalCIDRs: ["10.0.0.0/99"] } }],
  services: [],
};

function compiled(spec: object, namespace: string | undefined = "shop"): Compilation {
  const metadata = { name: "p", ...(namespace === undefined ? {} : { namespace }) };
  return compileCiliumPolicy({ metadata, spec }, settings, objects);
}

const clusterwide = (spec: object): Compilation =>
  compileCiliumPolicy({ metadata: { name: "p" }, spec }, settings, objects);

function ruleTexts(rules: readonly Rule[] | undefined): readonly string[] {
  return (rules ?? []).map(({ action, peers, ports }) => {
    const of = peers === "any" ? "any" : peers.map((it) => it.key).join(" | ");
    return `${action} ${of}${ports === "any" ? "" : ` on ${ports.length} ports`}`;
  });
}

const WEB = { matchLabels: { app: "web" } };
const allow = (rule: object): object => ({ endpointSelector: {}, ingress: [rule] });
const deny = (rule: object): object => ({ endpointSelector: {}, ingressDeny: [rule] });
const egress = (rule: object): object => ({ endpointSelector: {}, egress: [rule] });
const port = (fields: object): object => ({ toPorts: [{ ports: [fields] }] });

/** What no rule may be after a refusal: one that allows something. */
function isAllowing(rule: Rule): boolean {
  return rule.action === "allow" && rule.peers.length > 0 && rule.ports.length > 0;
}

describe("a CiliumNetworkPolicy", () => {
  it("selects peers of its namespace and cluster, unless they name others", () => {
    const rules = (selector: object) =>
      ruleTexts(compiled(allow({ fromEndpoints: [selector] })).policies[0]?.ingress?.rules);
    expect(rules(WEB)).toEqual(["allow pods:cluster=a&namespace=shop&pod:app=web"]);
    expect(rules({ matchLabels: { "k8s:io.kubernetes.pod.namespace": "db" } })).toEqual([
      "allow pods:cluster=a&namespace=db",
    ]);
    expect(rules({ matchLabels: { "io.cilium.k8s.namespace.labels.team": "red" } })).toEqual([
      "allow pods:cluster=a&ns:team=red",
    ]);
    expect(rules({ matchLabels: { "any:io.cilium.k8s.policy.cluster": "b" } })).toEqual([
      "allow pods:cluster=b&namespace=shop",
    ]);
    expect(rules({ matchLabels: { "reserved:remote-node": "" } })).toEqual(["allow entity:remote-node"]);
  });

  it("denies by default with an empty rule, which allows nothing", () => {
    expect(compiled(allow({})).policies[0]?.ingress).toEqual({ isDefaultDeny: true, rules: [] });
    expect(compiled(allow({ fromEndpoints: [] })).policies[0]?.ingress?.rules.some(isAllowing)).toBe(false);
  });

  it("denies by default whatever enableDefaultDeny says that is not a boolean, and names it", () => {
    const spec = { ...allow({ fromEntities: ["host"] }), enableDefaultDeny: { ingress: "false" } };
    const { policies, refusals } = compiled(spec);
    expect(policies[0]?.ingress?.isDefaultDeny).toBe(true);
    expect(refusals).toMatchObject([{ field: "spec.enableDefaultDeny.ingress", effect: "part ignored" }]);
  });

  it("denies nothing by enableDefaultDeny alone, as with Cilium, and says so", () => {
    for (const lists of [{}, { ingress: [] }, { ingress: null, ingressDeny: [] }]) {
      const { policies, refusals } = compiled({
        endpointSelector: {},
        ...lists,
        egress: [{}],
        enableDefaultDeny: { ingress: true },
      });
      expect(policies[0]?.ingress).toBeUndefined();
      expect(policies[0]?.egress?.isDefaultDeny).toBe(true);
      expect(refusals).toMatchObject([{ field: "spec.enableDefaultDeny.ingress", effect: "part ignored" }]);
      expect(refusals[0]?.reason).toContain("one empty rule");
    }
  });

  it("denies by enableDefaultDeny with an empty rule, or with one that denies", () => {
    for (const rules of [{ ingress: [{}] }, { ingressDeny: [{ fromEntities: ["world"] }] }])
      expect(
        compiled({ endpointSelector: {}, ...rules, enableDefaultDeny: { ingress: true } }).policies[0]
          ?.ingress?.isDefaultDeny,
      ).toBe(true);
  });

  it("has no effect without any list of rules", () => {
    const { policies, refusals } = compiled({ endpointSelector: {} });
    expect(policies.flatMap((it) => [it.ingress, it.egress]).filter((it) => it !== undefined)).toEqual([]);
    expect(refusals).toEqual([]);
  });

  it("says that an empty list denies nothing", () => {
    const { policies, refusals } = compiled({ endpointSelector: {}, ingress: [] });
    expect(policies[0]?.ingress).toBeUndefined();
    expect(refusals).toMatchObject([{ field: "spec.ingress", effect: "part ignored" }]);
  });

  it("has one compiled policy for each spec", () => {
    const specs = [allow({ fromEntities: ["world"] }), allow({ fromEntities: ["host"] })];
    const policy = { metadata: { name: "p", namespace: "shop" }, specs } as CiliumNetworkPolicy;
    expect(compileCiliumPolicy(policy, settings, objects).policies.map((it) => it.key)).toEqual([
      "CiliumNetworkPolicy/shop/p",
      "CiliumNetworkPolicy/shop/p#1",
    ]);
  });

  it("keeps rules about DNS queries apart", () => {
    const dns = { ports: [{ port: "53", protocol: "UDP" }], rules: { dns: [{ matchName: "Example.com." }] } };
    const rules =
      compiled(egress({ toPorts: [dns, { ports: [{ port: "80" }] }] })).policies[0]?.egress?.rules ?? [];
    expect(rules.map((it) => it.dns)).toEqual([undefined, ["example.com"]]);
  });

  const refused: readonly (readonly [string, object, string])[] = [
    [
      "two kinds of peers in a rule",
      { fromEndpoints: [WEB], fromCIDR: ["10.0.0.0/8"] },
      "spec.ingress[0].fromCIDR",
    ],
    ["fromRequires", { fromRequires: [WEB] }, "spec.ingress[0].fromRequires[0]"],
    ["groups of a cloud", { fromGroups: [{ aws: {} }] }, "spec.ingress[0].fromGroups[0]"],
    ["an unknown entity", { fromEntities: ["moon"] }, "spec.ingress[0].fromEntities[0]"],
    ["an unknown field", { fromPlanets: [] }, undefined],
    ["an unknown kind of peer", { fromPlanets: ["mars"] }, "spec.ingress[0].fromPlanets"],
    [
      "a label of another source",
      { fromEndpoints: [{ matchLabels: { "container:a": "b" } }] },
      "spec.ingress[0].fromEndpoints[0].matchLabels",
    ],
    [
      "a label of an entity together with others",
      { fromEndpoints: [{ matchLabels: { "reserved:host": "", app: "web" } }] },
      "spec.ingress[0].fromEndpoints[0].matchLabels",
    ],
    [
      "an exception outside of its CIDR",
      { fromCIDRSet: [{ cidr: "10.0.0.0/8", except: ["11.0.0.0/16"] }] },
      "spec.ingress[0].fromCIDRSet[0].except[0]",
    ],
    ["a CIDR that cannot be read", { fromCIDR: ["10.0.0.0/33"] }, "spec.ingress[0].fromCIDR[0]"],
    [
      "a CIDR set with two sources",
      { fromCIDRSet: [{ cidr: "10.0.0.0/8", cidrGroupRef: "x" }] },
      "spec.ingress[0].fromCIDRSet[0]",
    ],
    [
      "an exception that cannot be read",
      { fromCIDRSet: [{ cidr: "10.0.0.0/8", except: ["10.1"] }] },
      "spec.ingress[0].fromCIDRSet[0].except[0]",
    ],
    [
      "a group whose CIDRs cannot be read",
      { fromCIDRSet: [{ cidrGroupRef: "bad" }] },
      "CiliumCIDRGroup bad spec.externalCIDRs[0]",
    ],
    ["port 65536", port({ port: "65536" }), "spec.ingress[0].toPorts[0].ports[0].port"],
    ["no port", port({ protocol: "TCP" }), "spec.ingress[0].toPorts[0].ports[0].port"],
    [
      "an end before the port",
      port({ port: "80", endPort: 79 }),
      "spec.ingress[0].toPorts[0].ports[0].endPort",
    ],
    [
      "an unknown protocol",
      port({ port: "80", protocol: "GRE" }),
      "spec.ingress[0].toPorts[0].ports[0].protocol",
    ],
    [
      "ports and ICMP in a rule",
      { ...port({ port: "80" }), icmps: [{ fields: [{ type: 8 }] }] },
      "spec.ingress[0].icmps",
    ],
    [
      "an unknown type of ICMP",
      { icmps: [{ fields: [{ type: "Ping" }] }] },
      "spec.ingress[0].icmps[0].fields[0].type",
    ],
  ].filter((it): it is [string, object, string] => it[2] !== undefined);

  it.each(refused)("allows nothing, or denies more, for %s", (_name, rule, field) => {
    const allowed = compiled(allow(rule));
    expect(allowed.refusals).toMatchObject([{ field, effect: "matches nothing" }]);
    expect(allowed.policies[0]?.ingress?.isDefaultDeny).toBe(true);
    expect(allowed.policies[0]?.ingress?.rules.some(isAllowing)).toBe(false);
    const denied = compiled(deny({ ...rule }));
    expect(denied.refusals[0]).toMatchObject({ effect: "denies more" });
    expect(denied.policies[0]?.ingress?.rules).toMatchObject([{ action: "deny" }]);
    expect(ruleTexts(denied.policies[0]?.ingress?.rules)[0]).toContain("any");
  });

  it.each([
    ["rules.http", { ports: [{ port: "80" }], rules: { http: [{ path: "/" }] } }],
    ["rules.kafka", { ports: [{ port: "80" }], rules: { kafka: [{}] } }],
    ["rules.l7", { ports: [{ port: "80" }], rules: { l7: [{}], l7proto: "x" } }],
    ["serverNames", { ports: [{ port: "443" }], serverNames: ["a.example.com"] }],
    ["terminatingTLS", { ports: [{ port: "443" }], terminatingTLS: {} }],
    ["originatingTLS", { ports: [{ port: "443" }], originatingTLS: {} }],
    ["listener", { ports: [{ port: "443" }], listener: { name: "x" } }],
  ])("allows nothing for %s, which needs a proxy", (name, entry) => {
    const { policies, refusals } = compiled(egress({ toEntities: ["world"], toPorts: [entry] }));
    expect(refusals).toMatchObject([
      { field: `spec.egress[0].toPorts[0].${name}`, effect: "matches nothing" },
    ]);
    expect(policies[0]?.egress).toMatchObject({ isDefaultDeny: true, rules: [] });
  });

  it("allows nothing for rules about DNS in ingress, and denies more for names in rules that deny", () => {
    const dns = { ports: [{ port: "53" }], rules: { dns: [{ matchPattern: "*" }] } };
    const ingress = compiled(allow({ fromEntities: ["all"], toPorts: [dns] }));
    expect(ingress.refusals).toMatchObject([
      { field: "spec.ingress[0].toPorts[0].rules.dns", effect: "matches nothing" },
    ]);
    expect(ingress.policies[0]?.ingress).toEqual({ isDefaultDeny: true, rules: [] });
    const denied = compiled({
      endpointSelector: {},
      egressDeny: [{ toFQDNs: [{ matchName: "a.example.com" }] }],
    });
    expect(denied.refusals).toMatchObject([
      { field: "spec.egressDeny[0].toFQDNs[0]", effect: "denies more" },
    ]);
    expect(ruleTexts(denied.policies[0]?.egress?.rules)).toEqual(["deny any"]);
  });

  it("takes names of ports in any case", () => {
    const rules = compiled(allow({ fromEntities: ["all"], ...port({ port: "HTTP", protocol: "TCP" }) }));
    expect(rules.policies[0]?.ingress?.rules[0]?.ports).toEqual([
      { kind: "named", protocol: "TCP", name: "http" },
    ]);
  });

  it("allows nothing where authentication is required", () => {
    const rule = { fromEntities: ["all"], authentication: { mode: "required" } };
    const { policies, refusals } = compiled(allow(rule));
    expect(refusals).toMatchObject([{ field: "spec.ingress[0].authentication" }]);
    expect(policies[0]?.ingress).toEqual({ isDefaultDeny: true, rules: [] });
  });

  it("allows nothing if its spec has an unknown field", () => {
    const { policies, refusals } = compiled({ ...allow({ fromEntities: ["all"] }), order: 5 });
    expect(refusals).toMatchObject([{ field: "spec.order", effect: "matches nothing" }]);
    expect(policies[0]?.ingress).toEqual({ isDefaultDeny: true, rules: [] });
  });

  it.each([
    ["no subject", {}],
    ["two subjects", { endpointSelector: {}, nodeSelector: {} }],
    ["nodes", { nodeSelector: {} }],
    [
      "pods of another namespace",
      { endpointSelector: { matchLabels: { "io.kubernetes.pod.namespace": "db" } } },
    ],
  ])("is not enforced with %s", (_name, subject) => {
    const { policies, refusals } = compiled({ ...subject, ingress: [{}] });
    expect(policies).toEqual([]);
    expect(refusals).toMatchObject([{ effect: "policy not enforced" }]);
  });

  it.each(["*", "**.x", "*.*.*", "*a*b*c*"])("takes %s as a pattern of names", (matchPattern) => {
    expect(ruleTexts(compiled(egress({ toFQDNs: [{ matchPattern }] })).policies[0]?.egress?.rules)).toEqual([
      `allow fqdn:${matchPattern}`,
    ]);
  });

  it.each(["", "a..b", ".a", "a b", "é.example.com", "a".repeat(254), "[a-z].example.com"])(
    "refuses %j as a pattern of names",
    (matchPattern) => {
      expect(
        compiled(egress({ toFQDNs: [{ matchPattern }] })).policies[0]?.egress?.rules.some(isAllowing),
      ).toBe(false);
    },
  );
});

describe("a CiliumClusterwideNetworkPolicy", () => {
  it("selects peers of every namespace, in the own cluster", () => {
    const rules = clusterwide(allow({ fromEndpoints: [{}] })).policies[0]?.ingress?.rules;
    expect(ruleTexts(rules)).toEqual(["allow pods:cluster=a"]);
  });

  it("can be for nodes", () => {
    const { policies } = clusterwide({ nodeSelector: { matchLabels: { pool: "x" } }, ingress: [{}] });
    expect(policies[0]?.subject).toMatchObject({ of: "nodes", selector: { key: "node:pool=x" } });
  });
});
