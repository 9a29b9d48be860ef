import { hash } from "node:crypto";
import type { AddressFamily, IpAddress } from "@fairlead/base/netaddr/address.ts";
import {
  containsPrefix,
  formatPrefix,
  overlaps,
  parsePrefix,
  type Prefix,
  subnetAt,
  subnets,
  tryParsePrefix,
} from "@fairlead/base/netaddr/prefix.ts";
import { SPECIAL_RANGES } from "@fairlead/base/netaddr/special-purpose.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { shown } from "./formats.ts";

/**
 * The owners of fleet addresses: the prefixes of a network are divided into blocks of members, these into blocks of nodes.
 * Pure.
 */

export const DEFAULT_IPV4 = "10.112.0.0/12";

/** Lengths of blocks. A member's first one has room for 8 nodes with IPv4, and for 256 with IPv6. Unit: bits. */
export const BLOCK_LENGTHS: Readonly<
  Record<AddressFamily, { readonly member: number; readonly node: number }>
> = {
  IPv4: { member: 21, node: 24 },
  IPv6: { member: 56, node: 64 },
};

/** A shorter prefix would be most of a private network, a longer one has no room for a member in addition to the virtual IPs. */
const IPV4_LENGTHS = { min: 8, max: 20 };
const IPV6_LENGTH = 48;
/** RFC 4193: locally assigned. */
const LOCAL = parsePrefix("fd00::/8");

export interface AddressPlan {
  readonly ipv4: Prefix;
  readonly ipv6: Prefix;
  /** Of Services. No member has a block there. */
  readonly vipIPv4: Prefix;
  readonly vipIPv6: Prefix;
}

/** Returns the plan of a profile, or what is wrong with its prefixes. */
export function planOf(profile: ClusterMeshProfile): AddressPlan | string {
  const { addresses = {} } = profile.spec.network;
  const field = "spec.network.addresses";
  const ipv4 = tryParsePrefix(addresses.ipv4 ?? DEFAULT_IPV4);
  const ipv6 = tryParsePrefix(addresses.ipv6 ?? localPrefixOf(profile.metadata.uid ?? ""));
  if (ipv4 === undefined || !isUsableIPv4(ipv4))
    return `${field}.ipv4 ${shown(addresses.ipv4)} is not an IPv4 prefix of ${IPV4_LENGTHS.min} to ${IPV4_LENGTHS.max} bits, such as ${DEFAULT_IPV4}`;
  const special = SPECIAL_RANGES.IPv4.find((it) => overlaps(parsePrefix(it), ipv4));
  if (special !== undefined)
    return `${field}.ipv4 ${shown(addresses.ipv4)} overlaps ${special}, which pods cannot have addresses in`;
  if (ipv6?.length !== IPV6_LENGTH || !containsPrefix(LOCAL, ipv6))
    return `${field}.ipv6 ${shown(addresses.ipv6)} is not a unique local IPv6 prefix of ${IPV6_LENGTH} bits, such as fd12:3456:789a::/48 (RFC 4193)`;
  return planOfPrefixes(ipv4, ipv6);
}

function isUsableIPv4({ family, length }: Prefix): boolean {
  return family === "IPv4" && length >= IPV4_LENGTHS.min && length <= IPV4_LENGTHS.max;
}

/** The last sixteenth of the IPv4 prefix and the last /56 of the IPv6 prefix are for virtual IPs. */
export function planOfPrefixes(ipv4: Prefix, ipv6: Prefix): AddressPlan {
  const { member } = BLOCK_LENGTHS.IPv6;
  return {
    ipv4,
    ipv6,
    vipIPv4: subnetAt(ipv4, ipv4.length + 4, 15),
    vipIPv6: subnetAt(ipv6, member, (1n << BigInt(member - ipv6.length)) - 1n),
  };
}

/** How many blocks of members a prefix has, without those with virtual IPs. */
export function blockCount({ family, length }: Prefix): number {
  const all = 2 ** (BLOCK_LENGTHS[family].member - length);
  return all - (family === "IPv4" ? Math.ceil(all / 16) : 1);
}

/** RFC 4193, section 3.2.2: 40 bits of a hash of something unique. */
function localPrefixOf(uid: string): string {
  const digits = hash("sha256", `fleet addresses of ${uid}`).slice(0, 10);
  return `fd${digits.slice(0, 2)}:${digits.slice(2, 6)}:${digits.slice(6)}::/${IPV6_LENGTH}`;
}

/** The first of a cluster's own ranges that overlaps the addresses of the network. */
export function findOverlap({ ipv4, ipv6 }: AddressPlan, ranges: readonly Prefix[]): Prefix | undefined {
  return ranges.find((it) => overlaps(it, ipv4) || overlaps(it, ipv6));
}

export interface Owner {
  readonly name: string;
  /** The blocks that it has. Those that it cannot have are dropped. */
  readonly has: readonly string[];
  /** 0: what it has is only kept from others. */
  readonly wants: number;
}

interface Division {
  /** What is divided. */
  readonly parents: readonly Prefix[];
  /** Of a block. Unit: bits. */
  readonly length: number;
  /** Parts of the parents that are not divided. */
  readonly except?: readonly Prefix[];
  /** Where two have one block, the first keeps it. */
  readonly owners: readonly Owner[];
}

export interface Divided {
  /** By owner. */
  readonly blocks: ReadonlyMap<string, readonly string[]>;
  /** Those with fewer blocks than they want. */
  readonly lacking: readonly string[];
}

/** Further blocks of an owner leave one block in this many to those who have none yet. */
const SPARED = 4;

/**
 * Divides prefixes into blocks. What an owner has, it keeps; a block is never part of two, and always part of a parent.
 * Owners without any come before owners that want more, and one that wants many cannot take all.
 */
export function divide({ parents, length, except = [], owners }: Division): Divided {
  const free = freeBlocks(parents, length, except);
  const spared = Math.floor(free.size / SPARED);
  const blocks = new Map<string, string[]>();
  for (const { name, has } of owners) {
    const kept = has.filter((text) => {
      const block = tryParsePrefix(text);
      return block?.length === length && free.delete(block.network);
    });
    if (kept.length > 0) blocks.set(name, kept);
  }
  const rest = [...free.values()];
  let next = 0;
  const take = (owner: Owner, upTo: number, leave: number): void => {
    const own = blocks.get(owner.name) ?? [];
    for (; own.length < Math.min(owner.wants, upTo) && next < rest.length - leave; next += 1)
      own.push(...rest.slice(next, next + 1).map(formatPrefix));
    if (own.length > 0) blocks.set(owner.name, own);
  };
  for (const owner of owners) take(owner, 1, 0);
  for (const owner of owners) take(owner, MAX_BLOCKS, spared);
  const lacking = owners.filter((it) => (blocks.get(it.name)?.length ?? 0) < it.wants);
  return { blocks, lacking: lacking.map((it) => it.name) };
}

function freeBlocks(
  parents: readonly Prefix[],
  length: number,
  except: readonly Prefix[],
): Map<IpAddress, Prefix> {
  const free = new Map<IpAddress, Prefix>();
  for (const parent of parents)
    for (const it of subnets(parent, length))
      if (!except.some((one) => overlaps(one, it))) free.set(it.network, it);
  return free;
}

/** Most blocks of one owner: what an AddressBlock holds. */
export const MAX_BLOCKS = 64;
