import { FleetError } from "#errors.ts";
import { hash32 } from "#text.ts";
import { familyOf, formatAddress, type IpAddress } from "./address.ts";
import { addressAt, type Prefix, sizeOf } from "./prefix.ts";

/** Addresses from `first` to `last`, both included. */
export interface AddressRange {
  readonly first: IpAddress;
  readonly last: IpAddress;
}

/**
 * The addresses of a prefix that a host may have: without the network address (in IPv6 the Subnet-Router anycast address,
 * RFC 4291 section 2.6.1) and, in IPv4, without the broadcast address. All of them when there are at most two.
 */
export function hostRange(prefix: Prefix): AddressRange {
  if (sizeOf(prefix) <= 2n) return { first: prefix.network, last: addressAt(prefix, -1) };
  return { first: addressAt(prefix, 1), last: addressAt(prefix, prefix.family === "IPv4" ? -2 : -1) };
}

/** Of a larger range, only the first 2^32 addresses are used: more leases would not fit into memory. */
const MAX_RANGE = 2 ** 32;

interface Span {
  readonly first: IpAddress;
  readonly size: number;
  /** Position of the first address among all addresses of the allocator. */
  readonly start: number;
}

/**
 * Allocates addresses of one family. Deterministic: the same calls return the same addresses.
 *
 * Its leases are only in memory. After a restart, the owner reserves the addresses in use before it allocates.
 */
export class AddressAllocator {
  readonly #spans: readonly Span[];
  readonly #taken = new Set<IpAddress>();
  /** How many addresses there are in all. */
  readonly size: number;
  /** No address in front of this position is free. */
  #lowestFree = 0;

  /** @throws {FleetError} `OPTION_INVALID` when there is no range, or one is empty, overlaps another or mixes families. */
  constructor(ranges: readonly AddressRange[]) {
    checkRanges(ranges);
    const spans: Span[] = [];
    let start = 0;
    for (const { first, last } of ranges) {
      const size = Math.min(Number(BigInt(last) - BigInt(first) + 1n), MAX_RANGE);
      spans.push({ first, size, start });
      start += size;
    }
    this.#spans = spans;
    this.size = start;
  }

  /** How many addresses are handed out or reserved. */
  get taken(): number {
    return this.#taken.size;
  }

  has(address: IpAddress): boolean {
    return this.#taken.has(address);
  }

  /**
   * Takes a free address; undefined if the ranges are exhausted.
   *
   * @param key - The owner. The search starts at a position derived from the key, so that an owner tends to get the same
     address again. Without a key, the lowest free address is taken.
   */
  allocate(key?: string): IpAddress | undefined {
    if (this.#taken.size >= this.size) return undefined;
    const from = key === undefined ? this.#lowestFree : hash32(key) % this.size;
    for (let step = 0; step < this.size; step++) {
      const position = (from + step) % this.size;
      const address = this.#at(position);
      if (this.#taken.has(address)) continue;
      this.#taken.add(address);
      if (key === undefined || position === this.#lowestFree) this.#lowestFree = position + 1;
      return address;
    }
    return undefined;
  }

  /** Takes this very address. */
  reserve(address: IpAddress): "reserved" | "taken" | "out of range" {
    if (this.#positionOf(address) === undefined) return "out of range";
    if (this.#taken.has(address)) return "taken";
    this.#taken.add(address);
    return "reserved";
  }

  /** Releases an address. Returns whether it was allocated. */
  release(address: IpAddress): boolean {
    if (!this.#taken.delete(address)) return false;
    const position = this.#positionOf(address);
    if (position !== undefined) this.#lowestFree = Math.min(this.#lowestFree, position);
    return true;
  }

  #at(position: number): IpAddress {
    for (const { first, size, start } of this.#spans) {
      const offset = position - start;
      if (offset < size) return typeof first === "number" ? first + offset : first + BigInt(offset);
    }
    throw new RangeError(`no address at position ${position}`);
  }

  #positionOf(address: IpAddress): number | undefined {
    for (const { first, size, start } of this.#spans) {
      if (typeof address !== typeof first) continue;
      const offset = BigInt(address) - BigInt(first);
      if (offset >= 0n && offset < BigInt(size)) return start + Number(offset);
    }
    return undefined;
  }
}

function checkRanges(ranges: readonly AddressRange[]): void {
  const problems: string[] = [];
  if (ranges.length === 0) problems.push("there is no range");
  const [sample] = ranges;
  for (const [index, range] of ranges.entries()) {
    const shown = `${formatAddress(range.first)}-${formatAddress(range.last)}`;
    const mixed = [range.first, range.last].some(
      (it) => sample !== undefined && familyOf(it) !== familyOf(sample.first),
    );
    if (mixed) problems.push(`${shown} is of another family`);
    else if (range.last < range.first) problems.push(`${shown} is empty`);
    else if (ranges.slice(0, index).some((it) => it.first <= range.last && range.first <= it.last)) {
      problems.push(`${shown} overlaps another range`);
    }
  }
  if (problems.length > 0) throw new FleetError("OPTION_INVALID", `address ranges: ${problems.join("; ")}`);
}
