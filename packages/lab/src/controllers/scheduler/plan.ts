import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { byText } from "@fairlead/base/text.ts";
import { matchesNode, matchesTerm, namedNodes } from "../node-match.ts";
import { controllerOf } from "../pods.ts";
import { effectiveTaints, isHard, tolerates, UNSCHEDULABLE } from "../taints.ts";
import { podAffinityRefusals, podAffinityScore } from "./pod-affinity.ts";
import { requestsOf } from "./resources.ts";
import type { ClusterView, NodeView } from "./snapshot.ts";
import { crowding, spreadRefusals } from "./spread.ts";

/** Which node a pod goes to. Source of the rules and texts: kube-scheduler's plugins, as of 1.36. */

export type SchedulePlan =
  | { readonly act: "bind"; readonly node: string }
  | { readonly act: "wait"; readonly message: string };

export function planSchedule(pod: Pod, cluster: ClusterView): SchedulePlan {
  if (cluster.nodes.length === 0) return { act: "wait", message: "no nodes available to schedule pods" };
  const refuse = refusals(pod, cluster);
  const refused: Refusal[] = [];
  const fitting: NodeView[] = [];
  for (const view of cluster.nodes) {
    const why = refuse(view);
    if (why === undefined) fitting.push(view);
    else refused.push(why);
  }
  const best = bestOf(pod, cluster, fitting);
  if (best !== undefined) return { act: "bind", node: best.name };
  return { act: "wait", message: explain(pod, refused) };
}

interface Refusal {
  readonly reasons: readonly string[];
  /** No other pod's going could help. */
  readonly isFinal: boolean;
}

/** The reason why the pod does not fit on a node, from the first plugin that rejects it; undefined if it fits. */
function refusals(pod: Pod, cluster: ClusterView): (view: NodeView) => Refusal | undefined {
  const named = namedNodes(pod);
  const bySpread = spreadRefusals(pod, cluster);
  const byPods = podAffinityRefusals(pod, cluster);
  return (view) => {
    const fixed = fixedRefusal(pod, view, named);
    if (fixed !== undefined) return { reasons: [fixed], isFinal: true };
    const room = refusedPorts(pod, view) ?? refusedResources(pod, view);
    if (room !== undefined) return room;
    const spread = bySpread(view);
    if (spread !== undefined) return { reasons: [spread.reason], isFinal: spread.isFinal };
    const affinity = byPods(view);
    return affinity === undefined
      ? undefined
      : { reasons: [affinity], isFinal: affinity === "node(s) didn't match pod affinity rules" };
  };
}

function fixedRefusal(
  pod: Pod,
  { node }: NodeView,
  named: ReadonlySet<string> | undefined,
): string | undefined {
  if (named !== undefined && !named.has(node.metadata.name))
    return "node(s) didn't satisfy plugin(s) [NodeAffinity]";
  const cordon = { key: UNSCHEDULABLE, effect: "NoSchedule" } as const;
  if (node.spec?.unschedulable === true && !tolerates(pod, cordon)) return "node(s) were unschedulable";
  if (effectiveTaints(node).some((it) => isHard(it) && !tolerates(pod, it)))
    return "node(s) had untolerated taint(s)";
  return matchesNode(pod, node) ? undefined : "node(s) didn't match Pod's node affinity/selector";
}

interface HostPort {
  readonly port: number;
  readonly protocol: string;
  readonly ip: string;
}

function hostPortsOf(pod: Pod): HostPort[] {
  const { containers = [], initContainers = [] } = pod.spec ?? {};
  return [...containers, ...initContainers].flatMap((container) =>
    (container.ports ?? []).flatMap(({ hostPort = 0, protocol = "TCP", hostIP = "" }) =>
      hostPort > 0 ? [{ port: hostPort, protocol, ip: hostIP === "" ? ANY : hostIP }] : [],
    ),
  );
}

const ANY = "0.0.0.0";

function refusedPorts(pod: Pod, view: NodeView): Refusal | undefined {
  const wanted = hostPortsOf(pod);
  if (wanted.length === 0) return undefined;
  const taken = view.pods.flatMap(hostPortsOf);
  const isClash = wanted.some((a) =>
    taken.some(
      (b) =>
        a.port === b.port && a.protocol === b.protocol && (a.ip === b.ip || a.ip === ANY || b.ip === ANY),
    ),
  );
  if (!isClash) return undefined;
  return { reasons: ["node(s) didn't have free ports for the requested pod ports"], isFinal: false };
}

