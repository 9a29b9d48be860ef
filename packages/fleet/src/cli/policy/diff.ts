import { oneLine } from "@fairlead/base/print.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { POLICY_KINDS, type PolicyKind } from "#policy/compile/compile.ts";
import type { CompiledPolicy, Refusal } from "#policy/model.ts";
import { compareViews, type Comparison, renderComparison } from "./compare.ts";
import { type ClusterObjects, ClusterView, podName } from "./view.ts";

/** Which pods gain or lose access if manifests are applied. Pure. */

export interface PolicyDiff extends Comparison {
  /** Of the manifests. */
  readonly refusals: readonly (Refusal & { readonly policy: string })[];
}

/**
 * @throws {FleetError} `OPTION_INVALID` for an object that is not a policy.
 */
export function policiesOf(objects: readonly (KubeObject | undefined)[]): ClusterObjects["policies"] {
  return objects
    .filter((it) => it !== undefined)
    .map((object) => {
      const kind = POLICY_KINDS.find((it) => it === object.kind);
      if (kind === undefined || typeof object.metadata?.name !== "string")
        throw new FleetError(
          "OPTION_INVALID",
          `the manifest has a ${object.kind ?? "object without a kind"}; it must have ${POLICY_KINDS.join(", ")} only, each with a name`,
        );
      return { kind, object: hasNamespace(kind) ? inNamespace(object) : object };
    });
}

function hasNamespace(kind: PolicyKind): boolean {
  return kind === "NetworkPolicy" || kind === "CiliumNetworkPolicy";
}

function inNamespace(object: KubeObject): KubeObject {
  return { ...object, metadata: { ...object.metadata, namespace: object.metadata.namespace ?? "default" } };
}

/**
 * With the pods of other clusters, which may not be known yet: members learn of each other what their policies need.
 *
 * @param others - As they see themselves.
 */
export function withPodsOf(before: ClusterObjects, others: readonly ClusterObjects[]): ClusterObjects {
  const known = new Set(before.pods.map(podName));
  const homes = new Set(before.namespaces.map((it) => `${it.cluster}/${it.name}`));
  const own = others.filter((it) => it.cluster !== before.cluster);
  return {
    ...before,
    pods: [
      ...before.pods,
      ...own.flatMap(({ cluster, pods }) =>
        pods.filter((it) => it.cluster === cluster && !known.has(podName(it))),
      ),
    ],
    namespaces: [
      ...before.namespaces,
      ...own.flatMap(({ cluster, namespaces }) =>
        namespaces.filter((it) => it.cluster === cluster && !homes.has(`${cluster}/${it.name}`)),
      ),
    ],
  };
}

/** @param remove Whether the policies are deleted instead. */
export function diffOf(
  before: ClusterObjects,
  changed: ClusterObjects["policies"],
  remove: boolean,
): PolicyDiff {
  const keys = new Set(changed.map(keyOf));
  const others = before.policies.filter((it) => !keys.has(keyOf(it)));
  const old = new ClusterView(before);
  const next = new ClusterView({ ...before, policies: remove ? others : [...others, ...changed] });
  const isChanged = (it: CompiledPolicy): boolean =>
    keys.has(keyOf({ kind: it.id.kind, object: { metadata: it.id } }));
  const touched = [...old.policies, ...next.policies].filter(isChanged);
  return {
    ...compareViews([old, next], touched),
    refusals: next.compilations
      .filter((it) => keys.has(keyOf({ kind: it.id.kind, object: { metadata: it.id } })))
      .flatMap(({ id, refusals }) => refusals.map((it) => ({ ...it, policy: `${id.kind} ${id.name}` }))),
  };
}

function keyOf({
  kind,
  object,
}: {
  readonly kind: string;
  readonly object: { readonly metadata: { readonly namespace?: string; readonly name: string } };
}): string {
  return `${kind}/${object.metadata.namespace ?? ""}/${object.metadata.name}`;
}

export function renderDiff({ refusals, ...comparison }: PolicyDiff): string {
  return [
    ...renderComparison(comparison),
    ...refusals.map((it) => oneLine(`${it.policy} ${it.field}: ${it.reason} (${it.effect})`)),
  ].join("\n");
}
