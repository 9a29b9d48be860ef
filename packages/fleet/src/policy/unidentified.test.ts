import { formatAddress, parseAddress } from "@fairlead/base/netaddr/address.ts";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { expect, it } from "vitest";
import { compilePolicy } from "./compile/compile.ts";
import { Enforced, type Flow } from "./enforced.ts";
import type { CompiledPolicy, Way } from "./model.ts";
import { Remote } from "./remote.ts";
import { groupOf, needsOf } from "./resolver/group.ts";
import { Resolver } from "./resolver/resolver.ts";
import { answer } from "./testing/cases.fake.ts";
import { closedToUnidentified } from "./unidentified.ts";
import { Chance } from "./testing/chance.fake.ts";
import { ciliumPolicy } from "./testing/generate-cilium.fake.ts";
import { clusterPolicy } from "./testing/generate-cluster.fake.ts";
import { EXTERNAL, networkPolicy, newWorld, setPod, traffic } from "./testing/generate.fake.ts";
import { isAllowed } from "./testing/oracle.fake.ts";
import { type Actor, actorsOf, isOwnPod, type World } from "./testing/world.fake.ts";

/** `npm run test:full` runs more. */
const WORLDS = Number(process.env["POLICY_CASES"] ?? 960) / 4;

const REMOTE = [
  { cluster: "b", prefixes: ["10.2.0.0/16", "fd00:2::/32"].map((it) => parsePrefix(it)) },
  { cluster: "c", prefixes: ["10.3.0.0/16", "fd00:3::/32"].map((it) => parsePrefix(it)) },
];
/** Addresses there that no pod has that others may know. */
const ANONYMOUS = ["10.2.250.1", "10.3.250.1", "fd00:2::fa01", "fd00:3::fa01"].map(parseAddress);

function compiled(world: World, chance: Chance): readonly CompiledPolicy[] {
  const all = [0, 1, 2].map((number) => {
    const name = `policy-${number}`;
    if (number === 0) {
      const policy = networkPolicy(chance, name);
      world.networkPolicies.set(name, policy);
      return compilePolicy("NetworkPolicy", policy, world, world);
    }
    if (number === 1) {
      const policy = clusterPolicy(chance, name, number);
      world.clusterPolicies.set(name, policy);
      return compilePolicy("ClusterNetworkPolicy", policy, world, world);
    }
    const policy = ciliumPolicy(chance, name, true);
    world.ciliumPolicies.set(name, policy);
    return compilePolicy("CiliumNetworkPolicy", policy, world, world);
  });
  return all.flatMap((it) => it.policies);
}

function shuffled<T>(list: readonly T[], chance: Chance): T[] {
  return list
    .map((it) => ({ it, at: chance.int(1_000_000) }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ it }) => it);
}

/** A cluster that knows itself, and learns of the others step by step. */
class Learner {
  readonly #world: World;
  readonly #enforced: Enforced;
  readonly #resolver: Resolver;

  constructor(world: World, policies: readonly CompiledPolicy[]) {
    this.#world = world;
    this.#resolver = new Resolver(world);
    this.#resolver.setRemote(REMOTE);
    this.#enforced = new Enforced(world.nodes.get(`${world.cluster}/${world.node}`)?.addresses);
    for (const it of world.nodes.values()) this.#resolver.upsertNode(it);
    this.#resolver.setApiServers(world.apiServers);
    for (const it of world.namespaces.values()) if (it.cluster === "a") this.#resolver.upsertNamespace(it);
    for (const it of world.pods.values()) if (it.cluster === "a") this.#resolver.upsertPod(it);
    for (const it of policies) this.#resolver.upsertPolicy(it);
    this.#take();
  }