function refusedResources(pod: Pod, view: NodeView): Refusal | undefined {
  const requests = [...requestsOf(pod)].filter(([, amount]) => amount > 0);
  const lacking = requests.filter(
    ([name, amount]) =>
      amount > freeOf(view, name) && (name !== "ephemeral-storage" || view.allocatable.has(name)),
  );
  const isFull = (view.pods.length + 1) * 1000 > (view.allocatable.get("pods") ?? Number.POSITIVE_INFINITY);
  const reasons = [...(isFull ? ["Too many pods"] : []), ...lacking.map(([name]) => `Insufficient ${name}`)];
  if (reasons.length === 0) return undefined;
  const isFinal = lacking.some(([name, amount]) => amount > (view.allocatable.get(name) ?? 0));
  return { reasons, isFinal };
}

function freeOf(view: NodeView, name: string): number {
  return (view.allocatable.get(name) ?? 0) - (view.requested.get(name) ?? 0);
}

/** The wording of kube-scheduler. Its statement on preemption is true here too: no pod is ever preempted. */
function explain(pod: Pod, refused: readonly Refusal[]): string {
  const available = `0/${refused.length} nodes are available:`;
  const why = histogram(refused.flatMap((it) => it.reasons));
  const preemption =
    pod.spec?.preemptionPolicy === "Never"
      ? "not eligible due to preemptionPolicy=Never."
      : `${available} ${histogram(refused.map((it) => (it.isFinal ? NOT_HELPFUL : NO_VICTIMS)))}.`;
  return `${available} ${why}. no new claims to deallocate, preemption: ${preemption}`;
}

const NOT_HELPFUL = "Preemption is not helpful for scheduling";
const NO_VICTIMS = "No preemption victims found for incoming pod";

function histogram(reasons: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const reason of reasons) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  return [...counts]
    .map(([reason, count]) => `${count} ${reason}`)
    .toSorted(byText)
    .join(", ");
}

/**
 * The node that scores highest, with the weights of kube-scheduler's default profile; of equals the one with fewest
 * pods, then the first by name, so that the same cluster always decides the same.
 */
function bestOf(pod: Pod, cluster: ClusterView, fitting: readonly NodeView[]): NodeView | undefined {
  if (fitting.length <= 1) return fitting[0];
  const near = podAffinityScore(pod, cluster);
  const crowd = crowding(pod, cluster);
  const owner = controllerOf(pod)?.uid;
  // The default constraints apply to pods without constraints.
  const isAsking = (pod.spec?.topologySpreadConstraints ?? []).length > 0;
  const siblings = (view: NodeView): number =>
    owner === undefined || isAsking ? 0 : view.pods.filter((it) => controllerOf(it)?.uid === owner).length;
  const criteria: readonly (readonly [weight: number, score: (view: NodeView) => number])[] = [
    [3, (view) => -dislikes(pod, view)],
    [2, (view) => preference(pod, view)],
    [2, (view) => -crowd(view)],
    [2, (view) => -siblings(view)],
    [2, near],
    [1, (view) => freeShare(pod, view)],
  ];
  const totals = new Map<NodeView, number>(fitting.map((view) => [view, 0]));
  for (const [weight, score] of criteria)
    for (const [view, value] of normalized(fitting, score))
      totals.set(view, (totals.get(view) ?? 0) + weight * value);
  return fitting.toSorted(
    (a, b) =>
      (totals.get(b) ?? 0) - (totals.get(a) ?? 0) || a.pods.length - b.pods.length || byText(a.name, b.name),
  )[0];
}

/** Scores from 0 to 100; where all are equal, nothing. */
function normalized(
  views: readonly NodeView[],
  score: (view: NodeView) => number,
): readonly (readonly [NodeView, number])[] {
  const raw = views.map((view) => [view, score(view)] as const);
  const least = Math.min(...raw.map(([, value]) => value));
  const range = Math.max(...raw.map(([, value]) => value)) - least;
  return raw.map(([view, value]) => [view, range === 0 ? 0 : Math.round(((value - least) * 100) / range)]);
}

function dislikes(pod: Pod, { node }: NodeView): number {
  return effectiveTaints(node).filter((it) => !isHard(it) && !tolerates(pod, it)).length;
}

function preference(pod: Pod, { node }: NodeView): number {
  const preferred = pod.spec?.affinity?.nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
  return preferred
    .filter(({ preference: term }) => matchesTerm(term, node))
    .reduce((total, { weight }) => total + weight, 0);
}

/** The share of the node that would remain free, for the resources that the pod requests. */
function freeShare(pod: Pod, view: NodeView): number {
  const requests = [...requestsOf(pod)].filter(([name]) => (view.allocatable.get(name) ?? 0) > 0);
  if (requests.length === 0) return 0;
  const shares = requests.map(
    ([name, amount]) => (freeOf(view, name) - amount) / (view.allocatable.get(name) ?? 1),
  );
  return shares.reduce((total, share) => total + share, 0) / shares.length;
}
