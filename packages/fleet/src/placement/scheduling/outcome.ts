import { defined } from "@fairlead/base/defined.ts";
import { byText } from "@fairlead/base/text.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import type {
  ClusterDecision,
  ResourceBinding,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { Candidate, Choice, Score, Unselected } from "./choose.ts";
import type { ClusterFacts } from "./cluster.ts";
import type { CompiledPolicy } from "./policy.ts";

/** What the status of a policy snapshot says. */
export interface Outcome {
  readonly condition: NewCondition;
  readonly targetClusters: readonly ClusterDecision[];
}

const MAX_DECISIONS = 1000;
const MAX_UNSELECTED = 20;
const MAX_MESSAGE = 32_768;

interface Of {
  readonly policy: CompiledPolicy;
  readonly count: number;
  readonly clusters: ReadonlyMap<string, ClusterFacts>;
}

/** @param kept - The bindings that stay as they are. */
export function outcomeOf(
  { policy, count, clusters }: Of,
  kept: readonly ResourceBinding[],
  choice: Choice,
): Outcome {
  const missing = kept.map((it) => it.spec.targetCluster).filter((it) => !clusters.has(it));
  const selected = [...kept.map((it) => it.spec.clusterDecision), ...choice.picked.map(decisionOf)]
    .toSorted((a, b) => byText(a.clusterName, b.clusterName))
    .slice(0, MAX_DECISIONS);
  const unselected = Iterator.from(choice.unselected)
    .take(Math.min(MAX_UNSELECTED, MAX_DECISIONS - selected.length))
    .map(refusal);
  const found = kept.length + choice.picked.length;
  const condition = conditionOf(policy, choice, { found, count });
  const message = `${condition.message}${lostMessage(missing.toSorted(byText))}`.slice(0, MAX_MESSAGE);
  return { condition: { ...condition, message }, targetClusters: [...selected, ...unselected] };
}

function lostMessage(missing: readonly string[]): string {
  if (missing.length === 0) return "";
  const one = missing.length === 1;
  return `; the ${one ? "MemberCluster" : "MemberClusters"} of ${missing.join(", ")} ${one ? "is" : "are"} missing: what is placed there stays`;
}

export function decisionOf({ cluster, score }: Candidate): ClusterDecision {
  return {
    clusterName: cluster.name,
    selected: true,
    ...defined({ clusterScore: reportedScore(score) }),
    reason: pickedReason(score),
  };
}

function pickedReason(score: Score | undefined): string {
  if (score === undefined) return "picked by the scheduling policy";
  const { affinity, topology } = score;
  return `picked by the scheduling policy (affinity score ${affinity}, topology spread score ${topology})`;
}

function refusal({ cluster, plugin, reason, score }: Unselected): ClusterDecision {
  return {
    clusterName: cluster,
    selected: false,
    ...defined({ clusterScore: reportedScore(score) }),
    reason: plugin === undefined ? reason : `${plugin}: ${reason}`,
  };
}

/** `priorityScore` is the JSON name of the topology score. */
function reportedScore(score: Score | undefined): ClusterDecision["clusterScore"] {
  return score === undefined ? undefined : { affinityScore: score.affinity, priorityScore: score.topology };
}

function conditionOf(
  { type, problems, names }: CompiledPolicy,
  { isFulfilled }: Choice,
  { found, count }: { readonly found: number; readonly count: number },
): NewCondition {
  const wanted = { PickAll: found, PickFixed: names.size, PickN: count }[type];
  if (isFulfilled)
    return {
      type: "Scheduled",
      status: "True",
      reason: "SchedulingPolicyFulfilled",
      message: `the scheduling policy is fulfilled: ${found} ${found === 1 ? "cluster" : "clusters"}`,
    };
  const message =
    problems.length > 0
      ? `the scheduling policy cannot be used: ${problems.join("; ")}`
      : `the scheduling policy asks for ${wanted} clusters and ${found} can be picked`;
  return {
    type: "Scheduled",
    status: "False",
    reason: "SchedulingPolicyUnfulfilled",
    message,
  };
}
