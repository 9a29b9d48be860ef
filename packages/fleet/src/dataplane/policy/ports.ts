import type { PortMatch, Transport } from "#policy/model.ts";
import { fragment, type NftWord, numberSet, setRef } from "@fairlead/os/nft/rule.ts";
import { type Family, peerSet } from "./names.ts";

/** What a packet's protocol and port are matched by. */
export interface PortWord {
  /** Of the packets that it can match. Undefined: of either family. */
  readonly family: Family["name"] | undefined;
  /** Whether the words differ between the families. */
  readonly isByFamily: boolean;
  /** None: each port of each protocol. */
  readonly words: (family: Family) => readonly NftWord[];
}

function either(word: NftWord): PortWord {
  return { family: undefined, isByFamily: false, words: () => [word] };
}

const WORDS: Readonly<Record<Transport, NftWord>> = {
  TCP: fragment`meta l4proto tcp`,
  UDP: fragment`meta l4proto udp`,
  SCTP: fragment`meta l4proto sctp`,
};

/** One word for the numbers of each protocol, and one for each name, type and other protocol. */
export function portWords(ports: readonly PortMatch[]): readonly PortWord[] {
  const ranges = new Map<Transport, (readonly [number, number])[]>();
  const others: PortWord[] = [];
  for (const it of ports) {
    if (it.kind !== "range") others.push(otherWord(it));
    else ranges.set(it.protocol, [...(ranges.get(it.protocol) ?? []), [it.first, it.last]]);
  }
  const numbers = [...ranges].map(([protocol, list]): PortWord => {
    const merged = mergeRanges(list);
    const [first] = merged;
    const isAll = first?.[0] === 0 && first[1] === 65_535;
    const word = isAll ? WORDS[protocol] : fragment`${WORDS[protocol]} th dport ${numberSet(merged)}`;
    return either(word);
  });
  return [...numbers, ...others];
}

function otherWord(it: Exclude<PortMatch, { readonly kind: "range" }>): PortWord {
  switch (it.kind) {
    case "protocol":
      return either(fragment`meta l4proto ${it.number}`);
    case "icmp": {
      const word = it.family === "IPv4" ? fragment`icmp type ${it.type}` : fragment`icmpv6 type ${it.type}`;
      return { family: it.family, isByFamily: false, words: () => [word] };
    }
    case "named":
      return { family: undefined, isByFamily: true, words: (family) => [namedWord(it, family)] };
    default:
      return it satisfies never;
  }
}

function namedWord(
  { protocol, name }: Extract<PortMatch, { readonly kind: "named" }>,
  family: Family,
): NftWord {
  const set = setRef(peerSet(`port:${protocol}:${name}`, family));
  return family.name === "IPv4"
    ? fragment`${WORDS[protocol]} ip daddr . th dport ${set}`
    : fragment`${WORDS[protocol]} ip6 daddr . th dport ${set}`;
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
