import { createHash } from "node:crypto";
import type { Prefix } from "@fairlead/base/netaddr/prefix.ts";
import {
  type CompiledPolicy,
  type Entity,
  type Peer,
  type PortMatch,
  type Rule,
  TIERS,
  type Way,
} from "../model.ts";
import {
  ALL_IPV4,
  ALL_IPV6,
  ANONYMOUS,
  IDENTIFIED,
  KNOWN,
  KNOWN_NODES,
  KNOWN_PODS,
  matchOf,
  ofGroup,
  type SetKey,
} from "../peers.ts";
import type { Selector } from "../selector.ts";
import type { Group, GroupRule, GroupTier } from "../state.ts";

/** The policies that say something about a direction, in the order in which they decide. */
export function ordered(policies: Iterable<CompiledPolicy>, way: Way): readonly CompiledPolicy[] {
  return [...policies]
    .filter((it) => it[way] !== undefined)
    .toSorted(
      (a, b) =>
        TIERS.indexOf(a.tier) - TIERS.indexOf(b.tier) || a.priority - b.priority || (a.key < b.key ? -1 : 1),
    );
}

/** Of the names only; 128 bits, so that no author of policies can make others share a group with theirs. */
export function groupKey(way: Way, policies: readonly CompiledPolicy[]): string | undefined {
  if (policies.length === 0) return undefined;
  const names = JSON.stringify(policies.map((it) => it.key).toSorted());
  return `${way[0]}${createHash("sha256").update(names).digest("hex").slice(0, 32)}`;
}

export function groupOf(key: string, way: Way, policies: readonly CompiledPolicy[]): Group {
  const sorted = ordered(policies, way);
  const tiers = TIERS.map((tier): GroupTier => {
    const inTier = sorted.filter((it) => it.tier === tier);
    const rules = inTier.flatMap((policy) =>
      (policy[way]?.rules ?? []).map((rule): GroupRule => ({
        ...rule,
        peers: peersOf(rule, key),
        policy: policy.id,
      })),
    );
    const denying = inTier.filter((it) => it[way]?.isDefaultDeny === true);
    return {
      tier,
      isDefaultDeny: denying.length > 0,
      ...(denying.length === 0 ? {} : { deniedBy: denying.map((it) => it.id) }),
      rules:
        tier === "network-policy" ? [...rules.filter(isDeny), ...rules.filter((it) => !isDeny(it))] : rules,
    };
  });
  return { key, way, tiers: tiers.filter((it) => it.isDefaultDeny || it.rules.length > 0) };
}

function peersOf({ peers }: Rule, group: string): Rule["peers"] {
  if (peers === "any" || !peers.some((it) => it.kind === "fqdn")) return peers;
  return peers.map((it) => (it.kind === "fqdn" ? ofGroup(it, group) : it));
}

/** In place of one that is too large. */
export function closedGroup(key: string, way: Way, policies: readonly CompiledPolicy[]): Group {
  const deniedBy = ordered(policies, way).map((it) => it.id);
  const tier: GroupTier = { tier: "network-policy", isDefaultDeny: true, deniedBy, rules: [] };
  return { key, way, tiers: [tier], isClosed: true };
}

function isDeny(rule: Rule): boolean {
  return rule.action === "deny";
}

/** The key of the set of a named port. */
export function namedPortSet({ protocol, name }: Extract<PortMatch, { kind: "named" }>): SetKey {
  return `port:${protocol}:${name}`;
}

/** A set, and from what it is made. */
export type SetNeed = { readonly key: SetKey } & (
  | { readonly kind: "pods"; readonly selector: Selector }
  | { readonly kind: "nodes"; readonly selector: Selector; readonly areRemote: boolean }
  | { readonly kind: "prefixes"; readonly prefixes: readonly Prefix[] }
  | { readonly kind: "port" | "fqdn" | "host" | "remote-node" | "kube-apiserver" }
  | { readonly kind: KnownKind | "cluster" }
);

type KnownKind = "known-pods" | "known-nodes" | "known" | "identified" | "anonymous";

const KNOWN_KINDS = new Map<SetKey, KnownKind>([
  [KNOWN_PODS, "known-pods"],
  [KNOWN_NODES, "known-nodes"],
  [KNOWN, "known"],
  [IDENTIFIED, "identified"],
  [ANONYMOUS, "anonymous"],
]);

/** The sets that a group refers to; peers and ports with equal keys are the same set. */
export function needsOf(group: Group): readonly SetNeed[] {
  const needs = new Map<SetKey, SetNeed>();
  for (const rule of group.tiers.flatMap((it) => it.rules)) {
    for (const peer of rule.peers === "any" ? [] : rule.peers) {
      const { set, within, unless } = matchOf(peer);
      if (set !== undefined) needs.set(set, needOf(set, peer));
      for (const it of knownOf([within, unless])) needs.set(it.key, it);
      if (peer.kind === "cidr" && peer.beyond !== undefined)
        needs.set(peer.beyond.key, { kind: "prefixes", ...peer.beyond });
    }
    for (const port of rule.ports === "any" ? [] : rule.ports)
      if (port.kind === "named") needs.set(namedPortSet(port), { key: namedPortSet(port), kind: "port" });
  }
  return [...needs.values()];
}

function knownOf(keys: readonly (SetKey | undefined)[]): readonly SetNeed[] {
  return keys.flatMap((key = "") => {
    const kind = KNOWN_KINDS.get(key);
    return kind === undefined ? [] : [{ key, kind }];
  });
}

function needOf(key: SetKey, peer: Peer): SetNeed {
  switch (peer.kind) {
    case "pods":
      return { key, kind: "pods", selector: peer.selector };
    case "nodes":
      return { key, kind: "nodes", selector: peer.selector, areRemote: peer.areRemote };
    case "cidr":
    case "unidentified":
      return { key, kind: "prefixes", prefixes: peer.prefixes };
    case "fqdn":
      return { key, kind: "fqdn" };
    case "entity":
      return needOfEntity(key, peer.entity);
    default:
      return peer satisfies never;
  }
}

function needOfEntity(key: SetKey, entity: Entity): SetNeed {
  switch (entity) {
    case "world-ipv4":
      return { key, kind: "prefixes", prefixes: [ALL_IPV4] };
    case "world-ipv6":
      return { key, kind: "prefixes", prefixes: [ALL_IPV6] };
    case "world":
      return { key, kind: "prefixes", prefixes: [ALL_IPV4, ALL_IPV6] };
    default:
      return { key, kind: entity };
  }
}
