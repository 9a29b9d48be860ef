import { formatAddress, type IpAddress } from "@fairlead/base/netaddr/address.ts";

/** The domains of reverse names (RFC 1035, section 3.5; RFC 3596, section 2.5). */
export const REVERSE_DOMAINS = ["in-addr.arpa.", "ip6.arpa."] as const;

/** The name of an address's PTR record. */
export function reverseName(address: IpAddress): string {
  if (typeof address === "number")
    return `${formatAddress(address).split(".").toReversed().join(".")}.in-addr.arpa.`;
  const digits = address.toString(16).padStart(32, "0");
  return `${digits.split("").toReversed().join(".")}.ip6.arpa.`;
}
