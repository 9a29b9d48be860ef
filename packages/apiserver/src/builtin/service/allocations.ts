import type { IPFamily, Service } from "@fairlead/kube/api/core/v1/types.ts";
import { type ObjectKey, keyOf } from "@fairlead/kube/api/meta/key.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { hash32 } from "@fairlead/base/text.ts";
import { formatAddress, tryParseAddress, type IpAddress } from "@fairlead/base/netaddr/address.ts";
import {
  addressAt,
  containsAddress,
  formatPrefix,
  parsePrefix,
  type Prefix,
  sizeOf,
} from "@fairlead/base/netaddr/prefix.ts";
import type { ApiObject } from "#values/object.ts";
import { clusterIpsOf, nodePortsOf } from "./shape.ts";

export interface AllocationOptions {
  /** CIDRs of cluster IPs, at most one per family. The first is the default family. */
  readonly serviceRanges: readonly string[];
  /** First and last port that Services may hold on nodes. Default: 30000 to 32767. */
  readonly nodePorts?: { readonly first: number; readonly last: number };
}

/** Positions from `first` on. Those below `dynamicFrom` are kept for Services that ask for a certain one (KEP-3070, KEP-3668). */
interface Band {
  readonly first: number;
  readonly size: number;
  readonly dynamicFrom: number;
}

interface IpRange {
  readonly prefix: Prefix;
  readonly band: Band;
}

/** Larger ranges are used up to here: upstream refuses them. Unit: addresses. */
const MAX_RANGE = 2 ** 20;

/**
 * Which Service holds which cluster IP and node port.
 *
 * Follows the store through `stored`, so that what a restart finds is what was there before it. A choice is made in the
 * turn in which it is committed: between choosing and holding nothing else happens, and nothing needs to be reserved.
 */
export class ServiceAllocations {
  readonly families: readonly IPFamily[];
  readonly #ranges = new Map<IPFamily, IpRange>();
  readonly #ports: { readonly first: number; readonly last: number; readonly band: Band };
  readonly #ownerByIp = new Map<IpAddress, ObjectKey>();
  readonly #ownerByPort = new Map<number, ObjectKey>();
  /** Addresses for which an IPAddress exists, regardless of its creator: none of them is free. */
  readonly #named = new Set<IpAddress>();

