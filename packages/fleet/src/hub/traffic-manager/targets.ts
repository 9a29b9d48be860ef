import { type IpAddress, parseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, parsePrefix, type Prefix } from "@fairlead/base/netaddr/prefix.ts";
import { isEndpointAddress } from "@fairlead/base/netaddr/special.ts";

/** Whether the hub may connect to an address that a member reported, and publish it. */
export type PermitsTarget = (address: IpAddress) => boolean;

/** Where clouds answer their machines with credentials, besides 169.254.0.0/16. */
const METADATA: ReadonlySet<IpAddress> = new Set(
  ["100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"].map((it) => parseAddress(it)),
);
const PRIVATE = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"].map((it) =>
  parsePrefix(it),
);
/** IPv6 addresses that stand for IPv4 addresses: packets go there. */
const EMBEDDING: readonly Prefix[] = ["::ffff:0:0/96", "64:ff9b::/96"].map((it) => parsePrefix(it));
const LOW_BITS = 0xff_ff_ff_ffn;

/**
 * Judges the addresses of endpoints: a member must not have the hub look into what only the hub reaches. Addresses of machines themselves, of links and of metadata services are refused in any case.
 *
 * @param privateRanges - The private networks with load balancers. Default: all, because a fleet in a private network has no others.
 */
export function permittedTargets(privateRanges: readonly Prefix[] = PRIVATE): PermitsTarget {
  return (address) => {
    const actual =
      typeof address === "bigint" && isIn(EMBEDDING, address) ? Number(address & LOW_BITS) : address;
    if (!isEndpointAddress(actual) || METADATA.has(actual)) return false;
    return !isIn(PRIVATE, actual) || isIn(privateRanges, actual);
  };
}

function isIn(ranges: readonly Prefix[], address: IpAddress): boolean {
  return ranges.some((it) => containsAddress(it, address));
}
