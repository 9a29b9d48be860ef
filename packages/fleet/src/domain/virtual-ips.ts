import { hash } from "node:crypto";
import { formatAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { addressAt, containsAddress, type Prefix, sizeOf } from "@fairlead/base/netaddr/prefix.ts";

/** The virtual addresses of services: each has one address of either family, at the same place of both blocks. Pure. */

export interface VirtualAddresses {
  readonly ipv4: string;
  readonly ipv6: string;
}

export interface Claimant {
  readonly name: string;
  /** What it has; dropped where it is not of the blocks. */
  readonly has: VirtualAddresses | undefined;
  /** False: what it has is only kept from others. */
  readonly wants: boolean;
}

interface Blocks {
  readonly vipIPv4: Prefix;
  readonly vipIPv6: Prefix;
}

export interface AllocatedAddresses {
  readonly addresses: ReadonlyMap<string, VirtualAddresses>;
  /** Those for which no address is free. */
  readonly lacking: readonly string[];
}

/**
 * What a service has, it keeps; no two have the same. The place of a new one follows from its name, so that it is most likely to get the
 * addresses again that it had before they were forgotten. The first and the last address of a block are not used.
 *
 * @param claimants - Where two have one address, the first keeps it.
 */
export function allocateVirtualIPs(blocks: Blocks, claimants: readonly Claimant[]): AllocatedAddresses {
  const size = Number([sizeOf(blocks.vipIPv4), sizeOf(blocks.vipIPv6)].reduce((a, b) => (a < b ? a : b)));
  const usable = Math.max(0, size - 2);
  const taken = new Set<number>();
  const addresses = keepAddresses(blocks, { claimants, usable, taken });
  const lacking: string[] = [];
  for (const { name } of claimants.filter((it) => it.wants && !addresses.has(it.name))) {
    if (taken.size >= usable) {
      lacking.push(name);
      continue;
    }
    let place = firstPlace(name, usable);
    while (taken.has(place)) place = (place % usable) + 1;
    taken.add(place);
    addresses.set(name, addressesAt(blocks, place));
  }
  return { addresses, lacking };
}

/** What claimants have and may have. */
function keepAddresses(
  blocks: Blocks,
  within: { readonly claimants: readonly Claimant[]; readonly usable: number; readonly taken: Set<number> },
): Map<string, VirtualAddresses> {
  const { claimants, usable, taken } = within;
  const addresses = new Map<string, VirtualAddresses>();
  for (const { name, has } of claimants) {
    const place = has === undefined ? undefined : placeOf(blocks, has);
    if (has === undefined || place === undefined || place < 1 || place > usable || taken.has(place)) continue;
    taken.add(place);
    addresses.set(name, has);
  }
  return addresses;
}

/** From 1 to `usable`. */
function firstPlace(name: string, usable: number): number {
  return 1 + (Number.parseInt(hash("sha256", name).slice(0, 12), 16) % usable);
}

function addressesAt({ vipIPv4, vipIPv6 }: Blocks, place: number): VirtualAddresses {
  return {
    ipv4: formatAddress(addressAt(vipIPv4, place)),
    ipv6: formatAddress(addressAt(vipIPv6, place)),
  };
}

function placeOf(blocks: Blocks, { ipv4, ipv6 }: VirtualAddresses): number | undefined {
  const address = tryParseAddress(ipv4);
  if (typeof address !== "number" || !containsAddress(blocks.vipIPv4, address)) return undefined;
  const place = address - Number(blocks.vipIPv4.network);
  const isWithin = BigInt(place) < sizeOf(blocks.vipIPv6);
  return isWithin && addressesAt(blocks, place).ipv6 === ipv6 ? place : undefined;
}
