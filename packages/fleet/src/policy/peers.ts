import { createHash } from "node:crypto";
import { aggregated } from "@fairlead/base/netaddr/aggregate.ts";
import { formatPrefix, parsePrefix, type Prefix } from "@fairlead/base/netaddr/prefix.ts";
import type {
  CidrPeer,
  Entity,
  EntityPeer,
  FqdnPattern,
  FqdnPeer,
  NodesPeer,
  Peer,
  PodsPeer,
  PrefixSet,
  UnidentifiedPeer,
} from "./model.ts";
import type { Selector } from "./selector.ts";

/** Peers with their keys, and the sets of addresses by which the kernel matches them. */

export function podsPeer(selector: Selector): PodsPeer {
  return { kind: "pods", key: `pods:${selector.key}`, selector };
}

export function nodesPeer(selector: Selector, areRemote: boolean): NodesPeer {
  return {
    kind: "nodes",
    key: `${areRemote ? "remote-nodes" : "nodes"}:${selector.key}`,
    areRemote,
    selector,
  };
}

export function entityPeer(entity: Entity): EntityPeer {
  return { kind: "entity", key: `entity:${entity}`, entity };
}

export function fqdnPeer(pattern: FqdnPattern): FqdnPeer {
  return { kind: "fqdn", key: `${FQDN}${pattern}`, pattern };
}

/**
 * A set of addresses that answers for a pattern fill: the key of its peer without `fqdn:`. In groups it is `<group>/<pattern>`. What a pod has
 * learned counts for pods that the same policies select, which could have asked the same server for the same name, and for no others.
 */
export type FqdnSet = string;

export const FQDN = "fqdn:";

export function ofGroup(peer: FqdnPeer, group: string): FqdnPeer {
  return { ...peer, key: `${FQDN}${group}/${peer.pattern}` };
}

/** No pattern has a slash. */
export function patternOf(set: FqdnSet): FqdnPattern {
  return set.slice(set.indexOf("/") + 1);
}

/** @param prefixes - Sorted, without overlaps. */
export function prefixSet(prefixes: readonly Prefix[]): PrefixSet {
  return { key: cidrKey(prefixes), prefixes };
}

export function unidentifiedPeer({ key: set, prefixes }: PrefixSet): UnidentifiedPeer {
  return { kind: "unidentified", key: `unidentified:${set}`, set, prefixes };
}

export type CidrMode = Omit<CidrPeer, "kind" | "key" | "prefixes">;

export function cidrPeer(prefixes: readonly Prefix[], mode: CidrMode): CidrPeer {
  const sorted = aggregated(prefixes);
  const unless = exclusionOf(mode);
  const key = `${cidrKey(sorted)}${unless === undefined ? "" : `-${unless}`}${mode.within === undefined ? "" : `-${mode.within}`}${mode.beyond === undefined ? "" : `-${mode.beyond.key}`}`;
  return { kind: "cidr", key, prefixes: sorted, ...mode };
}

/** The peers of one rule, each once, with all CIDRs that are matched alike as one, so that the kernel has one set of them. */
export function unitedPeers(peers: readonly Peer[]): readonly Peer[] {
  const cidrs = new Map<string, CidrPeer[]>();
  const others = new Map<string, Peer>();
  for (const it of peers) {
    if (it.kind !== "cidr") others.set(it.key, it);
    else {
      const mode = `${exclusionOf(it)} ${it.within} ${it.beyond?.key}`;
      const alike = cidrs.get(mode);
      if (alike === undefined) cidrs.set(mode, [it]);
      else alike.push(it);
    }
  }
  const united = [...cidrs.values()].flatMap((alike) => {
    const [first, ...more] = alike;
    if (first === undefined || more.length === 0) return alike;
    const { kind: _kind, key: _key, prefixes: _prefixes, ...mode } = first;
    const prefixes = alike.flatMap((it) => it.prefixes);
    return [cidrPeer(prefixes, mode)];
  });
  return [...others.values(), ...united];
}

/** Longer ones are hashed: one CIDR with exceptions can be thousands of prefixes. Unit: characters. */
const MAX_KEY = 200;

function cidrKey(prefixes: readonly Prefix[]): string {
  const text = prefixes.map(formatPrefix).join(",");
  return `cidr:${text.length <= MAX_KEY ? text : createHash("sha256").update(text).digest("hex")}`;
}

/** Names a set of addresses. Sets whose key begins with `pods:` and `nodes:` have the addresses of those a selector selects. */
export type SetKey = string;

/** The addresses of all known pods, of all known nodes, and both. */
export const KNOWN_PODS: SetKey = "known:pods";
export const KNOWN_NODES: SetKey = "known:nodes";
export const KNOWN: SetKey = "known:all";
/** Addresses of other clusters that no selector of pods selects, as these say. Not those of known pods and nodes. */
export const ANONYMOUS: SetKey = "known:anonymous";
/** `KNOWN` and `ANONYMOUS`, without pods of namespaces whose labels are not known: selectors do not see these yet. */
export const IDENTIFIED: SetKey = "known:identified";

/** An address matches if it is in `set` and in `within` (absent: always), and neither in `unless` nor in `beyond`. */
export interface AddressMatch {
  readonly set?: SetKey;
  readonly within?: SetKey;
  readonly unless?: SetKey;
  readonly beyond?: SetKey;
}

export function matchOf(peer: Peer): AddressMatch {
  switch (peer.kind) {
    case "pods":
    case "nodes":
      return { set: peer.key };
    case "fqdn":
      return { set: peer.key, unless: KNOWN };
    case "cidr": {
      const set = cidrKey(peer.prefixes);
      if (peer.within === "anonymous") return { set, within: ANONYMOUS };
      const unless = exclusionOf(peer);
      const within = peer.matchesPods ? KNOWN_PODS : KNOWN_NODES;
      return {
        set,
        ...(peer.within === "known" ? { within } : {}),
        ...(unless === undefined ? {} : { unless }),
        ...(peer.beyond === undefined ? {} : { beyond: peer.beyond.key }),
      };
    }
    case "unidentified":
      return { set: peer.set, unless: IDENTIFIED };
    case "entity":
      return entityMatch(peer.entity);
    default:
      return peer satisfies never;
  }
}

function exclusionOf({ matchesPods, matchesNodes }: CidrMode): SetKey | undefined {
  if (matchesPods) return matchesNodes ? undefined : KNOWN_NODES;
  return matchesNodes ? KNOWN_PODS : KNOWN;
}

export const ALL_IPV4: Prefix = parsePrefix("0.0.0.0/0");
export const ALL_IPV6: Prefix = parsePrefix("::/0");

function entityMatch(entity: Entity): AddressMatch {
  switch (entity) {
    case "world":
      return { unless: KNOWN };
    case "world-ipv4":
      return { set: cidrKey([ALL_IPV4]), unless: KNOWN };
    case "world-ipv6":
      return { set: cidrKey([ALL_IPV6]), unless: KNOWN };
    default:
      return { set: `entity:${entity}` };
  }
}
