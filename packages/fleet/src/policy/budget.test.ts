import { describe, expect, it } from "vitest";
import { PolicyDraft } from "#dataplane/policy/policy-draft.ts";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import {
  beyondNamespace,
  closedByNamespace,
  costOfAll,
  MAX_OF_NAMESPACE,
  MAX_OF_POLICY,
  MAX_RULES_ON_NODE,
} from "./budget.ts";
import { compilePolicy } from "./compile/compile.ts";
import { Enforced } from "./enforced.ts";
import type { Compilation, CompiledPolicy } from "./model.ts";
import { Resolver } from "./resolver/resolver.ts";
import { EVERYTHING } from "./selector.ts";
import { Chance } from "./testing/chance.fake.ts";
import { ciliumPolicy } from "./testing/generate-cilium.fake.ts";

const SETTINGS = { cluster: "a", isLocalByDefault: true, cidrMatchesPods: false, cidrMatchesNodes: false };

function compiled(spec: object, name = "p"): Compilation {
  const policy = { metadata: { name, namespace: "shop" }, spec };
  return compilePolicy("NetworkPolicy", policy, SETTINGS, { cidrGroups: [], services: [] });
}

const times = <T>(count: number, make: (at: number) => T): readonly T[] =>
  Array.from({ length: count }, (_, at) => make(at));
/** Rules for one port each. */
const rules = (count: number): object => ({
  podSelector: {},
  ingress: times(count, (at) => ({ ports: [{ port: 1 + at }] })),
});
const cidr = (at: number): object => ({ ipBlock: { cidr: `10.${at >> 8}.${at & 255}.1/32` } });

/** What a node with these pods, named by their label app, has of these policies. */
function enforced(policies: readonly CompiledPolicy[], pods: readonly string[] = ["web"]) {
  const resolver = new Resolver({ cluster: "a", node: "n" });
  resolver.upsertNamespace({ cluster: "a", name: "shop", labels: {} });
  for (const [at, app] of pods.entries())
    resolver.upsertPod({
      cluster: "a",
      namespace: "shop",
      name: app,
      labels: { app },
      serviceAccount: "default",
      ports: [],
      node: "n",
      addresses: [parseAddress(`10.0.${at >> 8}.${at & 255}`)],
    });
  for (const it of policies) resolver.upsertPolicy(it);
  const changes = resolver.take();
  const [draft, question] = [new PolicyDraft(), new Enforced()];
  draft.apply(changes);
  question.apply(changes);
  const { chains, sets } = draft.table.whole;
  const own = [...sets.keys()].filter((it) => /^(addresses|ports|prefixes|numbers)-/.test(it));
  const inGroups = [...chains].filter(([name]) => /^(in|e)gress-/.test(name));
  const count = inGroups.reduce((all, [, it]) => all + it.rules.length, 0) + own.length;
  return { draft, question, changes, count, resolver };
}

const flow = (port: number, source = "203.0.113.7") =>
  ({
    source: parseAddress(source),
    destination: parseAddress("10.0.0.0"),
    traffic: { kind: "transport", protocol: "TCP", port },
  }) as const;

describe("what a policy costs", () => {
  it("is one rule of each family for 500 CIDRs and 500 named ports, and one set of each", () => {
    const ports = times(500, (at) => ({ port: `p${at}` }));
    const { policies, refusals } = compiled({
      podSelector: {},
      ingress: [{ from: times(500, cidr), ports }],
    });
    expect(refusals).toEqual([]);
    const { chains } = enforced(policies).draft.table.whole;
    const chain = [...chains.keys()].find((it) => it.startsWith("ingress-")) ?? "";
    expect(chains.get(chain)?.rules).toHaveLength(3);
  });

  it("is one rule for 30,000 ports", () => {
    const ports = times(30_000, (at) => ({ port: 1 + 2 * at }));
    const { policies } = compiled({ podSelector: {}, ingress: [{ ports }] });
    const { question, count } = enforced(policies);
    expect(count).toBeLessThan(5);
    expect([5, 6].map((it) => question.verdict(flow(it), "ingress").isAllowed)).toEqual([true, false]);
  });

  it("is never less than the kernel gets", () => {
    for (let seed = 0; seed < 200; seed++) {
      const object = ciliumPolicy(new Chance(seed), "p", true);
      const { policies } = compilePolicy("CiliumNetworkPolicy", object, SETTINGS, {
        cidrGroups: [],
        services: [],
      });
      const all = policies.map((it): CompiledPolicy => ({
        ...it,
        subject: { of: "pods", selector: EVERYTHING },
      }));
      // At most one rule more ends the chain of each direction.
      expect(enforced(all).count).toBeLessThanOrEqual(costOfAll(all).rules + 2);
    }
  });
});

