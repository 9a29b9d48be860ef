import { FleetError } from "#errors.ts";
import {
  type AddressFamily,
  bitsOf,
  familyOf,
  formatAddress,
  type IpAddress,
  tryParseAddress,
} from "./address.ts";

/** A CIDR block. The bits of `network` behind `length` are zero. */
export interface Prefix {
  readonly family: AddressFamily;
  readonly network: IpAddress;
  /** Unit: bits. 0 to 32 or 128. */
  readonly length: number;
}

export interface ParsePrefixOptions {
  /** How to treat bits after the prefix length, as in `10.0.0.1/8`. Default: "refuse". */
  readonly hostBits?: "refuse" | "clear";
}

/**
 * Reads `address/length`.
 *
 * @throws {FleetError} `ADDRESS_INVALID`
 */
export function parsePrefix(text: string, options: ParsePrefixOptions = {}): Prefix {
  const { prefix, hasHostBits } = read(text) ?? {};
  if (prefix !== undefined && (!hasHostBits || options.hostBits === "clear")) return prefix;
  const shown = JSON.stringify(text.slice(0, 64));
  throw new FleetError(
    "ADDRESS_INVALID",
    prefix === undefined
      ? `${shown} is not a prefix such as 10.0.0.0/8 or fd00::/8`
      : `${shown} has bits set behind its prefix length; write ${formatPrefix(prefix)}`,
  );
}

/** Same as `parsePrefix`; undefined if the text is not a prefix. No error is made: they cost more than all the rest. */
export function tryParsePrefix(text: string, options: ParsePrefixOptions = {}): Prefix | undefined {
  const { prefix, hasHostBits } = read(text) ?? {};
  return hasHostBits === true && options.hostBits !== "clear" ? undefined : prefix;
}

/** A prefix with the host bits cleared, and whether there were any. */
function read(text: string): { readonly prefix: Prefix; readonly hasHostBits: boolean } | undefined {
  const slash = text.indexOf("/");
  const address = slash < 0 ? undefined : tryParseAddress(text.slice(0, slash));
  const length = parseLength(text.slice(slash + 1));
  if (address === undefined || length === undefined || length > bitsOf(familyOf(address))) return undefined;
  const prefix = prefixOf(address, length);
  return { prefix, hasHostBits: prefix.network !== address };
}

function parseLength(text: string): number | undefined {
  return /^(?:0|[1-9]\d{0,2})$/.test(text) ? Number(text) : undefined;
}

/**
 * The prefix of `length` bits that holds `address`.
 *
 * @throws {FleetError} `ADDRESS_INVALID` when `length` is out of range.
 */
export function prefixOf(address: IpAddress, length: number): Prefix {
  const family = familyOf(address);
  if (!Number.isInteger(length) || length < 0 || length > bitsOf(family)) {
    throw new FleetError("ADDRESS_INVALID", `a prefix of ${family} cannot have ${length} bits`);
  }
  return { family, network: clearHostBits(address, length), length };
}

function clearHostBits(address: IpAddress, length: number): IpAddress {
  if (typeof address === "bigint") return (address >> BigInt(128 - length)) << BigInt(128 - length);
  // A shift by 32 is a shift by 0 in JavaScript.
  return length === 0 ? 0 : (address & (-1 << (32 - length))) >>> 0;
}

export function formatPrefix(prefix: Prefix): string {
  return `${formatAddress(prefix.network)}/${prefix.length}`;
}

export function containsAddress(prefix: Prefix, address: IpAddress): boolean {
  return familyOf(address) === prefix.family && clearHostBits(address, prefix.length) === prefix.network;
}

/** Whether every address of `inner` is one of `outer`. */
export function containsPrefix(outer: Prefix, inner: Prefix): boolean {
  return inner.length >= outer.length && containsAddress(outer, inner.network);
}

/** Whether the two have an address in common: two prefixes overlap only when one contains the other. */
export function overlaps(a: Prefix, b: Prefix): boolean {
  return containsPrefix(a, b) || containsPrefix(b, a);
}

/** How many addresses the prefix has. */
export function sizeOf(prefix: Prefix): bigint {
  return 1n << BigInt(bitsOf(prefix.family) - prefix.length);
}

export function lastAddress(prefix: Prefix): IpAddress {
  return addressAt(prefix, -1);
}

/**
 * The address at `index`, counted from 0 at the network address. A negative index counts from the end: -1 is the last.
 *
 * @throws {FleetError} `ADDRESS_INVALID` when the prefix has no such address.
 */
export function addressAt(prefix: Prefix, index: number | bigint): IpAddress {
  const size = sizeOf(prefix);
  const wanted = BigInt(index);
  const offset = wanted < 0n ? size + wanted : wanted;
  if (offset < 0n || offset >= size) {
    throw new FleetError("ADDRESS_INVALID", `${formatPrefix(prefix)} has no address number ${index}`);
  }
  return plus(prefix.network, offset);
}

/**
 * The `index`th of the prefixes of `length` bits that make up `prefix`.
 *
 * @throws {FleetError} `ADDRESS_INVALID` when there is no such prefix.
 */
export function subnetAt(prefix: Prefix, length: number, index: number | bigint): Prefix {
  const bits = bitsOf(prefix.family);
  const wanted = BigInt(index);
  if (length < prefix.length || length > bits || wanted < 0n || wanted >= subnetCount(prefix, length)) {
    throw new FleetError(
      "ADDRESS_INVALID",
      `${formatPrefix(prefix)} has no subnet number ${index} of ${length} bits`,
    );
  }
  return prefixOf(plus(prefix.network, wanted << BigInt(bits - length)), length);
}

/** All prefixes of `length` bits inside `prefix`, in order; none when `length` is shorter than its own. */
export function* subnets(prefix: Prefix, length: number): Generator<Prefix, undefined> {
  const count = subnetCount(prefix, length);
  for (let index = 0n; index < count; index++) yield subnetAt(prefix, length, index);
  return undefined;
}

function subnetCount(prefix: Prefix, length: number): bigint {
  if (length < prefix.length || length > bitsOf(prefix.family)) return 0n;
  return 1n << BigInt(length - prefix.length);
}

function plus(address: IpAddress, offset: bigint): IpAddress {
  return typeof address === "number" ? address + Number(offset) : address + offset;
}
