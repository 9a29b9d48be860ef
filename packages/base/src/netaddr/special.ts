import { Address4, Address6 } from "ip-address";
import { formatAddress, type IpAddress } from "./address.ts";

/** The properties of an address in the IANA special-purpose registries, as far as a trust decision needs them. */
export type SpecialUse =
  | "unspecified"
  | "loopback"
  | "link-local"
  | "multicast"
  | "broadcast"
  | "documentation"
  | "none";

/**
 * The special use of an address. An IPv6 address that stands for an IPv4 address (IPv4-mapped, or of the well-known NAT64
 * prefix) is judged by the IPv4 address, because that is where its packets go.
 *
 * A few microseconds: for admission, not for each packet or query.
 */
export function specialUseOf(address: IpAddress): SpecialUse {
  const text = formatAddress(address);
  const value = typeof address === "number" ? new Address4(text) : new Address6(text);
  if (value.isUnspecified()) return "unspecified";
  if (value.isLoopback()) return "loopback";
  if (value.isLinkLocal()) return "link-local";
  if (value.isMulticast()) return "multicast";
  if (value.isBroadcast()) return "broadcast";
  return value.isDocumentation() ? "documentation" : "none";
}

/**
 * Whether an address may be an endpoint of a service: neither unspecified, loopback, link-local, multicast nor broadcast,
 * the ranges that Kubernetes refuses in Endpoints (CVE-2021-25740 shows why).
 */
export function isEndpointAddress(address: IpAddress): boolean {
  // Every endpoint of every slice passes here, and most are IPv4.
  if (typeof address === "number") return isEndpointV4(address);
  const use = specialUseOf(address);
  return use === "none" || use === "documentation";
}

function isEndpointV4(address: number): boolean {
  const first = address >>> 24;
  const isMulticast = first >= 224 && first <= 239;
  const isLinkLocal = address >>> 16 === 0xa9_fe;
  return address !== 0 && first !== 127 && !isMulticast && !isLinkLocal && address !== 0xff_ff_ff_ff;
}