describe("a policy that costs more than one may", () => {
  const large = MAX_OF_POLICY.rules / 8;

  it("allows nothing in the directions that it names, and names itself", () => {
    const { policies, refusals } = compiled(rules(large));
    expect(refusals).toMatchObject([{ field: "spec", effect: "pods closed" }]);
    const { question, count } = enforced(policies);
    expect(count).toBeLessThan(10);
    expect(question.verdict(flow(1), "ingress")).toMatchObject({
      isAllowed: false,
      deniedBy: [{ name: "p" }],
    });
    expect(question.verdict({ ...flow(1), source: flow(1).destination }, "egress").isAllowed).toBe(true);
  });

  it("denies everything where it denies something, and leaves what others allow if it only allows", () => {
    const denies = times(large, (at) => ({ toPorts: [{ ports: [{ port: `${1 + at}` }] }] }));
    const allow = compiled({ podSelector: {}, ingress: [{}] }, "others").policies;
    const metadata = { name: "p", namespace: "shop" };
    const object = { metadata, spec: { endpointSelector: {}, ingressDeny: denies } };
    const none = { cidrGroups: [], services: [] };
    const denied = compilePolicy("CiliumNetworkPolicy", object, SETTINGS, none).policies;
    const of = (policies: readonly CompiledPolicy[]): boolean =>
      enforced([...policies, ...allow]).question.verdict(flow(50_000), "ingress").isAllowed;
    expect([of(denied), of(compiled(rules(large)).policies)]).toEqual([false, true]);
  });
});

describe("policies of one namespace that cost more together than they may", () => {
  const priced = (name: string, createdAt: string, count = 800) => {
    const compilation = compiled(rules(count), name);
    return { compilation, createdAt, cost: costOfAll(compilation.policies) };
  };

  it("are closed from the youngest on, in whatever order they are read", () => {
    const all = ["3", "1", "2", "4"].map((it) => priced(`p${it}`, `2026-01-0${it}T00:00:00Z`));
    expect(costOfAll(all.flatMap((it) => it.compilation.policies)).rules).toBeGreaterThan(
      MAX_OF_NAMESPACE.rules,
    );
    for (const list of [all, all.toReversed()]) {
      const names = new Set([...beyondNamespace(list)].map((it) => it?.compilation.id.name));
      expect(names).toEqual(new Set(["p3", "p4"]));
    }
    expect(beyondNamespace(all.slice(1, 3)).size).toBe(0);
    expect(closedByNamespace(compiled(rules(1))).refusals).toMatchObject([{ effect: "pods closed" }]);
  });

  it("do not multiply with the pods of a node, each of which other policies select, too", () => {
    const pods = times(100, (at) => `web-${at}`);
    const own = pods.flatMap((it) => compiled({ podSelector: { matchLabels: { app: it } } }, it).policies);
    const { count, resolver, changes } = enforced([...compiled(rules(800)).policies, ...own], pods);
    expect(count).toBeLessThan(MAX_RULES_ON_NODE);
    const closed = changes.groups.filter((it) => it.isClosed === true);
    expect(closed.length).toBeGreaterThan(80);
    // When there is room again, they get their rules.
    resolver.deletePolicy("NetworkPolicy/shop/p");
    const after = resolver.take();
    expect(after.groups.some((it) => it.isClosed === true)).toBe(false);
  });
});
