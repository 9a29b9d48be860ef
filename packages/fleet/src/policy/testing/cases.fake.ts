import { Enforced, type Flow } from "../enforced.ts";
import { compilePolicy, POLICY_KINDS, type PolicyKind } from "../compile/compile.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { doesFqdnMatch } from "../fqdn.ts";
import { ciliumPolicy } from "./generate-cilium.fake.ts";
import { clusterPolicy } from "./generate-cluster.fake.ts";
import type { CompiledPolicy, Way } from "../model.ts";
import { FQDN, patternOf } from "../peers.ts";
import type { Changes } from "../state.ts";
import { Resolver } from "../resolver/resolver.ts";
import { Chance } from "./chance.fake.ts";
import {
  EXTERNAL,
  NAMESPACES,
  newWorld,
  networkPolicy,
  setNamespace,
  setNode,
  setPod,
  traffic,
} from "./generate.fake.ts";
import { isAllowed } from "./oracle.fake.ts";
import type { Question } from "./oracle-words.fake.ts";
import { type Actor, actorsOf, isOwnNode, isOwnPod, type World } from "./world.fake.ts";

/** Generated cases: a world that changes step by step, and after each step questions whose answers have to be those of the oracle. */

export interface Disagreement {
  readonly seed: number;
  readonly step: number;
  readonly what: string;
}

export interface CaseOptions {
  readonly steps: number;
  /** Of each policy that a case has. */
  readonly seen?: (policy: KubeObject, kind: PolicyKind) => void;
  /** Counts of the answers. */
  readonly answers?: { allowed: number; denied: number };
}

/** Runs a case; undefined if everything agrees. */
export function runCase(seed: number, options: CaseOptions): Disagreement | undefined {
  const chance = new Chance(seed);
  const run = new Run(newWorld(chance, networkOf(seed)), chance, options);
  for (let step = 0; step < options.steps; step++) {
    run.churn(chance);
    const what = run.check(chance);
    if (what !== undefined) return { seed, step, what };
  }
  return undefined;
}

/** A step of a case: what the resolver reported, and the evaluator of flows. */
export interface CaseStep {
  readonly changes: Changes;
  readonly world: World;
  readonly enforced: Enforced;
  readonly chance: Chance;
}

/** The steps of a case, for those who enforce them by other means. */
export function* stepsOf(seed: number, steps: number): Generator<CaseStep> {
  const chance = new Chance(seed);
  const run = new Run(newWorld(chance, networkOf(seed)), chance, { steps });
  for (let step = 0; step < steps; step++)
    yield { changes: run.churn(chance), world: run.world, enforced: run.enforced, chance };
}

/** Every other case is of a parallel network. */
function networkOf(seed: number): World["network"] {
  return seed % 2 === 0 ? "flat" : "parallel";
}

class Run {
  readonly world: World;
  readonly #resolver: Resolver;
  readonly #enforced: Enforced;
  readonly #options: CaseOptions;
  readonly #compiled = new Map<string, readonly CompiledPolicy[]>();

  constructor(world: World, chance: Chance, options: CaseOptions) {
    this.world = world;
    this.#options = options;
    const own = world.nodes.get(`${world.cluster}/${world.node}`);
    this.#enforced = new Enforced(own?.addresses);
    this.#resolver = filled(world);
    for (let index = 0; index < 3; index++) this.#addPolicy(chance, index);
  }

  get enforced(): Enforced {
    return this.#enforced;
  }

