import type { TopologySpreadConstraint } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { ClusterFacts } from "./cluster.ts";

/** How evenly a placement is over the domains of its topology keys, and what one more cluster would change. */

const DEFAULT_MAX_SKEW = 1;
/** For each constraint of `ScheduleAnyway` that is violated: more than skews can make up for. */
const VIOLATION_SCORE = -1000;

interface Topology {
  readonly key: string;
  readonly maxSkew: number;
  readonly isStrict: boolean;
  /** Placed clusters by domain: the value of the label. All domains of the fleet, also those without any. */
  readonly counts: Map<string, number>;
  extent: Extent;
}

interface Extent {
  readonly least: number;
  /** The least count of the other domains if one domain alone has the least; otherwise `least`. */
  readonly nextLeast: number;
  readonly most: number;
}

export interface SpreadJudgement {
  /** In words, the strict constraint that a cluster would violate. */
  readonly violation: string | undefined;
  readonly score: number;
}

export class Spread {
  readonly #topologies: readonly Topology[];

  /** @param fleet - All clusters: also a domain in which none is suitable is one. */
  constructor(
    constraints: readonly TopologySpreadConstraint[],
    fleet: Iterable<ClusterFacts>,
    isPlaced: (cluster: string) => boolean,
  ) {
    const clusters = [...fleet];
    this.#topologies = constraints.map(
      ({ topologyKey: key, maxSkew = DEFAULT_MAX_SKEW, whenUnsatisfiable }) => {
        const counts = new Map<string, number>();
        for (const cluster of clusters) {
          const domain = domainOf(cluster, key);
          if (domain === undefined) continue;
          counts.set(domain, (counts.get(domain) ?? 0) + (isPlaced(cluster.name) ? 1 : 0));
        }
        return {
          key,
          maxSkew,
          isStrict: whenUnsatisfiable !== "ScheduleAnyway",
          counts,
          extent: extentOf(counts),
        };
      },
    );
  }

  get isNeeded(): boolean {
    return this.#topologies.length > 0;
  }

  /** Clusters of one group are in the same domains. */
  groupOf(cluster: ClusterFacts): string {
    return JSON.stringify(this.#topologies.map(({ key }) => domainOf(cluster, key) ?? null));
  }

  place(cluster: ClusterFacts): void {
    for (const topology of this.#topologies) {
      const domain = domainOf(cluster, topology.key);
      if (domain === undefined) continue;
      topology.counts.set(domain, (topology.counts.get(domain) ?? 0) + 1);
      topology.extent = extentOf(topology.counts);
    }
  }

  judge(cluster: ClusterFacts): SpreadJudgement {
    let score = 0;
    let violation: string | undefined;
    for (const { key, maxSkew, isStrict, counts, extent } of this.#topologies) {
      const domain = domainOf(cluster, key);
      const count = domain === undefined ? undefined : counts.get(domain);
      // A cluster without the label takes no part.
      if (domain === undefined || count === undefined) continue;
      const skew = skewWith(extent, count);
      score -= skew - (extent.most - extent.least);
      if (skew <= maxSkew) continue;
      if (isStrict) violation ??= `${key}=${domain} would have a skew of ${skew}, more than ${maxSkew}`;
      else score += VIOLATION_SCORE;
    }
    return { violation, score: score + 0 };
  }
}

/** Where the spread does not count. */
export const NO_SPREAD = new Spread([], [], () => false);

function extentOf(counts: ReadonlyMap<string, number>): Extent {
  let [least, nextLeast, most] = [Infinity, Infinity, 0];
  for (const count of counts.values()) {
    if (count < least) [least, nextLeast] = [count, least];
    else if (count < nextLeast) nextLeast = count;
    if (count > most) most = count;
  }
  return { least, nextLeast, most };
}

/** The skew with one more in a domain that has `count`. */
function skewWith({ least, nextLeast, most }: Extent, count: number): number {
  const newLeast = count === least ? Math.min(count + 1, nextLeast) : least;
  return Math.max(most, count + 1) - newLeast;
}

function domainOf({ labels }: ClusterFacts, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}