  /** @throws {FleetError} `OPTION_INVALID` without a range, or with two of one family. */
  constructor(options: AllocationOptions) {
    for (const text of options.serviceRanges) {
      const prefix = parsePrefix(text);
      if (this.#ranges.has(prefix.family)) {
        throw new FleetError("OPTION_INVALID", `two service ranges are ${prefix.family}`);
      }
      this.#ranges.set(prefix.family, { prefix, band: ipBand(prefix) });
    }
    this.families = [...this.#ranges.keys()];
    if (this.families.length === 0) throw new FleetError("OPTION_INVALID", "there is no service range");
    const { first, last } = options.nodePorts ?? { first: 30_000, last: 32_767 };
    const size = last - first + 1;
    this.#ports = { first, last, band: { first, size, dynamicFrom: staticShare(size, 32, 128) } };
  }

  /** The family of Services that do not ask for one. */
  get defaultFamily(): IPFamily {
    return this.families[0] ?? "IPv4";
  }

  /** The CIDRs, the default family's first. */
  get ranges(): readonly string[] {
    return [...this.#ranges.values()].map((it) => formatPrefix(it.prefix));
  }

  /** The first address of a range, which belongs to the Service `default/kubernetes`. */
  firstIpOf(family: IPFamily): string | undefined {
    const range = this.#ranges.get(family);
    return range === undefined ? undefined : formatAddress(addressAt(range.prefix, 1));
  }

  /**
   * A free address, or undefined if the range is full. The search starts at an offset derived from `key`: a Service that
   * is recreated tends to get its address again, and Services created in sequence do not get adjacent addresses.
   */
  chooseIp(family: IPFamily, key: ObjectKey): string | undefined {
    const range = this.#ranges.get(family);
    if (range === undefined) return undefined;
    const position = choose(range.band, key, (it) => this.#isTaken(addressAt(range.prefix, it)));
    return position === undefined ? undefined : formatAddress(addressAt(range.prefix, position));
  }

  /** As `chooseIp`, without the ports in `besides`, which the Service has already. */
  choosePort(key: ObjectKey, besides: ReadonlySet<number>): number | undefined {
    return choose(this.#ports.band, key, (it) => this.#ownerByPort.has(it) || besides.has(it));
  }

  /** Why the Service `key` cannot hold this address; undefined when it can. */
  refuseIp(text: string, key: ObjectKey): string | undefined {
    const address = tryParseAddress(text);
    if (address === undefined) return "must be a valid IP address";
    const ranges = [...this.#ranges.values()];
    const range = ranges.find((it) => containsAddress(it.prefix, address));
    if (range === undefined || !isUsable(range, address)) {
      return "the provided network does not match the current range";
    }
    const isOwn = this.#ownerByIp.get(address) === key;
    return isOwn || !this.#isTaken(address) ? undefined : "provided IP is already allocated";
  }

  /** The Service that holds an address. */
  ownerOf(text: string): ObjectKey | undefined {
    const address = tryParseAddress(text);
    return address === undefined ? undefined : this.#ownerByIp.get(address);
  }

  /** Why the Service `key` cannot hold this port; undefined when it can. */
  refusePort(port: number, key: ObjectKey): string | undefined {
    const { first, last } = this.#ports;
    if (port < first || port > last) {
      return `provided port is not in the valid range. The range of valid ports is ${first}-${last}`;
    }
    const owner = this.#ownerByPort.get(port);
    return owner === undefined || owner === key ? undefined : "provided port is already allocated";
  }

  #isTaken(address: IpAddress): boolean {
    return this.#ownerByIp.has(address) || this.#named.has(address);
  }

  /** Follows the IPAddresses in the store. */
  named(after: ApiObject | undefined, before: ApiObject | undefined): void {
    const address = tryParseAddress((after ?? before)?.metadata.name ?? "");
    if (address === undefined) return;
    if (after === undefined) this.#named.delete(address);
    else this.#named.add(address);
  }

  /** Follows the Services in the store. */
  stored(after: ApiObject | undefined, before: ApiObject | undefined): void {
    if (before !== undefined) this.#release(before);
    if (after !== undefined) this.#hold(after);
  }

  #hold(service: ApiObject & Service): void {
    const key = keyOf(service);
    for (const it of addressesOf(service)) this.#ownerByIp.set(it, key);
    for (const it of nodePortsOf(service.spec ?? {})) this.#ownerByPort.set(it, key);
  }

  #release(service: ApiObject & Service): void {
    const key = keyOf(service);
    for (const it of addressesOf(service)) if (this.#ownerByIp.get(it) === key) this.#ownerByIp.delete(it);
    for (const it of nodePortsOf(service.spec ?? {})) {
      if (this.#ownerByPort.get(it) === key) this.#ownerByPort.delete(it);
    }
  }
}

function addressesOf(service: Service): readonly IpAddress[] {
  return clusterIpsOf(service.spec ?? {})
    .map(tryParseAddress)
    .filter((it) => it !== undefined);
}

/** Neither the network's own address nor, in IPv4, the broadcast address. */
function ipBand(prefix: Prefix): Band {
  const size = Math.min(Number(sizeOf(prefix)), MAX_RANGE);
  const unusable = prefix.family === "IPv4" ? 2 : 1;
  return { first: 1, size: Math.max(0, size - unusable), dynamicFrom: staticShare(size, 16, 256) };
}

function isUsable({ prefix, band }: IpRange, address: IpAddress): boolean {
  const position = BigInt(address) - BigInt(prefix.network);
  return position >= BigInt(band.first) && position < BigInt(band.first + band.size);
}

/** How much of a range is kept for those who choose themselves: a share of it, at least 16, at most `max`. */
function staticShare(size: number, divisor: number, max: number): number {
  return size < 16 ? 0 : Math.min(Math.max(16, Math.floor(size / divisor)), max);
}

/** A free position: in the dynamic part of the band first, and in the static part when that is full. */
function choose(
  { first, size, dynamicFrom }: Band,
  key: string,
  isTaken: (position: number) => boolean,
): number | undefined {
  const dynamic = Math.max(0, size - dynamicFrom);
  const start = dynamic === 0 ? 0 : hash32(key) % dynamic;
  for (let step = 0; step < dynamic; step++) {
    const position = first + dynamicFrom + ((start + step) % dynamic);
    if (!isTaken(position)) return position;
  }
  for (let position = first; position < first + Math.min(dynamicFrom, size); position++) {
    if (!isTaken(position)) return position;
  }
  return undefined;
}
