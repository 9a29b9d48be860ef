import { type Host, RecordList } from "./service-records.ts";
import type { ResourceRecord } from "#wire/types.ts";
import { bitsOf, formatAddress, type IpAddress } from "@fairlead/base/netaddr/address.ts";
import { type Prefix, subnets } from "@fairlead/base/netaddr/prefix.ts";

/** The domains of reverse names (RFC 1035, section 3.5; RFC 3596, section 2.5). */
export const REVERSE_DOMAINS = ["in-addr.arpa.", "ip6.arpa."] as const;

/** The name of an address's PTR record. */
export function reverseName(address: IpAddress): string {
  if (typeof address === "number")
    return `${formatAddress(address).split(".").toReversed().join(".")}.in-addr.arpa.`;
  const digits = address.toString(16).padStart(32, "0");
  return `${digits.split("").toReversed().join(".")}.ip6.arpa.`;
}

/** The domains of the reverse names of a prefix, without their last dot: several where it ends inside of a label. */
export function reverseDomains(prefix: Prefix): readonly string[] {
  const { family, length } = prefix;
  const labelBits = family === "IPv4" ? 8 : 4;
  const kept = Math.ceil(length / labelBits);
  const left = bitsOf(family) / labelBits - kept;
  return [...subnets(prefix, kept * labelBits)].map(({ network }) =>
    reverseName(network).slice(0, -1).split(".").slice(left).join("."),
  );
}

/** A name and its addresses. */
export type Named = Pick<Host, "name" | "addresses">;

/** The PTR records of addresses that have a name. */
export function pointerRecords(named: readonly Named[], ttl: number): ResourceRecord[] {
  const list = new RecordList(ttl);
  for (const { name, addresses } of named) {
    if (name === undefined) continue;
    for (const address of addresses) list.add(reverseName(address), { type: "PTR", target: name }, name);
  }
  return list.records;
}
