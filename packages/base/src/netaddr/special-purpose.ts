import { bitsOf, familyOf, type IpAddress } from "./address.ts";
import { containsAddress, parsePrefix, type Prefix } from "./prefix.ts";

/**
 * Ranges that no pod and no node has its address from: what the IANA registries of special-purpose addresses list, and
 * multicast, without what clusters do use (RFC 1918, 100.64.0.0/10, fc00::/7).
 *
 * Sources: iana-ipv4-special-registry, iana-ipv6-special-registry (RFC 6890 and later); RFC 3879 for fec0::/10.
 */

const V4 = [
  // "This network", and what many systems take for themselves.
  "0.0.0.0/8",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "192.0.0.0/24",
  "192.0.2.0/24",
  // AS112, AMT and the former relays of 6to4: anycast.
  "192.31.196.0/24",
  "192.52.193.0/24",
  "192.88.99.0/24",
  "192.175.48.0/24",
  // Benchmarking.
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  // Multicast; reserved, with the broadcast address.
  "224.0.0.0/4",
  "240.0.0.0/4",
];

const V6 = [
  // Unspecified, loopback, and IPv4-compatible addresses.
  "::/96",
  // RFC 8215: local use of NAT64, whose translated networks are unknown.
  "64:ff9b:1::/48",
  // Discard, and the dummy prefix.
  "100::/64",
  "100:0:0:1::/64",
  // IETF protocol assignments: Teredo, benchmarking, AMT, AS112, ORCHID and ORCHIDv2, drones.
  "2001::/23",
  "2001:db8::/32",
  // 6to4: its packets go to an IPv4 address.
  "2002::/16",
  "2620:4f:8000::/48",
  "3fff::/20",
  // Segment routing.
  "5f00::/16",
  "fe80::/10",
  "fec0::/10",
  "ff00::/8",
];

/** RFC 4291: stands for an IPv4 address. Parsers of CIDRs refuse it as a text, so it is not among those of `forFamily`. */
const MAPPED = parsePrefix("::ffff:0:0/96");

/** Source of the mapping: RFC 6052. What is behind the well-known prefix of NAT64 is as the IPv4 address it stands for. */
function behindNat64(text: string): string {
  const { network, length } = parsePrefix(text);
  const address = Number(network);
  const groups = [address >>> 16, address & 0xff_ff].map((it) => it.toString(16)).join(":");
  return `64:ff9b::${groups}/${bitsOf("IPv6") - bitsOf("IPv4") + length}`;
}

/** As texts, by family. IPv4-mapped addresses (::ffff:0:0/96) are special, too. */
export const SPECIAL_RANGES: Readonly<Record<"IPv4" | "IPv6", readonly string[]>> = {
  IPv4: V4,
  IPv6: [...V6, ...V4.map((it) => behindNat64(it))],
};

/** Indexed by the first bits of an address, because every endpoint of every slice is looked up. */
function byFirstByte(ranges: readonly string[]): ReadonlyMap<number, readonly Prefix[]> {
  const found = new Map<number, Prefix[]>();
  for (const range of ranges.map((it) => parsePrefix(it))) {
    const first = firstByte(range.network);
    for (let byte = first; byte < first + 2 ** Math.max(0, 8 - range.length); byte += 1)
      found.set(byte, [...(found.get(byte) ?? []), range]);
  }
  return found;
}

function firstByte(address: IpAddress): number {
  return typeof address === "number" ? address >>> 24 : Number(address >> 120n);
}

const LOOKUP = { IPv4: byFirstByte(SPECIAL_RANGES.IPv4), IPv6: byFirstByte(SPECIAL_RANGES.IPv6) };

/** Whether an address is in one of these ranges, and so cannot be an endpoint. */
export function isSpecialPurpose(address: IpAddress): boolean {
  if (typeof address === "bigint" && containsAddress(MAPPED, address)) return true;
  return (
    LOOKUP[familyOf(address)].get(firstByte(address))?.some((it) => containsAddress(it, address)) === true
  );
}