  /** Everything of other clusters, in an order by chance. */
  lessons(chance: Chance): readonly (() => void)[] {
    const { pods, namespaces } = this.#world;
    const lessons = [
      ...[...pods.values()].map((it) => ({ it, bring: () => this.#resolver.upsertPod(it) })),
      ...[...namespaces.values()].map((it) => ({ it, bring: () => this.#resolver.upsertNamespace(it) })),
    ].filter(({ it }) => it.cluster !== "a");
    const said = ANONYMOUS.map((it) => () => this.#resolver.setAnonymous(formatAddress(it), [it]));
    return shuffled([...lessons.map((it) => it.bring), ...said], chance).map((bring) => () => {
      bring();
      this.#take();
    });
  }

  isAllowed(flow: Flow, way: Way): boolean {
    return this.#enforced.verdict(flow, way).isAllowed;
  }

  /** Whether a flow that is there lasts. */
  isKept({ flow, way }: Asked): boolean {
    const other = way === "egress" ? flow.destination : flow.source;
    const isUnidentified = this.#resolver.isRemote(other) && !this.#resolver.isIdentified(other);
    return (
      this.isAllowed(flow, way) ||
      (isUnidentified && this.#enforced.mayBeAllowed(flow, way, this.#world.cluster))
    );
  }

  #take(): void {
    const changes = this.#resolver.take();
    this.#enforced.apply(changes);
    for (const { key, state } of changes.sets) if (state === "new") answer(this.#enforced, this.#world, key);
  }
}

interface Asked {
  readonly flow: Flow;
  readonly way: Way;
  readonly isAllowed: boolean;
  readonly isRemote: boolean;
}

function* questions(world: World, chance: Chance): Generator<Asked, undefined> {
  const actors = actorsOf(world, [...EXTERNAL, ...ANONYMOUS]);
  const local = actors.filter((it) => isOwnPod(world, it));
  const isRemote = (it: Actor): boolean =>
    it.kind === "pod" ? it.pod.cluster !== "a" : ANONYMOUS.includes(it.address);
  const remote = actors.filter(isRemote);
  for (let count = local.length === 0 ? 0 : 60; count > 0; count--) {
    const subject = chance.one(local);
    const peer = chance.one(remote.length > 0 && chance.is(0.8) ? remote : actors);
    const way: Way = chance.is(0.5) ? "ingress" : "egress";
    if (typeof subject.address !== typeof peer.address || subject === peer) continue;
    const asked = { way, subject, peer, traffic: traffic(chance) };
    const [source, destination] = way === "egress" ? [subject, peer] : [peer, subject];
    const flow = { source: source.address, destination: destination.address, traffic: asked.traffic };
    yield { flow, way, isAllowed: isAllowed(world, asked), isRemote: isRemote(peer) };
  }
  return undefined;
}

function shown({ flow: { source, destination, traffic: of }, way }: Asked): string {
  return `${way} ${formatAddress(source)} ► ${formatAddress(destination)} ${JSON.stringify(of)}`;
}

it("addresses of other clusters that are not identified yet are allowed nothing that they are denied later, and lose no flow that is allowed later", () => {
  const counts = { held: 0, open: 0 };
  for (let seed = 0; seed < WORLDS; seed++) {
    const chance = new Chance(seed);
    const world = newWorld(chance, "flat");
    for (let more = 0; more < 6; more++) setPod(world, chance);
    const learner = new Learner(world, compiled(world, chance));
    const asked = [...questions(world, chance)];
    const check = (): void => {
      for (const it of asked) {
        const passes = learner.isAllowed(it.flow, it.way);
        if (passes && !it.isAllowed) expect.fail(`seed ${seed}: ${shown(it)} is allowed`);
        if (!it.isAllowed || !it.isRemote) continue;
        if (!learner.isKept(it)) expect.fail(`seed ${seed}: the flow ${shown(it)} is ended`);
        if (passes) counts.open++;
        else counts.held++;
      }
    };
    check();
    for (const learn of learner.lessons(chance)) {
      learn();
      check();
    }
    // Known pods are what the manifests say.
    expect(asked.filter((it) => learner.isAllowed(it.flow, it.way) !== it.isAllowed)).toEqual([]);
  }
  // What admits everybody admits those that are not known, too.
  expect(Math.min(counts.held, counts.open)).toBeGreaterThan(WORLDS);
});

it("many rules about many prefixes have one set of the addresses of other clusters", () => {
  const rules = 250;
  const networks = Array.from({ length: 250 }, (_, at) => ({
    cluster: `c${at}`,
    prefixes: [0, 1, 2, 3].map((it) => parsePrefix(`10.${at}.${2 * it}.0/24`)),
  }));
  const remote = new Remote("a", networks);
  const ingress = Array.from({ length: rules }, (_, at) => ({
    fromCIDRSet: [{ cidr: "0.0.0.0/0", except: [`10.${at}.255.0/24`] }],
    toPorts: [{ ports: [{ port: `${1000 + at}`, protocol: "TCP" as const }] }],
  }));
  const named = networks.slice(0, 20).map((it) => it.cluster);
  const ingressDeny = ["x", "y"].map((app) => ({
    fromEndpoints: [
      {
        matchLabels: { app },
        matchExpressions: [{ key: "io.cilium.k8s.policy.cluster", operator: "In" as const, values: named }],
      },
    ],
  }));
  const policy = {
    metadata: { namespace: "shop", name: "many" },
    spec: { endpointSelector: {}, ingress, ingressDeny },
  };
  const settings = { cluster: "a", isLocalByDefault: true, cidrMatchesPods: false, cidrMatchesNodes: false };
  const [own] = compilePolicy("CiliumNetworkPolicy", policy, settings, {
    cidrGroups: [],
    services: [],
  }).policies;
  if (own === undefined) throw new Error("no policy");
  const sizes = (it: CompiledPolicy): ReadonlyMap<string, number> =>
    new Map(
      needsOf(groupOf("g", "ingress", [it])).map((need) => [
        need.key,
        need.kind === "prefixes" ? need.prefixes.length : 0,
      ]),
    );
  const count = (all: ReadonlyMap<string, number>): number => all.values().reduce((sum, it) => sum + it, 0);
  const closed = sizes(closedToUnidentified(own, remote));
  expect(count(sizes(own))).toBeGreaterThan(rules);
  expect(count(closed)).toBe(count(sizes(own)) + remote.prefixes.length);
});
