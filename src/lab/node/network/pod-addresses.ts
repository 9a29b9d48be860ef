import { FleetError } from "#base/errors.ts";
import { formatAddress, type IpAddress, parseAddress } from "#netaddr/address.ts";
import { AddressAllocator, hostRange } from "#netaddr/allocator.ts";
import { formatPrefix, parsePrefix } from "#netaddr/prefix.ts";

/** Addresses of a node's pods: one per family, out of the node's pod CIDRs. Who has which is kept with the pods. */
export class PodAddresses {
  readonly #ranges: readonly { readonly cidr: string; readonly allocator: AddressAllocator }[];

  /** @param cidrs - One per family, the first being that of `status.podIP`. */
  constructor(cidrs: readonly string[]) {
    this.#ranges = cidrs.map((text) => {
      const prefix = parsePrefix(text);
      return { cidr: formatPrefix(prefix), allocator: new AddressAllocator([hostRange(prefix)]) };
    });
  }

  /**
   * One address of each family.
   *
   * @param podUid - Spreads pods over the range, so that an address rests for long before another pod gets it.
   * @throws {FleetError} `OPTION_INVALID` when a range is used up; nothing is taken then.
   */
  allocate(podUid: string): readonly string[] {
    const taken: IpAddress[] = [];
    for (const { cidr, allocator } of this.#ranges) {
      const address = allocator.allocate(podUid);
      if (address === undefined) {
        this.release(taken.map(formatAddress));
        throw new FleetError("OPTION_INVALID", `no address is left in the node's pod CIDR ${cidr}`, {
          retriable: true,
        });
      }
      taken.push(address);
    }
    return taken.map(formatAddress);
  }

  /** Takes the addresses that a pod was given before; false when another pod has one of them or they are not of this node. */
  reserve(addresses: readonly string[]): boolean {
    if (addresses.length !== this.#ranges.length) return false;
    const done: string[] = [];
    for (const [at, text] of addresses.entries()) {
      if (this.#ranges[at]?.allocator.reserve(parseAddress(text)) !== "reserved") {
        this.release(done);
        return false;
      }
      done.push(text);
    }
    return true;
  }

  release(addresses: readonly string[]): void {
    for (const [at, text] of addresses.entries()) this.#ranges[at]?.allocator.release(parseAddress(text));
  }
}
