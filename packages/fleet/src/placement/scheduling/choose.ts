import { byText } from "@fairlead/base/text.ts";
import type { ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { ClassifiedBindings } from "./bindings.ts";
import type { ClusterFacts } from "./cluster.ts";
import type { ExecutionPlan } from "./execution.ts";
import type { CompiledPolicy, PluginName, Round } from "./policy.ts";
import { Spread } from "./spread.ts";

/** Which clusters a placement gets. */

export interface Score {
  readonly topology: number;
  readonly affinity: number;
  /** 1 for a cluster that has a binding of an older policy. Never reported. */
  readonly obsolete: number;
}
export interface Candidate {
  readonly cluster: ClusterFacts;
  /** Undefined where nothing is compared. */
  readonly score: Score | undefined;
}
export interface Unselected {
  readonly cluster: string;
  /** Undefined: it passed all filters and others scored higher, or it was named and cannot be had. */
  readonly plugin: PluginName | undefined;
  readonly reason: string;
  readonly score: Score | undefined;
}
export interface Choice {
  /** Without those that have a binding of the policy in force. */
  readonly picked: readonly Candidate[];
  /** Bindings of the policy in force that are too many. */
  readonly dropped: readonly ResourceBinding[];
  /** Those that nearly were picked first. Read only as far as it is reported. */
  readonly unselected: Iterable<Unselected>;
  readonly isFulfilled: boolean;
}

/** What of a task a choice reads. */
export interface Question {
  readonly placement: { readonly namespace: string | undefined };
  readonly policy: CompiledPolicy;
  readonly count: number;
  readonly clusters: ReadonlyMap<string, ClusterFacts>;
  readonly execution?: Pick<ExecutionPlan, "drop" | "hold">;
}

export function chooseAll(question: Question, bindings: ClassifiedBindings): Choice {
  const dropped = replaceable(question, bindings);
  const round = roundOf(question, bindings, clustersOf(dropped));
  const { passed, refused } = filter(question, round);
  const picked = passed.map((cluster) => ({ cluster, score: undefined }));
  return { picked, dropped, unselected: refused, isFulfilled: true };
}

/** Named clusters need to be eligible, nothing else. */
export function chooseNamed({ policy, clusters }: Question, { current }: ClassifiedBindings): Choice {
  const picked: Candidate[] = [];
  const unselected: Unselected[] = [];
  for (const name of policy.names) {
    const cluster = clusters.get(name);
    if (current.has(name)) continue;
    if (cluster !== undefined && cluster.ineligible === undefined) picked.push({ cluster, score: undefined });
    else
      unselected.push({
        cluster: name,
        plugin: cluster === undefined ? undefined : "ClusterEligibility",
        reason: cluster?.ineligible ?? "the fleet has no cluster of this name",
        score: undefined,
      });
  }
  return { picked, dropped: [], unselected, isFulfilled: unselected.length === 0 };
}

/** A cluster is replaced only where another one takes its place. */
export function chooseBest(question: Question, bindings: ClassifiedBindings): Choice {
  const { count } = question;
  const missing = count - bindings.current.size;
  const surplus = [...bindings.current.values()].toSorted(byDispensability).slice(0, Math.max(0, -missing));
  if (surplus.length > 0) return chooseWithout(question, bindings, surplus);
  let replaced = replaceable(question, bindings);
  for (;;) {
    const choice = chooseWithout(question, bindings, replaced);
    const spare = Math.max(0, choice.picked.length - missing);
    if (spare >= replaced.length) return choice;
    replaced = replaced.slice(0, spare);
  }
}

function chooseWithout(
  question: Question,
  bindings: ClassifiedBindings,
  dropped: readonly ResourceBinding[],
): Choice {
  const { count } = question;
  const { current, obsolete } = bindings;
  const round = roundOf(question, bindings, clustersOf(dropped));
  const { passed, refused } = filter(question, round);
  const affinityOf = question.policy.scorerOf([...question.clusters.values()]);
  const ranked = passed
    .map((cluster) => ({
      cluster,
      affinity: affinityOf(cluster),
      obsolete: obsolete.has(cluster.name) ? 1 : 0,
    }))
    .toSorted(byRank);
  const kept = current.size - dropped.length;
  const { picked, rest } = round.spread.isNeeded
    ? pickSpread(ranked, count - kept, round.spread)
    : pickFirst(ranked, count - kept);
  return {
    picked,
    dropped,
    unselected: notPicked(rest, round, refused),
    isFulfilled: kept + picked.length === count,
  };
}

/** In the order in which they are replaced. */
function replaceable({ execution }: Question, { current }: ClassifiedBindings): readonly ResourceBinding[] {
  return (execution?.drop ?? []).flatMap((it) => current.get(it) ?? []);
}

function clustersOf(bindings: readonly ResourceBinding[]): ReadonlySet<string> {
  return new Set(bindings.map((it) => it.spec.targetCluster));
}

interface Ranked {
  readonly cluster: ClusterFacts;
  readonly affinity: number;
  readonly obsolete: number;
}

/** Best first. Among equals the name that is lexicographically larger, as KubeFleet has it. */
function byRank(a: Ranked, b: Ranked): number {
  return b.affinity - a.affinity || b.obsolete - a.obsolete || byText(b.cluster.name, a.cluster.name);
}

interface Picks {
  readonly picked: readonly Candidate[];
  readonly rest: readonly Ranked[];
}

function pickFirst(ranked: readonly Ranked[], wanted: number): Picks {
  const picked = ranked.slice(0, wanted).map((it) => candidate(it, 0));
  return { picked, rest: ranked.slice(wanted) };
}

/**
 * One at a time, as each pick changes the skew. All clusters of a group are in the same domains and so have the same topology
 * score: the best of each group is compared, not each cluster.
 */
function pickSpread(ranked: readonly Ranked[], wanted: number, spread: Spread): Picks {
  const groups = [...Map.groupBy(ranked, (it) => spread.groupOf(it.cluster)).values()].map((it) =>
    it.toReversed(),
  );
  const picked: Candidate[] = [];
  while (picked.length < wanted) {
    let best: { readonly group: Ranked[]; readonly first: Ranked; readonly score: number } | undefined;
    for (const group of groups) {
      const first = group.at(-1);
      if (first === undefined) continue;
      const { violation, score } = spread.judge(first.cluster);
      if (violation !== undefined) continue;
      if (best === undefined || score > best.score || (score === best.score && byRank(first, best.first) < 0))
        best = { group, first, score };
    }
    if (best === undefined) break;
    best.group.pop();
    picked.push(candidate(best.first, best.score));
    spread.place(best.first.cluster);
  }
  const names = new Set(picked.map((it) => it.cluster.name));
  return { picked, rest: ranked.filter((it) => !names.has(it.cluster.name)) };
}

function candidate({ cluster, affinity, obsolete }: Ranked, topology: number): Candidate {
  return { cluster, score: { topology, affinity, obsolete } };
}

function* notPicked(
  rest: readonly Ranked[],
  { spread }: Round,
  refused: Iterable<Unselected>,
): Generator<Unselected> {
  const refusedBySpread: Unselected[] = [];
  // What had a binding of an older policy has none any more.
  for (const it of rest.map((it) => ({ ...it, obsolete: 0 })).toSorted(byRank)) {
    const { violation, score } = spread.judge(it.cluster);
    const common = { cluster: it.cluster.name, score: candidate(it, score).score };
    if (violation === undefined)
      yield { ...common, plugin: undefined, reason: "other clusters score higher, or were picked before" };
    else refusedBySpread.push({ ...common, plugin: "TopologySpreadConstraints", reason: violation });
  }
  yield* refusedBySpread;
  yield* refused;
}

export function roundOf(
  question: Question,
  { current }: ClassifiedBindings,
  dropped: ReadonlySet<string> = new Set(),
): Round {
  const isPlaced = (name: string): boolean => current.has(name) && !dropped.has(name);
  return {
    namespace: question.placement.namespace,
    isPlaced,
    spread: new Spread(question.policy.spread, question.clusters.values(), isPlaced),
  };
}

const HELD = "it was replaced, and has not met the policy for long enough since";

/** The spread is judged when one is picked: before that, each pick changes it. */
function filter(
  { policy, clusters, execution }: Question,
  round: Round,
): { readonly passed: readonly ClusterFacts[]; readonly refused: Iterable<Unselected> } {
  const filters = policy.filters.filter((it) => it.plugin !== "TopologySpreadConstraints");
  const passed: ClusterFacts[] = [];
  const failed: ClusterFacts[] = [];
  const isHeld = (it: ClusterFacts): boolean => execution?.hold.has(it.name) === true;
  for (const cluster of clusters.values())
    (!isHeld(cluster) && filters.every((it) => it.passes(cluster, round)) ? passed : failed).push(cluster);
  return {
    passed,
    refused: Iterator.from(failed)
      .filter((it) => !round.isPlaced(it.name))
      .map((cluster) => {
        const by = filters.find((it) => !it.passes(cluster, round));
        return {
          cluster: cluster.name,
          plugin: by?.plugin,
          reason: by?.why(cluster, round) ?? HELD,
          score: undefined,
        };
      }),
  };
}

/** What goes first when there are too many: Scheduled before Bound, then the lowest score, then the smallest name. */
function byDispensability(a: ResourceBinding, b: ResourceBinding): number {
  const isBound = (it: ResourceBinding): number => (it.spec.state === "Bound" ? 1 : 0);
  const scoreOf = ({ spec }: ResourceBinding) => spec.clusterDecision.clusterScore;
  return (
    isBound(a) - isBound(b) ||
    (scoreOf(a)?.priorityScore ?? 0) - (scoreOf(b)?.priorityScore ?? 0) ||
    (scoreOf(a)?.affinityScore ?? 0) - (scoreOf(b)?.affinityScore ?? 0) ||
    byText(a.spec.targetCluster, b.spec.targetCluster)
  );
}
