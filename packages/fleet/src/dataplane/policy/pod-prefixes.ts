import { familyOf, type IpAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, type Prefix, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";

/** A pod of the own cluster, with the addresses that its network plugin gave it. */
export interface PlacedPod {
  readonly isLocal: boolean;
  readonly addresses: readonly IpAddress[];
}

/**
 * The prefixes of a node's pods (`spec.podCIDRs` of the Node), as far as the network plugin goes by them. One with an address management of
 * its own may give them to pods of other nodes, or give other addresses to pods of this one: then they say nothing about new pods. Pure.
 */
export class PodPrefixes {
  #texts: readonly string[] = [];
  #prefixes: readonly Prefix[] = [];
  /** Addresses in the prefixes, by the name of their pod. */
  readonly #elsewhere = new Map<string, readonly IpAddress[]>();
  /** Pods of this node with an address outside of them. */
  readonly #outside = new Set<string>();

  /** @param pods - All of them, by name. */
  set(texts: readonly string[], pods: () => Iterable<readonly [name: string, pod: PlacedPod]>): void {
    if (texts.join() === this.#texts.join()) return;
    this.#texts = texts;
    this.#prefixes = texts.flatMap((it) => tryParsePrefix(it) ?? []);
    this.#elsewhere.clear();
    this.#outside.clear();
    for (const [name, pod] of pods()) this.change(name, pod);
  }

  /** @param pod - Undefined: it is gone. */
  change(name: string, pod: PlacedPod | undefined): void {
    const { isLocal = true, addresses = [] } = pod ?? {};
    const inside = addresses.filter((it) => this.#prefixes.some((prefix) => containsAddress(prefix, it)));
    if (isLocal || inside.length === 0) this.#elsewhere.delete(name);
    else this.#elsewhere.set(name, inside);
    const families = new Set(this.#prefixes.map((it) => it.family));
    const isOutside = addresses.some((it) => families.has(familyOf(it)) && !inside.includes(it));
    if (isLocal && isOutside) this.#outside.add(name);
    else this.#outside.delete(name);
  }

  /** None, if the plugin does not go by them. */
  get used(): readonly string[] {
    return this.#outside.size === 0 ? this.#texts : [];
  }

  /** Addresses of pods of other nodes in these. */
  get elsewhere(): readonly IpAddress[] {
    return this.#outside.size === 0 ? [...this.#elsewhere.values()].flat() : [];
  }

  /** Why there are none; undefined: there are. */
  get problem(): string | undefined {
    const [pod] = this.#outside;
    if (pod !== undefined) return `the pod ${pod} of this node has an address outside of its spec.podCIDRs`;
    return this.#texts.length === 0 ? "the Node has no spec.podCIDRs" : undefined;
  }
}
