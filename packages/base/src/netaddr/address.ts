import { FleetError } from "#errors.ts";

/** As Kubernetes spells it in `ipFamilies`. */
export type AddressFamily = "IPv4" | "IPv6";

/**
 * One IP address. An IPv4 address is a number and an IPv6 address a bigint, so that a value tells its family, is a key
 * of a Map, compares with `<` and, for IPv4, costs no allocation.
 */
export type IpAddress = number | bigint;

export function familyOf(address: IpAddress): AddressFamily {
  return typeof address === "number" ? "IPv4" : "IPv6";
}

/** How many bits an address of `family` has. */
export function bitsOf(family: AddressFamily): 32 | 128 {
  return family === "IPv4" ? 32 : 128;
}

/**
 * Reads an address. Strict: four decimal parts without leading zeros for IPv4; RFC 4291 text without a zone for IPv6.
 * What other parsers read in two ways (`010.0.0.1`, `10.1`, `0x7f.1`) is refused.
 *
 * @throws {FleetError} `ADDRESS_INVALID`
 */
export function parseAddress(text: string): IpAddress {
  const address = tryParseAddress(text);
  if (address !== undefined) return address;
  throw new FleetError("ADDRESS_INVALID", `${JSON.stringify(text.slice(0, 64))} is not an IP address`);
}

/** Same as `parseAddress`; undefined if the text is not an address. */
export function tryParseAddress(text: string): IpAddress | undefined {
  return text.includes(":") ? parseIPv6(text) : parseIPv4(text);
}

/** The family of an address text; undefined if it is not an address. */
export function familyOfText(text: string): AddressFamily | undefined {
  const address = tryParseAddress(text);
  return address === undefined ? undefined : familyOf(address);
}

/** The canonical text (RFC 5952): equal addresses have equal texts. */
export function formatAddress(address: IpAddress): string {
  return typeof address === "number" ? formatIPv4(address) : formatIPv6(address);
}

/**
 * Rewrites an address text in its canonical form.
 *
 * @throws {FleetError} `ADDRESS_INVALID`
 */
export function canonicalAddress(text: string): string {
  return formatAddress(parseAddress(text));
}

/** Orders IPv4 before IPv6, and by value inside a family. */
export function byAddress(a: IpAddress, b: IpAddress): number {
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

const DOT = 46;
const COLON = 58;
const ZERO = 48;

function parseIPv4(text: string, from = 0): number | undefined {
  let value = 0;
  let part = -1;
  let dots = 0;
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === DOT) {
      if (part < 0) return undefined;
      dots++;
      value = value * 256 + part;
      part = -1;
      continue;
    }
    const digit = code - ZERO;
    // A part that already is 0 takes no further digit: leading zeros mean octal to some readers.
    if (digit < 0 || digit > 9 || part === 0) return undefined;
    part = part < 0 ? digit : part * 10 + digit;
    if (part > 255) return undefined;
  }
  return dots === 3 && part >= 0 ? value * 256 + part : undefined;
}

function formatIPv4(value: number): string {
  return `${value >>> 24}.${(value >>> 16) & 255}.${(value >>> 8) & 255}.${value & 255}`;
}

interface Groups {
  readonly values: number[];
  /** Index of `::` in `values`, or -1. */
  gap: number;
}

function parseIPv6(text: string): bigint | undefined {
  // 45 is the longest text: six groups of four digits and a dotted IPv4 address.
  if (text.length > 45) return undefined;
  const groups: Groups = { values: [], gap: -1 };
  let at = 0;
  if (text.charCodeAt(0) === COLON) {
    if (text.charCodeAt(1) !== COLON) return undefined;
    groups.gap = 0;
    at = 2;
  }
  while (at < text.length) {
    const next = readGroup(text, at, groups);
    if (next < 0) return undefined;
    at = next;
  }
  return joinGroups(groups);
}

/** Reads one group and the colons behind it. Returns where the next begins, or -1 when the text is wrong. */
function readGroup(text: string, from: number, groups: Groups): number {
  let at = from;
  let value = 0;
  let digit = hexDigit(text.charCodeAt(at));
  while (digit >= 0 && at - from < 4) {
    value = value * 16 + digit;
    at++;
    digit = hexDigit(text.charCodeAt(at));
  }
  if (at === from || groups.values.length === 8) return -1;
  if (text.charCodeAt(at) === DOT) return readDottedTail(text, from, groups);
  groups.values.push(value);
  if (at === text.length) return at;
  if (text.charCodeAt(at) !== COLON) return -1;
  at++;
  if (text.charCodeAt(at) === COLON) {
    if (groups.gap >= 0) return -1;
    groups.gap = groups.values.length;
    return at + 1;
  }
  return at === text.length ? -1 : at;
}

function readDottedTail(text: string, from: number, groups: Groups): number {
  const value = parseIPv4(text, from);
  if (value === undefined || groups.values.length > 6) return -1;
  groups.values.push(value >>> 16, value & 0xffff);
  return text.length;
}

function joinGroups({ values, gap }: Groups): bigint | undefined {
  const missing = 8 - values.length;
  if (gap < 0 ? missing !== 0 : missing < 1) return undefined;
  const group = (index: number): number => {
    if (gap < 0 || index < gap) return values[index] ?? 0;
    return index < gap + missing ? 0 : (values[index - missing] ?? 0);
  };
  const pair = (index: number): bigint => BigInt(group(index) * 65_536 + group(index + 1));
  return (pair(0) << 96n) | (pair(2) << 64n) | (pair(4) << 32n) | pair(6);
}

function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  const lower = code | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}

function formatIPv6(value: bigint): string {
  // IPv4-mapped addresses are written with their IPv4 address (RFC 5952, section 5).
  if (value >> 32n === 0xffffn) return `::ffff:${formatIPv4(Number(value & 0xffff_ffffn))}`;
  const groups: number[] = [];
  for (let shift = 96n; shift >= 0n; shift -= 32n) {
    const pair = Number((value >> shift) & 0xffff_ffffn);
    groups.push(pair >>> 16, pair & 0xffff);
  }
  const { start, length } = longestZeros(groups);
  // One zero group alone is not shortened (RFC 5952, section 4.2.2).
  if (length < 2) return joinHex(groups, 0, 8);
  return `${joinHex(groups, 0, start)}::${joinHex(groups, start + length, 8)}`;
}

function joinHex(groups: readonly number[], from: number, to: number): string {
  let text = "";
  for (let index = from; index < to; index++) {
    if (index > from) text += ":";
    text += (groups[index] ?? 0).toString(16);
  }
  return text;
}

/** The first of the longest runs of zero groups (RFC 5952, section 4.2.3). */
function longestZeros(groups: readonly number[]): { readonly start: number; readonly length: number } {
  let best = { start: 0, length: 0 };
  let start = 0;
  for (let index = 0; index < groups.length; index++) {
    if (groups[index] !== 0) start = index + 1;
    else if (index + 1 - start > best.length) best = { start, length: index + 1 - start };
  }
  return best;
}
