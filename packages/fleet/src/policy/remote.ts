import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import { bitsOf, familyOf } from "@fairlead/base/netaddr/address.ts";
import { aggregated, overlapping } from "@fairlead/base/netaddr/aggregate.ts";
import { type Prefix, prefixOf } from "@fairlead/base/netaddr/prefix.ts";
import type { PrefixSet } from "./model.ts";
import { prefixSet } from "./peers.ts";

/** Addresses that pods of another cluster have. */
export interface RemoteNetwork {
  /** Absent: it is not known of which one. */
  readonly cluster?: string;
  readonly prefixes: readonly Prefix[];
}

/** Clusters other than the own one. */
export type Clusters = "none" | "any" | readonly string[];

/** The addresses that pods of other clusters have. None: these are not known. */
export class Remote {
  /** Name of the own cluster. */
  readonly cluster: string;
  /** Of all other clusters: in order, without overlaps. */
  readonly prefixes: readonly Prefix[];
  /** By cluster; undefined: those of which it is not known. */
  readonly #networks: ReadonlyMap<string | undefined, readonly RemoteNetwork[]>;
  #whole: PrefixSet | undefined;

  constructor(cluster: string, networks: readonly RemoteNetwork[]) {
    this.cluster = cluster;
    this.#networks = Map.groupBy(networks, (it) => it.cluster);
    this.prefixes = aggregated(networks.flatMap((it) => it.prefixes));
  }

  /** All of them: made once, however many rules refer to it. */
  get whole(): PrefixSet {
    this.#whole ??= prefixSet(this.prefixes);
    return this.#whole;
  }

  /** The addresses that pods of some clusters may have. */
  of(clusters: Clusters): PrefixSet {
    if (clusters === "any") return this.whole;
    const theirs =
      clusters === "none" ? [] : [undefined, ...clusters].flatMap((it) => this.#networks.get(it) ?? []);
    return prefixSet(aggregated(theirs.flatMap((it) => it.prefixes)));
  }

  has(address: IpAddress): boolean {
    return this.overlapping(prefixOf(address, bitsOf(familyOf(address)))).length > 0;
  }

  overlapping(prefix: Prefix): readonly Prefix[] {
    return overlapping(this.prefixes, prefix);
  }
}

export function unitedClusters(all: Iterable<Clusters>): Clusters {
  const named = new Set<string>();
  for (const it of all) {
    if (it === "any") return "any";
    for (const cluster of it === "none" ? [] : it) named.add(cluster);
  }
  return named.size === 0 ? "none" : [...named];
}
