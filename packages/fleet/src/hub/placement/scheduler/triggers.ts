import type { ClusterFacts } from "#placement/scheduling/cluster.ts";
import type { CompiledPolicy, Round } from "#placement/scheduling/policy.ts";
import { NO_SPREAD } from "#placement/scheduling/spread.ts";
import type { ClusterChange } from "./fleet.ts";

/** What was found when a placement was scheduled last. */
export interface Known {
  readonly namespace: string | undefined;
  readonly policy: CompiledPolicy;
  /** Whether it has as many clusters as it asks for. */
  readonly isFulfilled: boolean;
  /** Whether clusters that meet the policy no longer are replaced. */
  readonly isContinuous: boolean;
}

/**
 * Whether a placement may get other clusters because one is another than before. Bindings of clusters that are deleted are
 * found by their index. Unless its policy is required during execution, labels, taints and health of a cluster that is picked do
 * not count until the policy changes.
 */
export function concerns(change: ClusterChange, known: Known): boolean {
  const { name, before, after } = change;
  const { policy, isFulfilled, isContinuous } = known;
  // First, as it costs nothing: each member reports its usage every minute, and each placement is asked.
  if (!isOtherFor(policy, change)) return false;
  if (isContinuous) return true;
  const isThere = after !== undefined && !after.isLeaving;
  switch (policy.type) {
    case "PickFixed":
      return policy.names.has(name) && !isFulfilled && isThere;
    case "PickAll":
      return isThere && isSuitable(after, known) && !(before !== undefined && isSuitable(before, known));
    case "PickN":
      return !isFulfilled;
    default:
      return policy.type satisfies never;
  }
}

function isSuitable(cluster: ClusterFacts, { policy, namespace }: Known): boolean {
  const round: Round = { namespace, isPlaced: () => false, spread: NO_SPREAD };
  return policy.filters.every((it) => it.passes(cluster, round));
}

/** Properties that the policy does not read do not count. */
function isOtherFor(policy: CompiledPolicy, { before, after, isUsageOnly }: ClusterChange): boolean {
  if (!isUsageOnly || before === undefined || after === undefined) return true;
  return [...policy.properties].some((it) => before.property(it) !== after.property(it));
}
