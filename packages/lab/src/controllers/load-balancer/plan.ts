import type { IPFamily, LoadBalancerIngress, Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { byText } from "@fairlead/base/text.ts";
import { familyOf, formatAddress, type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { AddressAllocator, hostRange } from "@fairlead/base/netaddr/allocator.ts";
import { familiesOf } from "../services.ts";
import { containsAddress, formatPrefix, type Prefix } from "@fairlead/base/netaddr/prefix.ts";

/** Addresses for Services of type LoadBalancer. */

const LOAD_BALANCER_CLASS = "fairlead.dev/lab";

/** Whether the Service is ours to serve. `loadBalancerClass` picks an implementation (KEP-1959). */
export function isOurs(service: Service): boolean {
  const { type, loadBalancerClass = LOAD_BALANCER_CLASS } = service.spec ?? {};
  return type === "LoadBalancer" && loadBalancerClass === LOAD_BALANCER_CLASS && !isDeleting(service);
}

export interface AddressPlan {
  /** What `status.loadBalancer.ingress` is to be. */
  readonly ingress: readonly LoadBalancerIngress[];
  /** Families that the Service wants and no address is left for. */
  readonly missing: readonly string[];
}

/**
 * Assignments of addresses. Nothing is stored: a Service's status is the record, and is read back by `adopt` after a
 * restart. The same Services in the same order get the same addresses.
 */
export class AddressBook {
  readonly #pools: ReadonlyMap<IPFamily, { readonly prefix: Prefix; readonly allocator: AddressAllocator }>;
  readonly #held = new Map<ObjectKey, Map<IPFamily, IpAddress>>();

  /** @param prefixes - One per family at most. */
  constructor(prefixes: readonly Prefix[]) {
    this.#pools = new Map(
      prefixes.map((prefix) => [
        prefix.family,
        { prefix, allocator: new AddressAllocator([hostRange(prefix)]) },
      ]),
    );
  }

  /** Takes over what Services have already, the oldest first: of two with one address the younger gets another. */
  adopt(services: Iterable<readonly [ObjectKey, Service]>): void {
    const known = [...services].filter(([, service]) => isOurs(service));
    const oldestFirst = known.toSorted(
      ([keyA, a], [keyB, b]) =>
        byText(a.metadata.creationTimestamp ?? "", b.metadata.creationTimestamp ?? "") || byText(keyA, keyB),
    );
    for (const [key, service] of oldestFirst) {
      for (const address of addressesOf(service)) this.#reserve(key, address);
    }
  }

  /** The addresses that a Service is to have: those it has, what it asks for if that is free, or any other. */
  assign(key: ObjectKey, service: Service): AddressPlan {
    const wanted = familiesOf(service);
    const held = this.#held.get(key) ?? new Map<IPFamily, IpAddress>();
    for (const [family, address] of held) if (!wanted.includes(family)) this.#free(key, family, address);
    this.#honour(key, service);
    for (const address of addressesOf(service)) this.#reserve(key, address);
    const ingress: LoadBalancerIngress[] = [];
    const missing: string[] = [];
    for (const family of wanted) {
      const address = this.#held.get(key)?.get(family) ?? this.#allocate(key, family);
      if (address === undefined) missing.push(this.#nameOf(family));
      else ingress.push({ ip: formatAddress(address), ipMode: "VIP" });
    }
    return { ingress, missing };
  }

  release(key: ObjectKey): void {
    for (const [family, address] of this.#held.get(key) ?? []) this.#free(key, family, address);
  }

  /** Whether the address is one that this book hands out. */
  covers(text: string): boolean {
    const address = tryParseAddress(text);
    if (address === undefined) return false;
    const pool = this.#pools.get(familyOf(address));
    return pool !== undefined && containsAddress(pool.prefix, address);
  }

  /** `spec.loadBalancerIP`: given when it is free, in place of the one that the Service has. */
  #honour(key: ObjectKey, service: Service): void {
    const address = tryParseAddress(service.spec?.loadBalancerIP ?? "");
    if (address === undefined || !familiesOf(service).includes(familyOf(address))) return;
    const family = familyOf(address);
    const present = this.#held.get(key)?.get(family);
    if (present === address) return;
    if (this.#pools.get(family)?.allocator.reserve(address) !== "reserved") return;
    if (present !== undefined) this.#pools.get(family)?.allocator.release(present);
    this.#hold(key, address);
  }

  /** An address that the Service's status names, unless it has one of that family or someone else has this one. */
  #reserve(key: ObjectKey, address: IpAddress): void {
    const family = familyOf(address);
    if (this.#held.get(key)?.has(family) === true) return;
    if (this.#pools.get(family)?.allocator.reserve(address) === "reserved") this.#hold(key, address);
  }

  #nameOf(family: IPFamily): string {
    const prefix = this.#pools.get(family)?.prefix;
    return prefix === undefined ? `${family} (no CIDR given)` : `${family} (${formatPrefix(prefix)})`;
  }

  #allocate(key: ObjectKey, family: IPFamily): IpAddress | undefined {
    const address = this.#pools.get(family)?.allocator.allocate();
    if (address !== undefined) this.#hold(key, address);
    return address;
  }

  #hold(key: ObjectKey, address: IpAddress): void {
    const held = this.#held.get(key) ?? new Map<IPFamily, IpAddress>();
    held.set(familyOf(address), address);
    this.#held.set(key, held);
  }

  #free(key: ObjectKey, family: IPFamily, address: IpAddress): void {
    this.#pools.get(family)?.allocator.release(address);
    const held = this.#held.get(key);
    held?.delete(family);
    if (held?.size === 0) this.#held.delete(key);
  }
}

function addressesOf(service: Service): IpAddress[] {
  return (service.status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => {
    const address = tryParseAddress(ip ?? "");
    return address === undefined || !familiesOf(service).includes(familyOf(address)) ? [] : [address];
  });
}
