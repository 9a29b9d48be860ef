import type { PortMatch, Transport } from "#policy/model.ts";
import type { SetKey } from "#policy/peers.ts";
import { namedPortSet } from "#policy/resolver/group.ts";
import { fragment, type NftWord, numberSet, setRef } from "@fairlead/os/nft/rule.ts";
import { type Family, numbersSet, peerSet } from "./names.ts";

/** What a packet's protocol and port are matched by. */
export interface PortWord {
  /** Of the packets that it can match. Undefined: of either family. */
  readonly family: Family["name"] | undefined;
  /** Whether the words differ between the families. */
  readonly isByFamily: boolean;
  /** None: each port of each protocol. */
  readonly words: (family: Family) => readonly NftWord[];
}

/** The sets that rules refer to besides those of the resolver. */
export interface RuleSets {
  /** Those that have the elements of others, with these. */
  readonly unions: Map<SetKey, readonly SetKey[]>;
  /** Those of ranges of ports, with their elements. */
  readonly numbers: Map<string, readonly string[]>;
}

function either(word: NftWord): PortWord {
  return { family: undefined, isByFamily: false, words: () => [word] };
}

const WORDS: Readonly<Record<Transport, NftWord>> = {
  TCP: fragment`meta l4proto tcp`,
  UDP: fragment`meta l4proto udp`,
  SCTP: fragment`meta l4proto sctp`,
};

/** More ranges than these are a set of their own: each rule for the same ports would repeat them. */
export const MAX_INLINE = 16;

/**
 * One word for the numbers of each protocol, one for all names, and one for each type and other protocol.
 *
 * @param sets - Gets those that the words refer to.
 */
export function portWords(ports: readonly PortMatch[], sets: RuleSets): readonly PortWord[] {
  const ranges = new Map<Transport, (readonly [number, number])[]>();
  const names = new Set<SetKey>();
  const others = new Map<string, PortWord>();
  for (const it of ports) {
    if (it.kind === "range") {
      const list = ranges.get(it.protocol);
      if (list === undefined) ranges.set(it.protocol, [[it.first, it.last]]);
      else list.push([it.first, it.last]);
    } else if (it.kind === "named") names.add(namedPortSet(it));
    else others.set(JSON.stringify(it), otherWord(it));
  }
  const numbers = [...ranges].map(([protocol, list]) => either(numbersWord(protocol, list, sets)));
  return [...numbers, ...(names.size === 0 ? [] : [namesWord(names, sets)]), ...others.values()];
}

function numbersWord(
  protocol: Transport,
  list: readonly (readonly [number, number])[],
  sets: RuleSets,
): NftWord {
  const merged = mergeRanges(list);
  const [first] = merged;
  if (first?.[0] === 0 && first[1] === 65_535) return WORDS[protocol];
  if (merged.length <= MAX_INLINE) return fragment`${WORDS[protocol]} th dport ${numberSet(merged)}`;
  const elements = merged.map((it) => (it[0] === it[1] ? `${it[0]}` : `${it[0]}-${it[1]}`));
  const name = numbersSet(elements);
  sets.numbers.set(name, elements);
  return fragment`${WORDS[protocol]} th dport ${setRef(name)}`;
}

function otherWord(it: Extract<PortMatch, { readonly kind: "protocol" | "icmp" }>): PortWord {
  if (it.kind === "protocol") return either(fragment`meta l4proto ${it.number}`);
  const word = it.family === "IPv4" ? fragment`icmp type ${it.type}` : fragment`icmpv6 type ${it.type}`;
  return { family: it.family, isByFamily: false, words: () => [word] };
}

/** The number of a name may differ from pod to pod. */
function namesWord(names: ReadonlySet<SetKey>, sets: RuleSets): PortWord {
  const sorted = [...names].toSorted();
  const [only = ""] = sorted;
  const key = sorted.length === 1 ? only : `port:${JSON.stringify(sorted)}`;
  if (sorted.length > 1) sets.unions.set(key, sorted);
  return {
    family: undefined,
    isByFamily: true,
    words: (family) => {
      const set = setRef(peerSet(key, family));
      return [
        family.name === "IPv4"
          ? fragment`ip daddr . meta l4proto . th dport ${set}`
          : fragment`ip6 daddr . meta l4proto . th dport ${set}`,
      ];
    },
  };
}

/** Sorted, without overlaps: nftables refuses ranges that overlap. */
export function mergeRanges(
  ranges: readonly (readonly [number, number])[],
): readonly (readonly [first: number, last: number])[] {
  const merged: [number, number][] = [];
  for (const [first, last] of ranges.toSorted((a, b) => a[0] - b[0] || a[1] - b[1])) {
    const before = merged.at(-1);
    if (before !== undefined && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else merged.push([first, last]);
  }
  return merged;
}
