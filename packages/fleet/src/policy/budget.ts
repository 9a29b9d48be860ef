import { byText } from "@fairlead/base/text.ts";
import type { Compilation, CompiledPolicy, Direction, PortMatch, Refusal, Rule, Way } from "./model.ts";

/**
 * Bounds on what policies cost a node, so that the author of one does not hold up those of others. Each author may be a tenant with one
 * namespace. What is over a bound is closed: it allows nothing, and what it denies or passes is denied as a whole. Pure.
 */

/** An upper bound of what the kernel gets. */
export interface Cost {
  /** Rules, and the sets that they refer to. */
  readonly rules: number;
  /** Elements of sets, without those of pods and nodes. */
  readonly elements: number;
}

/** 10,000 rules take nft less than a second; 500 exceptions of CIDRs of IPv6, the most of one policy, are 64,000 elements. */
export const MAX_OF_POLICY: Cost = { rules: 10_000, elements: 65_536 };
/** Policies of one namespace in all. */
export const MAX_OF_NAMESPACE: Cost = { rules: 20_000, elements: 131_072 };
/**
 * Rules of one namespace on one node: pods that other policies select have chains of their own, so that the rules of a policy are there as
 * often as there are such pods.
 */
export const MAX_RULES_ON_NODE = 65_536;

/** IPv4 and IPv6. */
const FAMILIES = 2;
/** From so many sets of addresses with one verdict on, a rule has one set with the addresses of all. Fewer cost less than the union. */
export const UNITED = 4;

const WAYS: readonly Way[] = ["ingress", "egress"];

export function costOf({ ingress, egress }: Pick<CompiledPolicy, Way>): Cost {
  return sum([ingress, egress].flatMap((it) => it?.rules.map(costOfRule) ?? []));
}

function costOfRule({ peers, ports }: Rule): Cost {
  const list = peers === "any" ? [] : peers;
  const cidrs = list.filter((it) => it.kind === "cidr");
  const addresses = list.length - cidrs.length;
  const matches = peers === "any" ? 1 : cidrs.length + Math.min(addresses, UNITED);
  const { words, names, ranges } = ports === "any" ? { words: 1, names: 0, ranges: 0 } : wordsOf(ports);
  // With the sets of peers and of names, one of all peers, one of all names, and those of the numbers of each protocol.
  const sets = list.length + names + 5;
  const prefixes = cidrs.reduce((all, it) => all + it.prefixes.length, 0);
  return { rules: FAMILIES * (matches * words + sets), elements: prefixes + ranges };
}

function wordsOf(ports: readonly PortMatch[]) {
  const [words, names] = [new Set<string>(), new Set<string>()];
  let ranges = 0;
  for (const it of ports) {
    if (it.kind === "range") {
      ranges++;
      words.add(it.protocol);
    } else if (it.kind === "named") {
      words.add("named");
      names.add(`${it.protocol} ${it.name}`);
    } else words.add(JSON.stringify(it));
  }
  return { words: words.size, names: names.size, ranges };
}

function sum(costs: readonly Cost[]): Cost {
  let [rules, elements] = [0, 0];
  for (const it of costs) {
    rules += it.rules;
    elements += it.elements;
  }
  return { rules, elements };
}

function isOver(cost: Cost, max: Cost): boolean {
  return cost.rules > max.rules || cost.elements > max.elements;
}

function text({ rules, elements }: Cost): string {
  return `${rules} rules and ${elements} elements of sets`;
}

/** An object that one policy may be, or its policies closed. */
export function withinPolicy(compilation: Compilation): Compilation {
  const cost = costOfAll(compilation.policies);
  if (!isOver(cost, MAX_OF_POLICY)) return compilation;
  return closedBy(
    compilation,
    `The policy takes ${text(cost)}, and ${text(MAX_OF_POLICY)} are the most for one policy. Write several policies, or larger CIDRs and ranges.`,
  );
}

export function costOfAll(policies: readonly CompiledPolicy[]): Cost {
  return sum(policies.map(costOf));
}

/** A policy of a namespace, with the time at which it was created. */
export interface Priced {
  readonly compilation: Compilation;
  readonly cost: Cost;
  readonly createdAt: string;
}

/** Those that exceed, with the policies before them, what one namespace may have; older ones come first. */
export function beyondNamespace<T extends Priced>(policies: readonly T[]): ReadonlySet<T | undefined> {
  const beyond = new Set<T | undefined>();
  if (!isOver(sum(policies.map((it) => it.cost)), MAX_OF_NAMESPACE)) return beyond;
  const name = ({ compilation: { id } }: Priced): string => `${id.kind}/${id.name}`;
  let spent: Cost = { rules: 0, elements: 0 };
  for (const it of policies.toSorted(
    (a, b) => byText(a.createdAt, b.createdAt) || byText(name(a), name(b)),
  )) {
    const after = sum([spent, it.cost]);
    if (isOver(after, MAX_OF_NAMESPACE)) beyond.add(it);
    else spent = after;
  }
  return beyond;
}

/** What becomes of these policies of a cluster, as its nodes have it. */
export function withinNamespaces(policies: readonly Priced[]): readonly Compilation[] {
  const byNamespace = Map.groupBy(policies, (it) => it.compilation.id.namespace);
  const beyond = new Set(
    [...byNamespace].flatMap(([namespace, all]) =>
      namespace === undefined ? [] : [...beyondNamespace(all)],
    ),
  );
  return policies.map((it) => (beyond.has(it) ? closedByNamespace(it.compilation) : it.compilation));
}

export function closedByNamespace(compilation: Compilation): Compilation {
  return closedBy(
    compilation,
    `The policies of the namespace take more than ${text(MAX_OF_NAMESPACE)}, and this one is not among the oldest that fit. Delete some, or make them smaller.`,
  );
}

function closedBy(compilation: Compilation, reason: string): Compilation {
  const refusal: Refusal = { field: "spec", reason, effect: "pods closed" };
  return {
    ...compilation,
    policies: compilation.policies.map(closed),
    refusals: [refusal, ...compilation.refusals],
  };
}

function closed(policy: CompiledPolicy): CompiledPolicy {
  const ways = WAYS.flatMap((way) => {
    const direction = policy[way];
    return direction === undefined ? [] : [[way, closedDirection(direction)] as const];
  });
  return { ...policy, ...Object.fromEntries(ways) };
}

function closedDirection({ isDefaultDeny, rules }: Direction): Direction {
  const denying = rules.find((it) => it.action !== "allow");
  if (denying === undefined) return { isDefaultDeny, rules: [] };
  return { isDefaultDeny, rules: [{ action: "deny", peers: "any", ports: "any", origin: denying.origin }] };
}