  churn(chance: Chance): Changes {
    for (let count = 1 + chance.int(3); count > 0; count--) this.#change(chance);
    const changes = this.#resolver.take();
    this.#enforced.apply(changes);
    for (const { key, state } of changes.sets) if (state === "new") answer(this.#enforced, this.world, key);
    return changes;
  }

  check(chance: Chance): string | undefined {
    return this.#compareWithFresh(chance) ?? this.#compareWithOracle(chance);
  }

  #change(chance: Chance): void {
    const { world } = this;
    switch (chance.int(11)) {
      case 6:
        this.#deletePolicy(chance);
        return;
      case 0:
      case 1:
        this.#resolver.upsertPod(setPod(world, chance));
        return;
      case 2: {
        const [key, pod] = chance.one([...world.pods]);
        if (world.pods.size < 4) return;
        world.pods.delete(key);
        this.#resolver.deletePod(pod.cluster, pod.namespace, pod.name);
        return;
      }
      case 3: {
        const cluster = chance.one(["a", "b", "c"]);
        const name = chance.one(NAMESPACES);
        setNamespace(world, chance, cluster, name);
        const made = world.namespaces.get(`${cluster}/${name}`);
        if (made !== undefined) this.#resolver.upsertNamespace(made);
        return;
      }
      case 4: {
        const [key, { cluster, name }] = chance.one([...world.namespaces]);
        if (world.namespaces.size < 7) return;
        world.namespaces.delete(key);
        this.#resolver.deleteNamespace(cluster, name);
        return;
      }
      case 5:
        this.#resolver.upsertNode(
          setNode(world, chance, chance.one(["a", "b", "c"]), chance.one(["n0", "n1", "n2"])),
        );
        return;
      default:
        this.#addPolicy(chance, chance.int(4));
    }
  }

  #addPolicy(chance: Chance, number: number): void {
    const name = `policy-${number}`;
    const { world } = this;
    const kind = chance.one(POLICY_KINDS);
    if (kind === "NetworkPolicy") this.#use(kind, networkPolicy(chance, name), world.networkPolicies);
    else if (kind === "ClusterNetworkPolicy")
      this.#use(kind, clusterPolicy(chance, name, number), world.clusterPolicies);
    else this.#use(kind, ciliumPolicy(chance, name, kind === "CiliumNetworkPolicy"), world.ciliumPolicies);
  }

  #use<T extends KubeObject>(kind: PolicyKind, policy: T, policies: Map<string, T>): void {
    const key = `${kind}/${policy.metadata.namespace}/${policy.metadata.name}`;
    this.#options.seen?.(policy, kind);
    policies.set(key, policy);
    const { policies: compiled, refusals } = compilePolicy(kind, policy, this.world, this.world);
    const refused = refusals.find((it) => it.effect !== "part ignored");
    if (refused !== undefined)
      throw new TypeError(`${refused.field}: ${refused.reason} ${JSON.stringify(policy)}`);
    for (const it of this.#compiled.get(key) ?? [])
      if (!compiled.some((other) => other.key === it.key)) this.#resolver.deletePolicy(it.key);
    this.#compiled.set(key, compiled);
    for (const it of compiled) this.#resolver.upsertPolicy(it);
  }

  #deletePolicy(chance: Chance): void {
    const { networkPolicies, ciliumPolicies, clusterPolicies } = this.world;
    const keys = [...this.#compiled.keys()];
    if (keys.length < 3) return;
    const key = chance.one(keys);
    for (const policies of [networkPolicies, ciliumPolicies, clusterPolicies]) policies.delete(key);
    for (const it of this.#compiled.get(key) ?? []) this.#resolver.deletePolicy(it.key);
    this.#compiled.delete(key);
  }

  /** The same world at once has to be enforced as it is step by step. */
  #compareWithFresh(chance: Chance): string | undefined {
    if (!chance.is(0.3)) return undefined;
    const fresh = filled(this.world);
    for (const it of [...this.#compiled.values()].flat()) fresh.upsertPolicy(it);
    const other = new Enforced();
    const changes = fresh.take();
    other.apply(changes);
    for (const { key } of changes.sets) answer(other, this.world, key);
    const [is, expected] = [this.#enforced.dump(), other.dump()].map((it) => stringified(it));
    return is === expected ? undefined : `step by step: ${is}\nat once: ${expected}`;
  }

  #compareWithOracle(chance: Chance): string | undefined {
    const { world } = this;
    const actors = actorsOf(world, EXTERNAL);
    const local = actors.filter((it) => isLocal(world, it));
    for (let count = local.length === 0 ? 0 : 40; count > 0; count--) {
      const subject = chance.one(local);
      const peer = chance.one(actors);
      const way: Way = chance.is(0.5) ? "ingress" : "egress";
      const question: Question = { way, subject, peer, traffic: traffic(chance) };
      if (typeof subject.address !== typeof peer.address || subject === peer) continue;
      const [source, destination] = way === "egress" ? [subject, peer] : [peer, subject];
      const flow: Flow = {
        source: source.address,
        destination: destination.address,
        traffic: question.traffic,
      };
      const verdict = this.#enforced.verdict(flow, way);
      const expected = isAllowed(world, question);
      if (this.#options.answers) this.#options.answers[expected ? "allowed" : "denied"]++;
      if (verdict.isAllowed === expected) continue;
      const { networkPolicies, ciliumPolicies, clusterPolicies } = world;
      const policies = [networkPolicies, ciliumPolicies, clusterPolicies].flatMap((it) => [...it.values()]);
      return stringified({ question, expected, verdict, isLocal: world.isLocalByDefault, policies });
    }
    return undefined;
  }
}

/** As a DNS proxy fills the sets of names. */
export function answer(enforced: Enforced, world: World, key: string): void {
  if (!key.startsWith(FQDN)) return;
  for (const [name, addresses] of world.names)
    if (doesFqdnMatch(name, patternOf(key.slice(FQDN.length)))) enforced.resolved(key, addresses);
}

function isLocal(world: World, actor: Actor): boolean {
  return actor.kind === "node" ? isOwnNode(world, actor.node) : isOwnPod(world, actor);
}

/** What knows a world without its policies. */
export function filled(world: World): Resolver {
  const resolver = new Resolver(world);
  for (const it of world.pods.values()) resolver.upsertPod(it);
  for (const it of world.namespaces.values()) resolver.upsertNamespace(it);
  for (const it of world.nodes.values()) resolver.upsertNode(it);
  resolver.setApiServers(world.apiServers);
  return resolver;
}

function stringified(value: unknown): string {
  return JSON.stringify(value, (_, it: unknown) => (typeof it === "bigint" ? it.toString(16) : it));
}
