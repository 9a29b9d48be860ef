import { mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { replaceFileSync } from "@fairlead/base/replace-file.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import {
  formatAddress,
  type IpAddress,
  parseAddress,
  tryParseAddress,
} from "@fairlead/base/netaddr/address.ts";
import { AddressAllocator, hostRange } from "@fairlead/base/netaddr/allocator.ts";
import { formatPrefix, parsePrefix } from "@fairlead/base/netaddr/prefix.ts";

/**
 * How long a released address is not assigned again: conntrack remembers an unanswered SYN and a closed
 * connection that long (nf_conntrack_tcp_timeout_syn_sent, _time_wait), and others may believe longer still that the pod
 * is there. Unit: milliseconds.
 */
const REST_MS = 120_000;

/** At most this many released addresses are kept in order. Addresses released earlier count as never used. */
const MAX_RESTING = 1024;

/** When no address can be given, it is tried again at the latest after this. Unit: milliseconds. */
const RETRY_MS = 5000;

/** No address can be given at the moment. */
export class NoAddressError extends Error {
  /** Unit: milliseconds since the Unix epoch. */
  readonly retryAtMs: number;

  constructor(message: string, retryAtMs: number) {
    super(message);
    this.retryAtMs = retryAtMs;
  }
}

interface Range {
  readonly cidr: string;
  /** Holds what pods have and what rests. */
  readonly allocator: AddressAllocator;
  /** Release times of addresses, oldest first. Unit: milliseconds since the Unix epoch. */
  readonly resting: Map<IpAddress, number>;
}

/**
 * Addresses of a node's pods: one per family, out of the node's pod CIDRs. Never used addresses are assigned first, then
 * the one that has been free for longest. Assignments are stored with the pods; resting addresses are stored in a file.
 */
export class PodAddresses {
  readonly #ranges: readonly Range[];
  readonly #clock: Clock;
  readonly #file: string;

  /** @param cidrs - One per family, the first being that of `status.podIP`. @param file - Outlives the kubelet. */
  constructor(cidrs: readonly string[], { clock, file }: { readonly clock: Clock; readonly file: string }) {
    this.#clock = clock;
    this.#file = file;
    this.#ranges = cidrs.map((text) => {
      const prefix = parsePrefix(text);
      return {
        cidr: formatPrefix(prefix),
        allocator: new AddressAllocator([hostRange(prefix)]),
        resting: new Map(),
      };
    });
    for (const [text, atMs] of readResting(file)) this.#rest(text, atMs);
  }

  /**
   * One address of each family.
   *
   * @throws {NoAddressError} when a range has none that has been free for long enough; nothing is taken then.
   */
  allocate(): readonly string[] {
    const nowMs = this.#clock.now();
    const chosen = this.#ranges.map((range) => this.#choose(range, nowMs));
    for (const [at, address] of chosen.entries()) {
      this.#ranges[at]?.resting.delete(address);
      this.#ranges[at]?.allocator.reserve(address);
    }
    return chosen.map(formatAddress);
  }

  /** Takes the addresses that a pod was given before; false when another pod has one of them or they are not of this node. */
  reserve(addresses: readonly string[]): boolean {
    if (addresses.length !== this.#ranges.length) return false;
    const done: string[] = [];
    for (const [at, text] of addresses.entries()) {
      const range = this.#ranges[at];
      const address = parseAddress(text);
      if (range?.resting.delete(address) !== true && range?.allocator.reserve(address) !== "reserved") {
        for (const it of done) this.#rest(it, this.#clock.now());
        return false;
      }
      done.push(text);
    }
    return true;
  }

  release(addresses: readonly string[]): void {
    if (addresses.length === 0) return;
    const nowMs = this.#clock.now();
    for (const text of addresses) this.#rest(text, nowMs);
    const resting = this.#ranges.flatMap((it) => [...it.resting]);
    mkdirSync(dirname(this.#file), { recursive: true });
    const text = JSON.stringify(resting.map(([address, atMs]) => [formatAddress(address), atMs]));
    replaceFileSync(this.#file, text);
  }

  #choose({ cidr, allocator, resting }: Range, nowMs: number): IpAddress {
    const fresh = allocator.allocate();
    if (fresh !== undefined) {
      allocator.release(fresh);
      return fresh;
    }
    // If the clock was set back, no address rests longer because of it.
    for (const [address, atMs] of resting) if (atMs > nowMs) resting.set(address, nowMs);
    const [oldest] = resting;
    const restMs = oldest === undefined ? RETRY_MS : REST_MS - (nowMs - oldest[1]);
    if (oldest !== undefined && restMs <= 0) return oldest[0];
    throw new NoAddressError(
      `no address of the node's pod CIDR ${cidr} has been free for ${REST_MS / 60_000} minutes`,
      nowMs + Math.min(restMs, RETRY_MS),
    );
  }

  /** Releases a pod's address. */
  #rest(text: string, atMs: number): void {
    const address = tryParseAddress(text);
    const range = this.#ranges.find(
      ({ allocator }) =>
        address !== undefined && (allocator.has(address) || allocator.reserve(address) === "reserved"),
    );
    if (address === undefined || range === undefined) return;
    const { allocator, resting } = range;
    resting.delete(address);
    resting.set(address, atMs);
    const [oldest] = resting;
    if (resting.size <= MAX_RESTING || oldest === undefined || atMs - oldest[1] < REST_MS) return;
    resting.delete(oldest[0]);
    allocator.release(oldest[0]);
  }
}

/** Addresses and their release times; empty if the file is absent or incomplete. */
function readResting(file: string): readonly (readonly [address: string, atMs: number])[] {
  try {
    const value: unknown = JSON.parse(readFileSync(file, "utf8"));
    if (!Array.isArray(value)) return [];
    return value.filter(
      (it): it is [string, number] =>
        Array.isArray(it) && typeof it[0] === "string" && typeof it[1] === "number",
    );
  } catch {
    return [];
  }
}
