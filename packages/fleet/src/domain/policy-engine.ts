import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { CROSS_CLUSTER_POLICY } from "#api/fairlead.dev/node-agents.ts";

/**
 * Network plugins that enforce policies themselves, by what they write on Nodes: reasons of the condition NetworkUnavailable, and annotations.
 * Pure.
 */
const REASONS: ReadonlyMap<string, string> = new Map([
  ["CiliumIsUp", "Cilium"],
  ["CalicoIsUp", "Calico"],
]);
const ANNOTATIONS: readonly (readonly [prefix: string, engine: string])[] = [
  ["network.cilium.io/", "Cilium"],
  ["io.cilium.network.", "Cilium"],
  ["projectcalico.org/", "Calico"],
  ["node.antrea.io/", "Antrea"],
  ["kube-router.io/", "kube-router"],
  ["k8s.ovn.org/", "OVN-Kubernetes"],
];

/** What of the annotations of a Node is of use here, without values, which change. */
export function engineAnnotations(
  annotations: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const keys = Object.keys(annotations).filter((key) =>
    ANNOTATIONS.some(([prefix]) => key.startsWith(prefix)),
  );
  return Object.fromEntries(keys.map((key) => [key, ""]));
}

/** The engine of a cluster; undefined: none is known. */
export function policyEngineOf(nodes: Iterable<Pick<Node, "metadata" | "status">>): string | undefined {
  for (const { metadata, status } of nodes) {
    const unavailable = status?.conditions?.find((it) => it.type === "NetworkUnavailable");
    const keys = Object.keys(metadata.annotations ?? {});
    const found =
      REASONS.get(unavailable?.reason ?? "") ??
      ANNOTATIONS.find(([prefix]) => keys.some((key) => key.startsWith(prefix)))?.[1];
    if (found !== undefined) return found;
  }
  return undefined;
}

export interface PolicyMember {
  /** Undefined: the cluster is in no network. */
  readonly mode: "flat" | "parallel" | undefined;
  readonly engine: string | undefined;
  readonly hasNodeAgents: boolean;
}

/** Whether policies of a member that select pods of other clusters are enforced. */
export function crossClusterPolicy({ mode, engine, hasNodeAgents }: PolicyMember): NewCondition | undefined {
  if (mode === undefined) return undefined;
  const not = (reason: string, message: string): NewCondition => ({
    type: CROSS_CLUSTER_POLICY,
    status: "False",
    reason,
    message,
  });
  if (!hasNodeAgents)
    return not(
      "NoNodeAgents",
      "No fairlead node is known to run in this cluster, so that policies do not hold across clusters; install it, or set spec.version of the profile.",
    );
  if (engine !== undefined && mode === "flat")
    return not(
      "NetworkPluginEnforces",
      `${engine} enforces the network policies of this cluster, and does not know the pods of other clusters: policies that select these by labels do not hold.`,
    );
  const where =
    engine === undefined ? "fairlead node enforces" : `fairlead node enforces, in addition to ${engine},`;
  return {
    type: CROSS_CLUSTER_POLICY,
    status: "True",
    reason: "Enforced",
    message: `${where} policies that select pods of other clusters.`,
  };
}
