/** Which members of a parallel network have no path to each other. Pure. */

import { byNaturalText } from "@fairlead/base/text.ts";
import { listed } from "./plan-addresses.ts";

/** Two members, in the order in which they were given. */
export type Pair = readonly [string, string];

/**
 * The pairs of which not both sides report a tunnel to the other that answers, direct or by a relay. One that has not reported yet has
 * none: gateways report as soon as a tunnel answers.
 *
 * @param reachedBy - Clusters that a member's gateways reach.
 */
export function pairsWithoutPath(
  members: readonly string[],
  reachedBy: (cluster: string) => ReadonlySet<string>,
): readonly Pair[] {
  const reached = new Map(members.map((it) => [it, reachedBy(it)]));
  const reaches = (from: string, to: string): boolean => reached.get(from)?.has(to) === true;
  return members.flatMap((one, at) =>
    members
      .slice(at + 1)
      .flatMap((other) => (reaches(one, other) && reaches(other, one) ? [] : [[one, other] as const])),
  );
}

/** The members to which one has no path. */
export function unreachedFrom(cluster: string, unconnected: readonly Pair[]): readonly string[] {
  return unconnected.flatMap(([a, b]) => (a === cluster ? [b] : b === cluster ? [a] : []));
}

/** Names the pairs in the order of their names: members that joined at once have no other. */
export function describePairs(unconnected: readonly Pair[]): string {
  const pairs = unconnected.map((it) => it.toSorted(byNaturalText).join(" and ")).toSorted(byNaturalText);
  return `no path between ${listed(pairs)}; see "fairlead status --paths"`;
}
