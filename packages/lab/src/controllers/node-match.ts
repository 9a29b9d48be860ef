import type { NodeSelectorRequirement, NodeSelectorTerm } from "@fairlead/kube/api/core/v1/affinity.ts";
import type { Node, Pod } from "@fairlead/kube/api/core/v1/types.ts";

/** Which nodes a pod asks for. Source: the API documentation of NodeAffinity. */

/** `nodeSelector` and the required part of `nodeAffinity`. */
export function matchesNode(pod: Pick<Pod, "spec">, node: Node): boolean {
  const labels = node.metadata.labels ?? {};
  const { nodeSelector = {}, affinity } = pod.spec ?? {};
  if (!Object.entries(nodeSelector).every(([key, value]) => labels[key] === value)) return false;
  const required = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return required === undefined || (required.nodeSelectorTerms ?? []).some((it) => matchesTerm(it, node));
}

/** Names that `matchFields` confine the pod to; undefined: it is not confined. */
export function namedNodes(pod: Pick<Pod, "spec">): ReadonlySet<string> | undefined {
  const required = pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const terms = required?.nodeSelectorTerms ?? [];
  const names = terms.map((term) =>
    term.matchFields?.find((it) => it.key === "metadata.name" && it.operator === "In"),
  );
  if (terms.length === 0 || names.some((it) => it === undefined)) return undefined;
  return new Set(names.flatMap((it) => it?.values ?? []));
}

export function matchesTerm(
  { matchExpressions = [], matchFields = [] }: NodeSelectorTerm,
  node: Node,
): boolean {
  if (matchExpressions.length + matchFields.length === 0) return false;
  const fields = { "metadata.name": node.metadata.name };
  return (
    matchExpressions.every((it) => isMet(it, node.metadata.labels ?? {})) &&
    matchFields.every((it) => isMet(it, fields))
  );
}

type Test = (value: string | undefined, values: readonly string[]) => boolean;

const TESTS: Readonly<Record<NodeSelectorRequirement["operator"], Test>> = {
  In: (value, values) => value !== undefined && values.includes(value),
  NotIn: (value, values) => value === undefined || !values.includes(value),
  Exists: (value) => value !== undefined,
  DoesNotExist: (value) => value === undefined,
  Gt: (value, [bound]) => isWhole(value) && Number(value) > Number(bound),
  Lt: (value, [bound]) => isWhole(value) && Number(value) < Number(bound),
};

function isMet(
  { key, operator, values = [] }: NodeSelectorRequirement,
  labels: Readonly<Record<string, string>>,
): boolean {
  return TESTS[operator](Object.hasOwn(labels, key) ? labels[key] : undefined, values);
}

function isWhole(value: string | undefined): boolean {
  return value !== undefined && /^-?\d+$/v.test(value);
}
