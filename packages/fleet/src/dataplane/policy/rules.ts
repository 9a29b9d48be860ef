import { UNITED } from "#policy/budget.ts";
import type { Way } from "#policy/model.ts";
import { type AddressMatch, matchOf, type SetKey } from "#policy/peers.ts";
import type { Group, GroupRule, GroupTier } from "#policy/state.ts";
import type { NftChain } from "@fairlead/os/nft/state.ts";
import { chainRef, fragment, type NftRule, type NftWord, rule, setRef } from "@fairlead/os/nft/rule.ts";
import { denyChain, FAMILIES, type Family, groupChain, kindOfSet, peerSet, tierChain } from "./names.ts";
import { type PortWord, portWords, type RuleSets } from "./ports.ts";

export interface RenderedGroup {
  readonly chains: ReadonlyMap<string, NftChain>;
  readonly sets: RuleSets;
}

/**
 * The chains of a group, one for each tier. `return` means that the packet may pass in this direction; the other direction is looked at
 * then. Pure.
 */
export function renderGroup({ way, key, tiers }: Group): RenderedGroup {
  const nameOf = (at: number): string | undefined => {
    const tier = tiers[at];
    if (tier === undefined) return undefined;
    return at === 0 ? groupChain(way, key) : tierChain(way, key, tier.tier);
  };
  const chains = new Map<string, NftChain>([[groupChain(way, key), { rules: [] }]]);
  const sets: RuleSets = { unions: new Map(), numbers: new Map() };
  for (const [at, tier] of tiers.entries()) {
    const next = nameOf(at + 1);
    const onward = next === undefined ? RETURN : fragment`goto ${chainRef(next)}`;
    const deny = fragment`goto ${chainRef(denyChain(way))}`;
    const verdicts = { allow: RETURN, deny, pass: onward } as const;
    const rules = termsOf(tier).flatMap((it) =>
      renderTerm(united(it, sets.unions), { way, verdict: verdicts[it.action], sets }),
    );
    const last = tier.isDefaultDeny ? deny : onward;
    chains.set(nameOf(at) ?? "", { rules: last === RETURN ? rules : [...rules, rule`${last}`] });
  }
  return { chains, sets };
}

const RETURN = fragment`return`;

function termsOf({ tier, rules }: GroupTier): readonly Term[] {
  // In this tier only denies come before allows, so that those of equal ports can be one.
  const known = rules.filter((it) => it.dns === undefined || it.dns.includes("*"));
  return tier === "network-policy" ? merged(known) : known.map(termOf);
}

/** With one set in place of many. @param unions - Gets it. */
function united(term: Term, unions: Map<SetKey, readonly SetKey[]>): Term {
  const members = new Set(
    term.matches.flatMap((it) =>
      it.set !== undefined && isOfSetAlone(it) && kindOfSet(it.set) === "addresses" ? [it.set] : [],
    ),
  );
  if (members.size < UNITED) return term;
  const sorted = [...members].toSorted();
  const key = `union:${JSON.stringify(sorted)}`;
  unions.set(key, sorted);
  const others = term.matches.filter((it) => !isOfSetAlone(it) || !members.has(it.set ?? ""));
  return { ...term, matches: [{ set: key }, ...others] };
}

function isOfSetAlone({ within, unless, beyond }: AddressMatch): boolean {
  return within === undefined && unless === undefined && beyond === undefined;
}

/** A rule by how its peers are matched. An empty list matches nothing. */
interface Term {
  readonly action: GroupRule["action"];
  readonly matches: readonly AddressMatch[];
  readonly ports: GroupRule["ports"];
}

const ANY: AddressMatch = {};

function termOf({ action, peers, ports }: GroupRule): Term {
  return { action, matches: peers === "any" ? [ANY] : peers.map((it) => matchOf(it)), ports };
}

function merged(rules: readonly GroupRule[]): readonly Term[] {
  const terms = new Map<string, Term & { readonly matches: AddressMatch[] }>();
  for (const it of rules.map(termOf)) {
    const id = `${it.action} ${JSON.stringify(it.ports)}`;
    const known = terms.get(id);
    if (known === undefined) terms.set(id, { ...it, matches: [...it.matches] });
    else for (const match of it.matches) known.matches.push(match);
  }
  const all = [...terms.values()].map((it) => ({ ...it, matches: distinct(it.matches) }));
  return [...all.filter((it) => it.action === "deny"), ...all.filter((it) => it.action !== "deny")];
}

function idOf({ set = "", within = "", unless = "", beyond = "" }: AddressMatch): string {
  return `${set} ${within} ${unless} ${beyond}`;
}

function distinct(matches: readonly AddressMatch[]): readonly AddressMatch[] {
  const byId = new Map(matches.map((it) => [idOf(it), it]));
  const any = byId.get(idOf(ANY));
  return any === undefined ? [...byId.values()] : [any];
}

interface TermOptions {
  readonly way: Way;
  readonly verdict: NftWord;
  /** Gets those that the rules refer to. */
  readonly sets: RuleSets;
}

function renderTerm({ matches, ports }: Term, { way, verdict, sets }: TermOptions): readonly NftRule[] {
  const words = ports === "any" ? [EACH_PORT] : portWords(ports, sets);
  return matches
    .flatMap((match) =>
      words.flatMap((it) =>
        familiesOf(match, it).map((family) => {
          const parts = [...addressWords(match, way, family), ...it.words(family), verdict];
          return parts.slice(1).reduce((all, part) => fragment`${all} ${part}`, parts[0] ?? verdict);
        }),
      ),
    )
    .map((it) => rule`${it}`);
}

const EACH_PORT: PortWord = { family: undefined, isByFamily: false, words: () => [] };

/** IPv4 alone where the rule is the same for both. */
function familiesOf(match: AddressMatch, { family, isByFamily }: PortWord): readonly Family[] {
  const hasAddress = match.set !== undefined || match.unless !== undefined;
  if (family !== undefined) return FAMILIES.filter((it) => it.name === family);
  return hasAddress || isByFamily ? FAMILIES : FAMILIES.slice(0, 1);
}

function addressWords(
  { set, within, unless, beyond }: AddressMatch,
  way: Way,
  family: Family,
): readonly NftWord[] {
  const field = FIELDS[family.name][way];
  return [
    ...(set === undefined ? [] : [fragment`${field} ${setRef(peerSet(set, family))}`]),
    ...(within === undefined ? [] : [fragment`${field} ${setRef(peerSet(within, family))}`]),
    ...[unless, beyond].flatMap((it) =>
      it === undefined ? [] : [fragment`${field} != ${setRef(peerSet(it, family))}`],
    ),
  ];
}

/** Where the address of the other end is. */
const FIELDS = {
  IPv4: { ingress: fragment`ip saddr`, egress: fragment`ip daddr` },
  IPv6: { ingress: fragment`ip6 saddr`, egress: fragment`ip6 daddr` },
} as const;
