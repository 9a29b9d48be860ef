import { isObject } from "@fairlead/base/json.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { describe, expect, it } from "vitest";
import { compilePolicy, POLICY_KINDS, type PolicyKind } from "./compile/compile.ts";
import { Enforced } from "./enforced.ts";
import type { Compilation, Way } from "./model.ts";
import { answer, filled } from "./testing/cases.fake.ts";
import { Chance } from "./testing/chance.fake.ts";
import { ciliumPolicy } from "./testing/generate-cilium.fake.ts";
import { clusterPolicy } from "./testing/generate-cluster.fake.ts";
import { EXTERNAL, networkPolicy, newWorld, traffic } from "./testing/generate.fake.ts";
import { actorsOf, type World } from "./testing/world.fake.ts";

const SEEDS = Number(process.env["POLICY_FIELDS"] ?? 8);

type Path = readonly (string | number)[];
type Policy = KubeObject & { readonly spec?: unknown };

function policyOf(kind: PolicyKind, chance: Chance): Policy {
  if (kind === "NetworkPolicy") return networkPolicy(chance, "p");
  if (kind === "ClusterNetworkPolicy") return clusterPolicy(chance, "p", 0);
  return ciliumPolicy(chance, "p", kind === "CiliumNetworkPolicy");
}

function* pathsOf(value: unknown, path: Path = []): Generator<Path, undefined> {
  const entries: (readonly [string | number, unknown])[] = Array.isArray(value)
    ? [...(value as readonly unknown[]).entries()]
    : isObject(value)
      ? Object.entries(value)
      : [];
  for (const [key, item] of entries) {
    yield [...path, key];
    yield* pathsOf(item, [...path, key]);
  }
  return undefined;
}

const DROPPED = Symbol("dropped");

/** A copy with another value at the path. */
function withValue(value: unknown, [key, ...rest]: Path, last: unknown): unknown {
  if (key === undefined) return last;
  if (Array.isArray(value))
    return value.map((it: unknown, at) => (at === key ? withValue(it, rest, last) : it));
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([name, it]) => [
    name,
    name === key ? withValue(it, rest, last) : it,
  ]);
  return Object.fromEntries(entries.filter(([, it]) => it !== DROPPED));
}

const compiled = (kind: PolicyKind, policy: unknown, world: World): Compilation =>
  compilePolicy(kind, policy as KubeObject, world, world);

/** Without what says which pods a policy concerns, and for which directions: the documents say what becomes of a policy without. */
const CONCERNS =
  /^specs?\.(\d+\.)?(podSelector|endpointSelector|nodeSelector|subject|tier|priority|policyTypes|enableDefaultDeny|labels|description|log)\b/;

describe.each(POLICY_KINDS)("in a %s", (kind) => {
  it("a field that is null is one that is not there", () => {
    for (let seed = 0; seed < SEEDS; seed++) {
      const chance = new Chance(seed);
      const world = newWorld(chance, "flat");
      const policy = policyOf(kind, chance);
      // A label is a key of a map, and not a field.
      const isField = (it: Path): boolean =>
        it[0] !== "metadata" && typeof it.at(-1) === "string" && it.at(-2) !== "matchLabels";
      const paths = [...pathsOf(policy)].filter(isField);
      for (const path of paths) {
        const [none, gone] = [null, DROPPED].map((it) => compiled(kind, withValue(policy, path, it), world));
        expect([path.join("."), none?.policies]).toEqual([path.join("."), gone?.policies]);
      }
    }
  });

  it("a field with a value that it cannot have, and a list of peers of Cilium that is empty, allow nothing more", () => {
    let questions = 0;
    for (let seed = 0; seed < SEEDS; seed++) {
      const chance = new Chance(seed);
      const world = newWorld(chance, "flat");
      const policy = policyOf(kind, chance);
      const before = verdicts(compiled(kind, policy, world), world, seed);
      for (const path of pathsOf(policy)) {
        const name = path.join(".");
        if (!name.startsWith("spec") || /^specs?(\.\d+)?$/.test(name) || CONCERNS.test(name)) continue;
        const isPeers = kind.startsWith("Cilium") && /^(from|to)(?!Ports)[A-Z]/.test(String(path.at(-1)));
        for (const value of [true, ...(isPeers ? [[]] : [])]) {
          const after = verdicts(compiled(kind, withValue(policy, path, value), world), world, seed);
          questions += after.length;
          const wider = after.filter((it, at) => it.isAllowed && before[at]?.isAllowed === false);
          expect([name, value, wider]).toEqual([name, value, []]);
        }
      }
    }
    expect(questions).toBeGreaterThan(SEEDS);
  });
});

