import { createHash } from "node:crypto";
import type { AddressFamily } from "@fairlead/base/netaddr/address.ts";
import type { Tier, Way } from "#policy/model.ts";
import type { SetKey } from "#policy/peers.ts";
import type { DataType } from "@fairlead/os/nft/datatype.ts";
import type { NftSetSpec, NftTableName } from "@fairlead/os/nft/state.ts";

/** Names and types of what the table of policies has. */

export const POLICY_TABLE: NftTableName = { family: "inet", name: "fairlead-policy" };

/** Where DNS servers listen, as policies about names have it. */
export const DNS_PORT = 53;
/** Where the DNS proxy of a node listens, at the node's own addresses. */
export const DNS_PROXY_PORT = 9253;

export interface Family {
  readonly name: AddressFamily;
  readonly suffix: "4" | "6";
  readonly address: DataType & ("ipv4_addr" | "ipv6_addr");
}

export const IPV4: Family = { name: "IPv4", suffix: "4", address: "ipv4_addr" };
export const IPV6: Family = { name: "IPv6", suffix: "6", address: "ipv6_addr" };
export const FAMILIES: readonly Family[] = [IPV4, IPV6];

/** Sets of named ports have addresses with protocols and ports; those of `cidr:` have prefixes. */
export function kindOfSet(key: SetKey): "addresses" | "ports" | "prefixes" {
  if (key.startsWith("port:")) return "ports";
  return key.startsWith("cidr:") ? "prefixes" : "addresses";
}

/** The kernel's set for a set of the resolver. Its key may hold any text, and be long. */
export function peerSet(key: SetKey, family: Family): string {
  const digest = createHash("sha256").update(key).digest("hex").slice(0, 24);
  return `${kindOfSet(key)}-${digest}-${family.suffix}`;
}

export function peerSetSpec(key: SetKey, { address }: Family): NftSetSpec {
  const kind = kindOfSet(key);
  if (kind === "ports") return { key: [address, "inet_proto", "inet_service"] };
  return kind === "prefixes" ? { key: [address], interval: true } : { key: [address] };
}

/** The set of these ranges of ports. Its name is that of its elements, so that it never changes. */
export function numbersSet(elements: readonly string[]): string {
  return `numbers-${createHash("sha256").update(elements.join()).digest("hex").slice(0, 24)}`;
}

export const NUMBERS_SPEC: NftSetSpec = { key: ["inet_service"], interval: true };

/**
 * The sets that are always there.
 *
 * - `ingress`, `egress`: the chain of a local address for that direction;
 * - `known`: addresses of local pods whose policies are in place;
 * - `isolated`: those of them that have a chain, and `self`, each with itself;
 * - `node`: the prefixes of the node's pods, and `elsewhere`, the addresses in these that pods of other nodes have;
 * - `logged`: addresses of local pods whose allowed connections are noted;
 * - `denied`, `allowed`: what was denied or allowed lately, by source, destination, protocol and port, and `noted`, the sources of these, each
 *   with how many more of its flows are noted;
 * - `dns`: the DNS proxy, for the addresses of local pods that have to ask it.
 */
export const OWN_SETS = [
  "ingress",
  "egress",
  "known",
  "isolated",
  "self",
  "node",
  "elsewhere",
  "logged",
  "denied",
  "allowed",
  "noted",
  "dns",
] as const;
export type OwnSet = (typeof OWN_SETS)[number];

export function ownSet(kind: OwnSet, { suffix }: Family): string {
  return `${kind}-${suffix}`;
}

export function ownSetSpec(kind: OwnSet, { address }: Family): NftSetSpec {
  switch (kind) {
    case "ingress":
    case "egress":
      return { key: [address], value: "verdict" };
    case "self":
      return { key: [address, address] };
    case "node":
      return { key: [address], interval: true };
    case "denied":
    case "allowed":
      return { key: [address, address, "inet_proto", "inet_service"], dynamic: true };
    case "noted":
      return { key: [address], dynamic: true };
    case "dns":
      return { key: [address], value: [address, "inet_service"] };
    default:
      kind satisfies "known" | "isolated" | "elsewhere" | "logged";
      return { key: [address] };
  }
}

/** The chain that packets of a group begin with, which is that of its first tier. */
export function groupChain(way: Way, key: string): string {
  return `${way}-${key}`;
}

/** The chain of a later tier of the group. */
export function tierChain(way: Way, key: string, tier: Tier): string {
  return `${groupChain(way, key)}-${tier}`;
}

/** Where packets from and to unknown pods of this node end. */
export const UNKNOWN_CHAIN = "unknown";

/** Where packets end that are allowed and noted. */
export const ALLOW_CHAIN = "allow";

/** Where packets that a policy denies end. */
export function denyChain(way: Way): string {
  return `deny-${way}`;
}
