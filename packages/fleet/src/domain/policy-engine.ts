import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import {
  CROSS_CLUSTER_POLICY,
  NODE_POLICY_CONDITION,
  NODE_POLICY_REASONS,
  SAME_NODE_POLICY,
} from "#api/fairlead.dev/node-agents.ts";
import { type NodeAgentsView, someOf } from "./node-agents.ts";

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

export interface PolicyEngine {
  readonly name: string;
  /** What it was recognized by, for people. */
  readonly sign: string;
}

type EngineNode = Pick<Node, "metadata" | "status">;

/** The engine of a cluster; undefined: none is known. */
export function policyEngineOf(nodes: Iterable<EngineNode>): PolicyEngine | undefined {
  for (const { metadata, status } of nodes) {
    const of = `of the Node ${metadata.name}`;
    const { reason = "" } = status?.conditions?.find((it) => it.type === "NetworkUnavailable") ?? {};
    const byReason = REASONS.get(reason);
    if (byReason !== undefined)
      return { name: byReason, sign: `reason ${reason} of the condition NetworkUnavailable ${of}` };
    const keys = Object.keys(metadata.annotations ?? {});
    for (const [prefix, name] of ANNOTATIONS) {
      const key = keys.find((it) => it.startsWith(prefix));
      if (key !== undefined) return { name, sign: `annotation ${key} ${of}` };
    }
  }
  return undefined;
}

/** The same, with what agents found on their nodes: not each engine writes on Nodes. */
export function reportedEngineOf(nodes: readonly EngineNode[]): PolicyEngine | undefined {
  const shown = policyEngineOf(nodes);
  if (shown !== undefined) return shown;
  for (const { metadata, status } of nodes) {
    const report = status?.conditions?.find((it) => it.type === NODE_POLICY_CONDITION);
    if (report?.reason === NODE_POLICY_REASONS.plugin)
      return {
        name: engineInReport(report.message) ?? "The network plugin",
        sign: `devices that fairlead node found on the Node ${metadata.name}`,
      };
  }
  return undefined;
}

const REPORT = " enforces network policies on this node";

/** The message of an agent that found the devices of an engine on its node. */
export function engineReport(engine: string): string {
  return `${engine}${REPORT}`;
}

function engineInReport(message = ""): string | undefined {
  const end = message.indexOf(REPORT);
  return end > 0 ? message.slice(0, end) : undefined;
}

export interface PolicyMember {
  /** Undefined: the cluster is in no network. */
  readonly mode: "flat" | "parallel" | undefined;
  readonly engine: string | undefined;
  readonly agents: NodeAgentsView;
}

/** Whether policies of a member that select pods of other clusters are enforced. */
export function crossClusterPolicy({ mode, engine, agents }: PolicyMember): NewCondition | undefined {
  if (mode === undefined) return undefined;
  const not = (reason: string, message: string): NewCondition => ({
    type: CROSS_CLUSTER_POLICY,
    status: "False",
    reason,
    message,
  });
  if (agents.present.length === 0)
    return not(
      "NoNodeAgents",
      "No fairlead node reports on a Node of this cluster, so that policies do not hold across clusters; install it, or set spec.version of the profile.",
    );
  if (mode === "flat" && (engine !== undefined || agents.ofPlugin.length > 0))
    return not(
      "NetworkPluginEnforces",
      `${engine ?? "The network plugin"} enforces the network policies of this cluster, and does not know the pods of other clusters: policies that select these by labels do not hold.`,
    );
  if (!agents.areEverywhere)
    return not(
      "NodesWithoutAgent",
      `No fairlead node reports on ${someOf(agents.missing)}: policies that select pods of other clusters are not enforced for pods there.`,
    );
  const [failure] = agents.failing;
  if (failure !== undefined)
    return not(
      "NodesFailing",
      `Policies are not enforced on ${agents.failing.length} node${agents.failing.length === 1 ? "" : "s"}: ${failure}`,
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

/** Whether policies between pods of one node are enforced, where agents enforce policies. */
export function sameNodePolicy({ mode, engine, agents }: PolicyMember): NewCondition | undefined {
  const isPlugins = engine !== undefined || agents.ofPlugin.length > 0;
  if (mode === undefined || isPlugins || agents.present.length === 0) return undefined;
  const { unfiltered } = agents;
  if (unfiltered.length === 0)
    return {
      type: SAME_NODE_POLICY,
      status: "True",
      reason: "Enforced",
      message: "fairlead node enforces policies between pods of one node.",
    };
  return {
    type: SAME_NODE_POLICY,
    status: "False",
    reason: NODE_POLICY_REASONS.unfiltered,
    message: `On ${someOf(unfiltered)}, packets between pods at one bridge do not pass the filters of the kernel, and policies between them are not enforced: load the module br_netfilter, and set net.bridge.bridge-nf-call-iptables and net.bridge.bridge-nf-call-ip6tables to 1.`,
  };
}
