import { DAEMON_SETS, type DaemonSet } from "@fairlead/kube/api/apps/v1/types.ts";
import type { Affinity } from "@fairlead/kube/api/core/v1/affinity.ts";
import type { Node, Pod, PodSpec, Toleration } from "@fairlead/kube/api/core/v1/types.ts";
import { matchesNode, namedNodes } from "../node-match.ts";
import { isHard, NOT_READY, tolerates, UNREACHABLE, UNSCHEDULABLE } from "../taints.ts";
import { ownerReferenceTo, podOfTemplate } from "../templates.ts";

/** The pods of a DaemonSet. Source: k8s.io/kubernetes, pkg/controller/daemon/util. */

export const HASH_LABEL = "controller-revision-hash";

/** Taints that a daemon tolerates and other pods do not. */
const TOLERATED: readonly (readonly [key: string, effect: string])[] = [
  [NOT_READY, "NoExecute"],
  [UNREACHABLE, "NoExecute"],
  ["node.kubernetes.io/disk-pressure", "NoSchedule"],
  ["node.kubernetes.io/memory-pressure", "NoSchedule"],
  ["node.kubernetes.io/pid-pressure", "NoSchedule"],
  [UNSCHEDULABLE, "NoSchedule"],
];
const NETWORK: readonly [string, string] = ["node.kubernetes.io/network-unavailable", "NoSchedule"];

export function newPod(
  set: DaemonSet,
  node: string,
  at: { readonly hash: string; readonly suffix: string },
): Pod {
  const { name, namespace } = set.metadata;
  const { template } = set.spec ?? {};
  const owner = ownerReferenceTo(DAEMON_SETS, set);
  const pod = podOfTemplate(owner, template, { namespace, prefix: `${name}-`, suffix: at.suffix });
  return {
    metadata: { ...pod.metadata, labels: { ...pod.metadata.labels, [HASH_LABEL]: at.hash } },
    spec: { ...specOf(set), affinity: boundTo(node, template?.spec?.affinity) },
  };
}

/** The template's pod with the tolerations of a daemon. */
function specOf(set: DaemonSet): PodSpec {
  const spec = set.spec?.template.spec ?? { containers: [] };
  const wanted = [...TOLERATED, ...(spec.hostNetwork === true ? [NETWORK] : [])];
  const added = wanted.map(([key, effect]): Toleration => ({ key, operator: "Exists", effect }));
  const { tolerations = [] } = spec;
  const missing = added.filter(
    (it) =>
      !tolerations.some(
        (own) => own.key === it.key && own.effect === it.effect && own.operator === it.operator,
      ),
  );
  return { ...spec, tolerations: [...tolerations, ...missing] };
}

/** Adds the daemon's node to its affinity: the scheduler binds it. */
function boundTo(node: string, affinity: Affinity = {}): Affinity {
  const matchFields = [{ key: "metadata.name", operator: "In" as const, values: [node] }];
  const required = { nodeSelectorTerms: [{ matchFields }] };
  return {
    ...affinity,
    nodeAffinity: {
      ...affinity.nodeAffinity,
      requiredDuringSchedulingIgnoredDuringExecution: required,
    },
  };
}

/** The node that the pod is on, or is for. */
export function nodeOf(pod: Pod): string {
  const { nodeName = "" } = pod.spec ?? {};
  if (nodeName !== "") return nodeName;
  const [only = ""] = namedNodes(pod) ?? [];
  return only;
}

export interface Fit {
  /** Whether a daemon is to be there. */
  readonly mayStart: boolean;
  /** Whether one that is there may stay. */
  readonly mayStay: boolean;
}

export function fitOf(set: DaemonSet, node: Node): Fit {
  const spec = specOf(set);
  const { nodeName = "" } = spec;
  const isNamed = nodeName === "" || nodeName === node.metadata.name;
  if (!isNamed || !matchesNode({ spec }, node)) return { mayStart: false, mayStay: false };
  const against = (node.spec?.taints ?? []).filter((taint) => isHard(taint) && !tolerates({ spec }, taint));
  return {
    mayStart: against.length === 0,
    mayStay: against.every((taint) => taint.effect !== "NoExecute"),
  };
}
