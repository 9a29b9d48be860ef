import type { Node, Pod, Taint, Toleration } from "#api/core/v1/types.ts";
import { byText } from "#base/text.ts";
import { isConditionTrue } from "#kube/conditions.ts";

/** Which node a pod goes to. Source of the rules and texts: kube-scheduler's plugins of these names. */

export interface NodeView {
  readonly node: Node;
  /** Pods on the node, those just sent there included. */
  readonly pods: number;
  /** Of those, the ones with the same controller as the pod. */
  readonly siblings: number;
}

export type SchedulePlan =
  | { readonly act: "bind"; readonly node: string }
  | { readonly act: "wait"; readonly message: string };

/** The node with the fewest siblings of the pod, then with the fewest pods, of those that may take it. */
export function planSchedule(pod: Pod, nodes: readonly NodeView[]): SchedulePlan {
  const reasons = new Map<string, number>();
  const fitting: NodeView[] = [];
  for (const view of nodes) {
    const reason = refusal(pod, view);
    if (reason === undefined) fitting.push(view);
    else reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  }
  const [best] = fitting.toSorted(
    (a, b) =>
      dislikes(pod, a.node) - dislikes(pod, b.node) ||
      a.siblings - b.siblings ||
      a.pods - b.pods ||
      byText(a.node.metadata.name, b.node.metadata.name),
  );
  if (best !== undefined) return { act: "bind", node: best.node.metadata.name };
  const texts = [...reasons].map(([reason, count]) => `${count} ${reason}`).toSorted(byText);
  const why = texts.length === 0 ? "no nodes available to schedule pods" : `${texts.join(", ")}.`;
  return { act: "wait", message: `0/${nodes.length} nodes are available: ${why}` };
}

/** Why the node may not take the pod; undefined when it may. */
function refusal(pod: Pod, { node, pods }: NodeView): string | undefined {
  if (node.metadata.deletionTimestamp !== undefined) return "node(s) were being deleted";
  if (isCordoned(node) && !tolerates(pod, UNSCHEDULABLE)) return "node(s) were unschedulable";
  const taint = node.spec?.taints?.find((it) => it.effect !== "PreferNoSchedule" && !tolerates(pod, it));
  if (taint !== undefined) return `node(s) had untolerated taint {${taint.key}: ${taint.value ?? ""}}`;
  if (!isConditionTrue(node.status?.conditions, "Ready")) return "node(s) were not ready";
  if (!matchesSelector(pod, node)) return "node(s) didn't match Pod's node affinity/selector";
  return pods >= capacityOf(node) ? "Too many pods" : undefined;
}

function matchesSelector(pod: Pod, node: Node): boolean {
  const labels = node.metadata.labels ?? {};
  return Object.entries(pod.spec?.nodeSelector ?? {}).every(([key, value]) => labels[key] === value);
}

function capacityOf(node: Node): number {
  const text = node.status?.allocatable?.["pods"];
  return text === undefined ? Number.POSITIVE_INFINITY : Number(text);
}

function dislikes(pod: Pod, node: Node): number {
  return (node.spec?.taints ?? []).filter((it) => it.effect === "PreferNoSchedule" && !tolerates(pod, it))
    .length;
}

/** What `kubectl cordon` amounts to; the field says it sooner than the taint does. */
const UNSCHEDULABLE: Taint = { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" };

function isCordoned(node: Node): boolean {
  return node.spec?.unschedulable === true;
}

export function tolerates(pod: Pod, taint: Taint): boolean {
  return findToleration(pod, taint) !== undefined;
}

/** Source: Kubernetes documentation, "Taints and Tolerations". */
export function findToleration(pod: Pod, taint: Taint): Toleration | undefined {
  return (pod.spec?.tolerations ?? []).find((it) => {
    const { key = "", operator = "Equal", effect = "" } = it;
    if (effect !== "" && effect !== taint.effect) return false;
    if (key === "") return operator === "Exists";
    return key === taint.key && (operator === "Exists" || (it.value ?? "") === (taint.value ?? ""));
  });
}