/** The same flows for each seed. */
function verdicts({ policies }: Compilation, world: World, seed: number) {
  const resolver = filled(world);
  for (const it of policies) resolver.upsertPolicy(it);
  const changes = resolver.take();
  const enforced = new Enforced();
  enforced.apply(changes);
  for (const { key, state } of changes.sets) if (state === "new") answer(enforced, world, key);
  const chance = new Chance(seed);
  const actors = actorsOf(world, EXTERNAL);
  return Array.from({ length: 30 }, () => {
    const [source, destination] = [chance.one(actors).address, chance.one(actors).address];
    const flow = { source, destination, traffic: traffic(chance) };
    const way: Way = chance.is(0.5) ? "ingress" : "egress";
    const isAllowed = typeof source !== typeof destination || enforced.verdict(flow, way).isAllowed;
    return { flow, way, isAllowed };
  });
}

describe("100,000 nested prefixes", () => {
  const SETTINGS = { cluster: "a", isLocalByDefault: true, cidrMatchesPods: false, cidrMatchesNodes: false };
  /** Each inside of the one before, or of another one: most are in several others. */
  function prefixes(chance: Chance, count: number): readonly [number, number][] {
    const all: [number, number][] = [];
    while (all.length < count) {
      const [base, bits] = all.length === 0 || chance.is(0.02) ? [0, 6] : chance.one(all);
      const length = Math.min(32, bits + 1 + chance.int(6));
      const host = Number(BigInt(chance.int(2 ** 16)) * 65_536n + BigInt(chance.int(2 ** 16)));
      const size = 2 ** (32 - bits);
      const address = base + (host % size);
      all.push([address - (address % 2 ** (32 - length)), length]);
    }
    return all;
  }
  const text = (address: number): string =>
    [24, 16, 8, 0].map((it) => Math.floor(address / 2 ** it) % 256).join(".");
  /** By each length that there is. */
  function contains(all: readonly [number, number][]): (address: number) => boolean {
    const byLength = Map.groupBy(all, ([, length]) => length);
    const sets = [...byLength].map(([length, list]) => [length, new Set(list.map(([it]) => it))] as const);
    return (address) => sets.some(([length, set]) => set.has(address - (address % 2 ** (32 - length))));
  }

  it("that deny come before those that allow, whichever is the longer one", () => {
    const chance = new Chance(7);
    const lists = { allow: prefixes(chance, 100_000), deny: prefixes(chance, 100_000) };
    const cidrGroups = Object.entries(lists).map(([name, list]) => ({
      metadata: { name },
      spec: { externalCIDRs: list.map(([address, length]) => `${text(address)}/${length}`) },
    }));
    const from = (cidrGroupRef: string) => [{ fromCIDRSet: [{ cidrGroupRef }] }];
    const policy = {
      metadata: { name: "p", namespace: "shop" },
      spec: { endpointSelector: {}, ingress: from("allow"), ingressDeny: from("deny") },
    };
    const { policies, refusals } = compilePolicy("CiliumNetworkPolicy", policy, SETTINGS, {
      cidrGroups,
      services: [],
    });
    expect(refusals).toEqual([]);
    const [allow, deny] = [lists.allow, lists.deny].map(contains);
    const rules = policies[0]?.ingress?.rules ?? [];
    const compiledTo = (action: string) => {
      const peers = rules.find((it) => it.action === action)?.peers ?? [];
      const cidrs = peers === "any" ? [] : peers.flatMap((it) => (it.kind === "cidr" ? it.prefixes : []));
      return contains(cidrs.map(({ network, length }) => [Number(network), length]));
    };
    const [isAllowed, isDenied] = [compiledTo("allow"), compiledTo("deny")];
    expect(rules.map((it) => it.action)).toEqual(["deny", "allow"]);
    for (let at = 0; at < 2000; at++) {
      const [base] = chance.one(chance.is(0.5) ? lists.allow : lists.deny);
      const address = base + chance.int(3);
      expect([address, isAllowed(address), isDenied(address)]).toEqual([
        address,
        allow?.(address),
        deny?.(address),
      ]);
    }
  });
});
