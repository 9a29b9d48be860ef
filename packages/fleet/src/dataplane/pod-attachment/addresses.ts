import { AddressAllocator, hostRange } from "@fairlead/base/netaddr/allocator.ts";
import {
  type AddressFamily,
  formatAddress,
  type IpAddress,
  tryParseAddress,
} from "@fairlead/base/netaddr/address.ts";
import { parsePrefix, type Prefix } from "@fairlead/base/netaddr/prefix.ts";
import { byText } from "@fairlead/base/text.ts";
import type { Allocation } from "#api/fairlead.dev/v1alpha1/mesh.ts";

/**
 * Time for which no pod gets the addresses of one that is gone: answers of the DNS may be used for 5 s (their TTL), and
 * flows to the old pod may be remembered for 120 s after their last packet (net.netfilter.nf_conntrack_udp_timeout_stream).
 * The rest is for changes that are under way. Unit: milliseconds.
 */
export const QUARANTINE_MS = 150_000;

export interface AddressWish {
  /** UIDs of the pods of the node that have fleet addresses. */
  readonly podUIDs: readonly string[];
  /** Blocks of the node, of both families. */
  readonly blocks: readonly string[];
  /** Unit: milliseconds since the Unix epoch. */
  readonly nowMs: number;
  /** Unit: milliseconds. Default: `QUARANTINE_MS`. */
  readonly quarantineMs?: number;
}

export interface AddressPlan {
  /** By UID. Those with `releasedAt` are in quarantine. */
  readonly allocations: readonly Allocation[];
  /** Pods for which a family has no free address. */
  readonly exhausted: readonly string[];
  /** When the next quarantine ends; undefined without quarantines. Unit: milliseconds since the Unix epoch. */
  readonly dueAtMs: number | undefined;
}

/** The node's own address in one of its blocks: the first that a host may have. */
export function nodeAddress(block: string): string {
  return formatAddress(hostRange(parsePrefix(block)).first);
}

/**
 * Gives each pod one address of each family, and keeps those that it has. Pods get addresses by their UIDs, so that after
 * a loss of the record most get their old ones. Pure: the same record and wish yield the same plan.
 *
 * @param before - The record, in any state: entries that contradict each other or the blocks are dropped.
 */
export function planAddresses(before: readonly Allocation[], wish: AddressWish): AddressPlan {
  const wanted = new Set(wish.podUIDs);
  const blocks = wish.blocks.map((it) => parsePrefix(it));
  const pools = { ipv4: new Pool(blocks, "IPv4"), ipv6: new Pool(blocks, "IPv6") };
  const plan = new Map(keep(before, wish, pools).map((it) => [it.podUID, it]));
  const missing = [...wanted].filter((it) => !plan.has(it)).toSorted(byText);
  const exhausted: string[] = [];
  for (const podUID of missing)
    if (pools.ipv4.isFull || pools.ipv6.isFull) exhausted.push(podUID);
    else plan.set(podUID, { podUID, ipv4: pools.ipv4.allocate(podUID), ipv6: pools.ipv6.allocate(podUID) });
  const allocations = [...plan.values()].toSorted((a, b) => byText(a.podUID, b.podUID));
  const dueAtMs = Math.min(...allocations.map((it) => endMs(it, wish)));
  return { allocations, exhausted, dueAtMs: Number.isFinite(dueAtMs) ? dueAtMs : undefined };
}

interface Pools {
  readonly ipv4: Pool;
  readonly ipv6: Pool;
}

/** The entries that remain, with the state that they have now; their addresses are taken from the pools. */
function keep(before: readonly Allocation[], wish: AddressWish, pools: Pools): readonly Allocation[] {
  const wanted = new Set(wish.podUIDs);
  const seen = new Set<string>();
  // Addresses in use come first: a pod that has one keeps it, whatever else the record says.
  return before
    .toSorted((a, b) => order(a, wanted) - order(b, wanted) || byText(a.podUID, b.podUID))
    .map((it) => (wanted.has(it.podUID) ? withoutRelease(it) : released(it, wish.nowMs)))
    .filter((it) => {
      if (seen.has(it.podUID) || endMs(it, wish) <= wish.nowMs) return false;
      if (!pools.ipv4.isFree(it.ipv4) || !pools.ipv6.isFree(it.ipv6)) return false;
      seen.add(it.podUID);
      pools.ipv4.take(it.ipv4);
      pools.ipv6.take(it.ipv6);
      return true;
    });
}

function order(it: Allocation, wanted: ReadonlySet<string>): number {
  return (wanted.has(it.podUID) ? 0 : 2) + (it.releasedAt === undefined ? 0 : 1);
}

function withoutRelease({ podUID, ipv4, ipv6 }: Allocation): Allocation {
  return { podUID, ipv4, ipv6 };
}

/** A time that cannot be read, or lies ahead because a clock was wrong, becomes now. */
function released(it: Allocation, nowMs: number): Allocation {
  const atMs = Date.parse(it.releasedAt ?? "");
  return atMs <= nowMs ? it : { ...it, releasedAt: new Date(nowMs).toISOString() };
}

/** When the quarantine ends; never for addresses in use. */
function endMs({ releasedAt }: Allocation, { quarantineMs = QUARANTINE_MS }: AddressWish): number {
  return releasedAt === undefined ? Infinity : Date.parse(releasedAt) + quarantineMs;
}

/** The addresses of one family that pods may have: no network, broadcast or Subnet-Router address, and not the node's. */
class Pool {
  readonly #allocator: AddressAllocator | undefined;

  constructor(blocks: readonly Prefix[], family: AddressFamily) {
    const ranges = blocks
      .filter((it) => it.family === family)
      .map((it) => hostRange(it))
      .map(({ first, last }) => ({ first: plusOne(first), last }))
      .filter(({ first, last }) => first <= last);
    this.#allocator = ranges.length === 0 ? undefined : new AddressAllocator(ranges);
  }

  get isFull(): boolean {
    return this.#allocator === undefined || this.#allocator.taken >= this.#allocator.size;
  }

  /** Whether a pod may have this address, and none has it. */
  isFree(text: string): boolean {
    const address = tryParseAddress(text);
    if (address === undefined || this.#allocator?.reserve(address) !== "reserved") return false;
    this.#allocator.release(address);
    return true;
  }

  take(text: string): void {
    const address = tryParseAddress(text);
    if (address !== undefined) this.#allocator?.reserve(address);
  }

  /** @throws {RangeError} if it is full. */
  allocate(key: string): string {
    const address = this.#allocator?.allocate(key);
    if (address === undefined) throw new RangeError("no free address");
    return formatAddress(address);
  }
}

function plusOne(address: IpAddress): IpAddress {
  return typeof address === "number" ? address + 1 : address + 1n;
}
