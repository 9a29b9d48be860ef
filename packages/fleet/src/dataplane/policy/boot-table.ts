import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, parsePrefix, type Prefix } from "@fairlead/base/netaddr/prefix.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { renderScript } from "@fairlead/os/nft/render.ts";
import type { NftChain, NftSet, NftTable } from "@fairlead/os/nft/state.ts";
import { FAMILIES, type Family, type OwnSet, OWN_SETS, ownSet, POLICY_TABLE } from "./names.ts";

/**
 * The table that a node begins with after a boot: the last one, in which no local pod is known. A boot ends all pods, and addresses that they had
 * go to others, so that each packet from or to a local pod is dropped until the agent knows whose address it is. Policies of the node itself are in
 * place. Pure.
 */
export function bootTable(whole: NftTable): NftTable {
  const reached = new Set<string>();
  const due = [...whole.chains].filter(([, { hook }]) => hook !== undefined).map(([name]) => name);
  for (let name = due.pop(); name !== undefined; name = due.pop()) {
    if (reached.has(name)) continue;
    reached.add(name);
    due.push(...textsOf(whole.chains.get(name)).flatMap((it) => named(it, CHAINS)));
  }
  const chains = new Map([...whole.chains].filter(([name]) => reached.has(name)));
  const used = new Set(chains.values().flatMap((it) => textsOf(it).flatMap((text) => named(text, SETS))));
  const sets = new Map([...whole.sets].filter(([name]) => used.has(name) || OWN.has(name)));
  for (const family of FAMILIES) {
    const node = nodeSet(whole, family);
    for (const kind of OWN_SETS) {
      const set = sets.get(ownSet(kind, family));
      const elements = kind === "node" ? node : NOTHING;
      if (set !== undefined) sets.set(ownSet(kind, family), { ...set, elements });
    }
  }
  return { chains, sets };
}

/** What `nft --file` loads. It fails where there is a table of policies already, and changes nothing then. */
export function renderBootTable(whole: NftTable): string {
  return renderScript(POLICY_TABLE, diffTable(undefined, bootTable(whole)));
}

/** Sets of addresses of local pods lead to chains that are not kept. */
const NOTHING: NftSet["elements"] = new Map();

/** Prefixes of the node's pods, and the addresses outside of these that its pods had: network plugins may have prefixes of their own. */
function nodeSet(whole: NftTable, family: Family): NftSet["elements"] {
  const of = (kind: OwnSet): NftSet["elements"] => whole.sets.get(ownSet(kind, family))?.elements ?? NOTHING;
  const prefixes: Prefix[] = [...of("node").keys()].map((it) => parsePrefix(withLength(it, family)));
  const outside = [...of("known").keys()].filter(
    (it) => !prefixes.some((prefix) => containsAddress(prefix, parseAddress(it))),
  );
  return new Map([...of("node"), ...outside.map((it) => [it, ""] as const)]);
}

/** An interval of one address is written without its length. */
function withLength(interval: string, { name }: Family): string {
  return interval.includes("/") ? interval : `${interval}/${name === "IPv4" ? 32 : 128}`;
}

const OWN: ReadonlySet<string> = new Set(
  OWN_SETS.flatMap((it) => FAMILIES.map((family) => ownSet(it, family))),
);

const CHAINS = /\b(?:jump|goto) ([A-Za-z][A-Za-z0-9_-]*)/g;
const SETS = /@([A-Za-z][A-Za-z0-9_-]*)/g;

function textsOf(chain: NftChain | undefined): readonly string[] {
  return (chain?.rules ?? []).map(({ text = "" }) => text);
}

function named(rule: string, pattern: RegExp): readonly string[] {
  return [...rule.matchAll(pattern)].flatMap(([, name]) => name ?? []);
}
