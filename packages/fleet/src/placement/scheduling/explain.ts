import { defined } from "@fairlead/base/defined.ts";
import { byText } from "@fairlead/base/text.ts";
import { LATEST_SNAPSHOT_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  Placement,
  ResourceBinding,
  SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { planPolicySnapshot } from "../snapshots/policy.ts";
import { type ClassifiedBindings, classifyBindings } from "./bindings.ts";
import { type Choice, roundOf, type Score } from "./choose.ts";
import type { ClusterFacts } from "./cluster.ts";
import { type ExecutionSettings, executionSettings, failingClusters } from "./execution.ts";
import { decisionOf } from "./outcome.ts";
import { compilePolicy, type Filter, type PluginName, type Round } from "./policy.ts";
import { choose, schedule, type Task } from "./schedule.ts";
import { policyOf, snapshotInForce } from "./snapshot.ts";

/** Why a placement has the clusters that it has, and which ones it would have with another policy. */

export interface Explanation {
  readonly type: "PickAll" | "PickFixed" | "PickN";
  readonly policySnapshot: string;
  readonly isFulfilled: boolean;
  readonly message: string;
  /** First those that are picked, then the others, those that nearly were picked first. */
  readonly clusters: readonly ClusterExplanation[];
}
export interface ClusterExplanation {
  readonly cluster: string;
  readonly isPicked: boolean;
  readonly change: "none" | "add" | "remove";
  readonly reason: string;
  readonly affinityScore?: number;
  readonly topologySpreadScore?: number;
  /** What each plugin says of the cluster now, also where it does not count: what is picked stays until the policy changes. */
  readonly plugins: readonly PluginVerdict[];
}
export interface PluginVerdict {
  readonly plugin: PluginName;
  readonly passes: boolean;
  readonly reason?: string;
}

/** A placement and the objects that belong to it. */
export interface Placed {
  readonly placement: Placement;
  readonly snapshots: readonly SchedulingPolicySnapshot[];
  readonly bindings: readonly ResourceBinding[];
  readonly clusters: ReadonlyMap<string, ClusterFacts>;
  readonly isLost?: (cluster: string) => boolean;
}

/** The placement as it is. Undefined while the hub has not made its policy snapshot. */
export function explainPlacement(placed: Placed): Explanation | undefined {
  const snapshot = snapshotInForce(placed.snapshots);
  return snapshot === undefined ? undefined : explain(placed, taskOf(placed, snapshot));
}

/** The placement as it would be: `placement` as the API server would store it. */
export function explainChange(placed: Placed): Explanation {
  return explain(placed, taskOf(placed, plannedSnapshot(placed)));
}

/** The policy snapshot that the hub will make for the placement, or the one that it will keep. */
export function plannedSnapshot(placed: Placed): SchedulingPolicySnapshot {
  const { create, update } = planPolicySnapshot(placed);
  if (create !== undefined) return create;
  const latest = update?.snapshot ?? latestOf(placed.snapshots);
  if (update === undefined) return latest;
  const { metadata } = latest;
  const annotations = { ...metadata.annotations, ...update.annotations };
  const kept = Object.entries(annotations).filter((it): it is [string, string] => it[1] !== null);
  return {
    ...latest,
    metadata: {
      ...metadata,
      labels: { ...metadata.labels, [LATEST_SNAPSHOT_LABEL]: "true" },
      annotations: Object.fromEntries(kept),
    },
  };
}

function latestOf(snapshots: readonly SchedulingPolicySnapshot[]): SchedulingPolicySnapshot {
  const latest = snapshotInForce(snapshots);
  if (latest === undefined) throw new RangeError("a placement that keeps its policy snapshot has one");
  return latest;
}

function taskOf(
  { placement, bindings, clusters, isLost = () => false }: Placed,
  snapshot: SchedulingPolicySnapshot,
): Task {
  const { namespace, name } = placement.metadata;
  const policy = policyOf(snapshot);
  return {
    placement: { namespace, name },
    policy: compilePolicy(policy),
    snapshot: { name: snapshot.metadata.name, hash: snapshot.spec.policyHash },
    count: policy?.numberOfClusters ?? 0,
    clusters,
    bindings,
    isLost,
  };
}

function explain({ placement }: Placed, task: Task): Explanation {
  const { condition } = schedule(task).outcome;
  const bindings = classifyBindings(task);
  const result = {
    type: task.policy.type,
    policySnapshot: task.snapshot.name,
    isFulfilled: condition.status === "True",
    message: condition.message,
  };
  if (task.policy.problems.length > 0) return { ...result, clusters: [] };
  const choice = choose(task, bindings);
  const kept = keptReasons(task, executionSettings(placement.spec.policy));
  return { ...result, clusters: explainClusters(task, bindings, choice, kept) };
}

/** Why clusters stay that were picked before. */
function keptReasons(task: Task, settings: ExecutionSettings | undefined): (cluster: string) => string {
  const failing = new Set(settings === undefined ? [] : failingClusters(task, settings));
  const seconds = (settings?.afterMs ?? 0) / 1000;
  return (cluster) => {
    if (!task.clusters.has(cluster)) return "picked before; its MemberCluster is missing, so that it stays";
    return failing.has(cluster)
      ? `picked before; it is replaced once it has not met the policy for ${seconds} s`
      : "picked before";
  };
}

function explainClusters(
  task: Task,
  bindings: ClassifiedBindings,
  choice: Choice,
  keptReason: (cluster: string) => string,
): ClusterExplanation[] {
  const kept = [...bindings.current.values(), ...bindings.lost];
  const had = new Set(
    [...kept, ...bindings.obsolete.values(), ...bindings.dangling].map((it) => it.spec.targetCluster),
  );
  const verdicts = verdictsIn(task, bindings, choice);
  const of = (cluster: string, isPicked: boolean, reason: string): Omit<ClusterExplanation, "plugins"> => ({
    cluster,
    isPicked,
    change: isPicked === had.has(cluster) ? "none" : isPicked ? "add" : "remove",
    reason,
  });
  const picked = [
    ...kept
      .filter((it) => !choice.dropped.includes(it))
      .map(({ spec: { targetCluster, clusterDecision } }) => ({
        ...of(targetCluster, true, keptReason(targetCluster)),
        ...defined({
          affinityScore: clusterDecision.clusterScore?.affinityScore,
          topologySpreadScore: clusterDecision.clusterScore?.priorityScore,
        }),
      })),
    ...choice.picked.map((it) => ({
      ...of(it.cluster.name, true, decisionOf(it).reason),
      ...scoresOf(it.score),
    })),
  ].toSorted((a, b) => byText(a.cluster, b.cluster));
  const names = new Set(picked.map((it) => it.cluster));
  const unselected = [...choice.unselected]
    .filter((it) => !names.has(it.cluster))
    .map((it) => ({
      ...of(it.cluster, false, it.plugin === undefined ? it.reason : `${it.plugin}: ${it.reason}`),
      ...scoresOf(it.score),
    }));
  const known = new Set([...names, ...unselected.map((it) => it.cluster)]);
  const others = [...had.union(new Set(task.clusters.keys()))]
    .filter((it) => !known.has(it))
    .toSorted(byText)
    .map((it) => of(it, false, task.clusters.has(it) ? "the policy does not name it" : NO_CLUSTER));
  return [...picked, ...unselected, ...others].map((it) => ({ ...it, plugins: verdicts(it) }));
}

function scoresOf(
  score: Score | undefined,
): Pick<ClusterExplanation, "affinityScore" | "topologySpreadScore"> {
  return defined({ affinityScore: score?.affinity, topologySpreadScore: score?.topology });
}

const NO_CLUSTER = "the fleet has no cluster of this name";

/** PickFixed asks for eligibility alone. */
function verdictsIn(
  task: Task,
  bindings: ClassifiedBindings,
  choice: Choice,
): (it: Pick<ClusterExplanation, "cluster" | "isPicked">) => PluginVerdict[] {
  const isFixed = task.policy.type === "PickFixed";
  const filters = task.policy.filters.filter((it) => !isFixed || it.plugin === "ClusterEligibility");
  const dropped = new Set(choice.dropped.map((it) => it.spec.targetCluster));
  const round = roundOf(task, bindings, dropped);
  for (const it of choice.picked) round.spread.place(it.cluster);
  return ({ cluster: name, isPicked }) => {
    const cluster = task.clusters.get(name);
    return cluster === undefined ? [] : filters.map((it) => verdictOf(it, cluster, round, isPicked));
  };
}

/** The spread of what is picked was judged before it was. */
function verdictOf(filter: Filter, cluster: ClusterFacts, round: Round, isPicked: boolean): PluginVerdict {
  const { plugin } = filter;
  const passes = (isPicked && plugin === "TopologySpreadConstraints") || filter.passes(cluster, round);
  return passes ? { plugin, passes } : { plugin, passes, reason: filter.why(cluster, round) };
}
