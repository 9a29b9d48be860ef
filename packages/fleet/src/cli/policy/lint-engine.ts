import type { PolicyKind } from "#policy/compile/compile.ts";
import type { CompiledPolicy, Way } from "#policy/model.ts";
import type { Selector } from "#policy/selector.ts";
import { type ClusterView, nameOf, type PolicyObject } from "./view.ts";

/** What of policies does not hold because the network plugin of the cluster enforces them itself. Pure. */

export interface LintFinding {
  readonly cluster: string;
  readonly policy: string;
  readonly field: string;
  readonly problem: string;
}

export function finding({ of }: ClusterView, policy: string, field: string, problem: string): LintFinding {
  return { cluster: of.cluster, policy, field, problem };
}

/** The clusters that a selector names; undefined: it is about all. */
export function clustersOf(selector: Selector): readonly string[] | undefined {
  return selector.requirements.find((it) => it.attribute === "cluster" && it.operator === "In")?.values;
}

const CLUSTER_LABEL = "io.cilium.k8s.policy.cluster";
const WAYS: readonly Way[] = ["ingress", "egress"];

/** Whether fairlead node enforces nothing there. */
export function isLeftToEngine({ of }: ClusterView): boolean {
  return of.engine !== undefined && of.mode === "flat";
}

export function lintEngine(view: ClusterView): readonly LintFinding[] {
  const { engine, mode } = view.of;
  if (engine === undefined) return [];
  const { name, sign } = engine;
  const what =
    mode === "flat"
      ? `${name} enforces the network policies of this cluster (recognized by the ${sign}), so that fairlead node enforces none, and rules about pods of other clusters do not hold.`
      : `${name} enforces network policies at the own addresses of pods (recognized by the ${sign}); fairlead node enforces them at fleet addresses only.`;
  const whole = finding(view, "all", "network plugin", what);
  if (mode === "parallel") return [whole, ...view.of.policies.flatMap((it) => unknownKind(view, name, it))];
  return [
    whole,
    ...view.of.policies.flatMap((it) => [...unknownKind(view, name, it), ...labelOfOthers(view, name, it)]),
    ...view.policies.flatMap((it) => peersElsewhere(view, name, it)),
  ];
}

/** Kinds that network plugins other than one do not read. */
const KINDS_OF: Partial<Record<PolicyKind, string>> = {
  CiliumNetworkPolicy: "Cilium",
  CiliumClusterwideNetworkPolicy: "Cilium",
};

function unknownKind(
  view: ClusterView,
  engine: string,
  { kind, object }: PolicyObject,
): readonly LintFinding[] {
  const reader = KINDS_OF[kind];
  if (kind === "NetworkPolicy" || reader === engine) return [];
  const where = view.of.mode === "flat" ? "" : " at the own addresses of pods";
  const problem =
    reader === undefined
      ? `Not every version of ${engine} enforces this kind; fairlead node does not enforce it${where}.`
      : `${engine} does not know this kind; it is not enforced${where}.`;
  return [finding(view, policyName({ kind, object }), "kind", problem)];
}

function labelOfOthers(view: ClusterView, engine: string, policy: PolicyObject): readonly LintFinding[] {
  if (engine === "Cilium" || policy.kind !== "NetworkPolicy") return [];
  const { spec } = policy.object as { readonly spec?: unknown };
  if (!JSON.stringify(spec ?? {}).includes(CLUSTER_LABEL)) return [];
  const problem = `To ${engine}, ${CLUSTER_LABEL} is a label of pods, and none has it: selectors with it match nothing.`;
  return [finding(view, policyName(policy), CLUSTER_LABEL, problem)];
}

function peersElsewhere(view: ClusterView, engine: string, policy: CompiledPolicy): readonly LintFinding[] {
  const found = WAYS.flatMap((way) => policy[way]?.rules ?? []).flatMap(({ action, origin, peers }) => {
    const isElsewhere =
      peers !== "any" &&
      peers.some((it) => it.kind === "pods" && !isOwn(clustersOf(it.selector), view.of.cluster));
    const isHeld = action === "allow" ? "allowed" : action === "deny" ? "denied" : "passed on";
    const problem = `${engine} does not know the pods of other clusters by their labels: they are not ${isHeld} by this rule${engine === "Cilium" ? ", unless a Cluster Mesh of Cilium connects the clusters" : ""}.`;
    return isElsewhere ? [[origin, problem] as const] : [];
  });
  return [...new Map(found)].map(([origin, problem]) => finding(view, nameOf(policy.id), origin, problem));
}

function isOwn(clusters: readonly string[] | undefined, cluster: string): boolean {
  return clusters?.every((it) => it === cluster) ?? false;
}

function policyName({ kind, object }: PolicyObject): string {
  return nameOf({ kind, ...object.metadata });
}
