import { canonicalAddress, familyOfText, formatAddress } from "@fairlead/base/netaddr/address.ts";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { FleetError } from "@fairlead/base/errors.ts";

/**
 * Types of the parts of keys and values, by their names in nftables. `integer` is what `numgen` and `jhash` yield:
 * 32 bits in the byte order of the machine, as `mark` is.
 */
export type DataType = "ipv4_addr" | "ipv6_addr" | "inet_proto" | "inet_service" | "integer" | "mark";

/** IANA protocol numbers of the names that nftables prints and reads everywhere. */
const PROTOCOL_NUMBERS: ReadonlyMap<string, number> = new Map([
  ["tcp", 6],
  ["udp", 17],
  ["sctp", 132],
]);
const PROTOCOL_NAMES: ReadonlyMap<number, string> = new Map(
  [...PROTOCOL_NUMBERS].map(([name, number]) => [number, name]),
);

/**
 * The one text of a value: equal values have equal texts, and the text is a single word of the nft grammar.
 *
 * @throws {FleetError} `OPTION_INVALID` or `ADDRESS_INVALID` if it is not a value of `type`.
 */
export function canonicalPart(type: DataType, value: string | number): string {
  const text = String(value);
  switch (type) {
    case "ipv4_addr":
    case "ipv6_addr":
      if (familyOfText(text) !== (type === "ipv4_addr" ? "IPv4" : "IPv6")) throw invalidPart(type, text);
      return canonicalAddress(text);
    case "inet_proto":
      if (PROTOCOL_NUMBERS.has(text)) return text;
      return protocolName(unsigned(type, text, 255));
    case "inet_service":
      return String(unsigned(type, text, 65_535));
    case "integer":
    case "mark":
      return String(unsigned(type, text, 0xffff_ffff));
    default:
      return type satisfies never;
  }
}

/**
 * As `canonicalPart` for a part of a key of an interval set: an address may also be a prefix, a port a range such as
 * `80-90`. One that holds a single address or port is that address or port.
 */
export function canonicalInterval(type: DataType, value: string | number): string {
  const text = String(value);
  if (type === "inet_service" && text.includes("-")) return portRange(text);
  if (!text.includes("/")) return canonicalPart(type, text);
  const prefix = parsePrefix(text);
  const address = canonicalPart(type, formatAddress(prefix.network));
  return prefix.length === (type === "ipv4_addr" ? 32 : 128) ? address : `${address}/${prefix.length}`;
}

function portRange(text: string): string {
  const dash = text.indexOf("-");
  const [first, last] = [text.slice(0, dash), text.slice(dash + 1)].map((it) =>
    unsigned("inet_service", it, 65_535),
  ) as [number, number];
  if (first > last) throw invalidPart("inet_service", text);
  return first === last ? String(first) : `${first}-${last}`;
}

/** Number of a protocol's canonical text. */
export function protocolNumber(text: string): number {
  return PROTOCOL_NUMBERS.get(text) ?? Number(text);
}

function protocolName(number: number): string {
  return PROTOCOL_NAMES.get(number) ?? String(number);
}

function unsigned(type: DataType, text: string, max: number): number {
  const number = Number(text);
  if (/^\d{1,10}$/.test(text) && number <= max) return number;
  throw invalidPart(type, text);
}

function invalidPart(type: DataType, text: string): FleetError {
  return new FleetError(
    "OPTION_INVALID",
    `${JSON.stringify(text.slice(0, 64))} is not a valid nftables ${type}`,
  );
}
