import type { PodAffinityTerm } from "@fairlead/kube/api/core/v1/affinity.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import { type Labels, matcherOf } from "@fairlead/kube/objects/selector.ts";
import type { ClusterView, NodeView } from "./snapshot.ts";

/** Pods near others or far from them. Source: pkg/scheduler/framework/plugins/interpodaffinity. */

const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution";

type Refusal = (view: NodeView) => string | undefined;
type PodMatcher = (pod: Pod) => boolean;

/** Which pods a term of `of` is about. */
function matcherOfTerm(term: PodAffinityTerm, of: Pod, cluster: ClusterView): PodMatcher {
  const matches = matcherOf(withLabelKeys(term, of.metadata.labels));
  const { namespaces = [], namespaceSelector } = term;
  const isSelected = matcherOf(namespaceSelector);
  const hasNone = namespaces.length === 0 && namespaceSelector === undefined;
  const own = new Set(hasNone ? [of.metadata.namespace ?? ""] : namespaces);
  return ({ metadata: { namespace = "", labels } }) =>
    (own.has(namespace) || isSelected(cluster.labelsOfNamespace(namespace))) && matches(labels);
}

/** `matchLabelKeys` add what the pod itself has under these keys (KEP-3633). */
export function withLabelKeys(
  term: {
    readonly labelSelector?: LabelSelector;
    readonly matchLabelKeys?: readonly string[];
    readonly mismatchLabelKeys?: readonly string[];
  },
  labels: Labels = {},
): LabelSelector | undefined {
  const { labelSelector, matchLabelKeys = [], mismatchLabelKeys = [] } = term;
  if (labelSelector === undefined) return undefined;
  const expressions = (keys: readonly string[], operator: "In" | "NotIn") =>
    keys.flatMap((key) => (labels[key] === undefined ? [] : [{ key, operator, values: [labels[key]] }]));
  const { matchExpressions = [] } = labelSelector;
  const more = [...expressions(matchLabelKeys, "In"), ...expressions(mismatchLabelKeys, "NotIn")];
  return { ...labelSelector, matchExpressions: [...matchExpressions, ...more] };
}

/** Values of `key` of nodes that have a pod which `matches`. */
function domainsWith(cluster: ClusterView, key: string, matches: PodMatcher): ReadonlySet<string> {
  const found = cluster.nodes.filter((view) => view.pods.some(matches)).map((view) => view.labelOf(key));
  return new Set(found.filter((value) => value !== undefined));
}

/** Why a node does not do, as far as other pods are concerned. */
export function podAffinityRefusals(pod: Pod, cluster: ClusterView): Refusal {
  const affinity = requiredTerms(pod, "podAffinity").map((term) => {
    const matches = matcherOfTerm(term, pod, cluster);
    const domains = domainsWith(cluster, term.topologyKey, matches);
    return { key: term.topologyKey, domains, isOwn: matches(pod) };
  });
  // The first pod of a group with affinity for itself has no other pod to join yet.
  const isFirst = affinity.length > 0 && affinity.every((it) => it.isOwn && it.domains.size === 0);
  const against = requiredTerms(pod, "podAntiAffinity").map((term) => ({
    key: term.topologyKey,
    domains: domainsWith(cluster, term.topologyKey, matcherOfTerm(term, pod, cluster)),
  }));
  const forbidden = forbiddenByOthers(pod, cluster);
  const isIn = (
    view: NodeView,
    it: { readonly key: string; readonly domains: ReadonlySet<string> },
  ): boolean => it.domains.has(view.labelOf(it.key) ?? "");
  return (view) => {
    const isNear = affinity.every((it) => view.labelOf(it.key) !== undefined && (isFirst || isIn(view, it)));
    if (!isNear) return "node(s) didn't match pod affinity rules";
    if (against.some((it) => isIn(view, it))) return "node(s) didn't match pod anti-affinity rules";
    if (forbidden.some((it) => isIn(view, it)))
      return "node(s) didn't satisfy existing pods anti-affinity rules";
    return undefined;
  };
}

function requiredTerms(pod: Pod, kind: "podAffinity" | "podAntiAffinity"): readonly PodAffinityTerm[] {
  return pod.spec?.affinity?.[kind]?.[REQUIRED] ?? [];
}

/** Places that pods which are there already do not want the pod to be. */
function forbiddenByOthers(pod: Pod, cluster: ClusterView) {
  return cluster.nodes.flatMap((view) =>
    view.pods.flatMap((other) =>
      requiredTerms(other, "podAntiAffinity").flatMap((term) => {
        const value = view.labelOf(term.topologyKey);
        if (value === undefined || !matcherOfTerm(term, other, cluster)(pod)) return [];
        return [{ key: term.topologyKey, domains: new Set([value]) }];
      }),
    ),
  );
}

/** How much the pod would like each node for the sake of other pods; 0 where it has no such wish. */
export function podAffinityScore(pod: Pod, cluster: ClusterView): (view: NodeView) => number {
  const wishes = (["podAffinity", "podAntiAffinity"] as const).flatMap((kind) =>
    (pod.spec?.affinity?.[kind]?.[PREFERRED] ?? []).map(({ weight, podAffinityTerm: term }) => ({
      key: term.topologyKey,
      weight: kind === "podAffinity" ? weight : -weight,
      domains: domainsWith(cluster, term.topologyKey, matcherOfTerm(term, pod, cluster)),
    })),
  );
  return (view) =>
    wishes
      .filter(({ key, domains }) => domains.has(view.labelOf(key) ?? ""))
      .reduce((total, { weight }) => total + weight, 0);
}
