import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { NetworkMode } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { PolicyEngine } from "#domain/policy-engine.ts";
import { costOfAll, withinNamespaces } from "#policy/budget.ts";
import { compilePolicy, type PolicyKind } from "#policy/compile/compile.ts";
import type { PolicyObjects, PolicySettings } from "#policy/compile/draft.ts";
import { Enforced } from "#policy/enforced.ts";
import type {
  Compilation,
  CompiledPolicy,
  PolicyId,
  PolicyNamespace,
  PolicyNode,
  PolicyPod,
  Way,
} from "#policy/model.ts";
import type { RemoteNetwork } from "#policy/remote.ts";
import { identityReader } from "#policy/resolver/identity.ts";
import { Resolver } from "#policy/resolver/resolver.ts";
import { type Selector, selects } from "#policy/selector.ts";

/** What decides on the traffic of a cluster's pods, as its nodes know it. Pure. */

export interface PolicyObject {
  readonly kind: PolicyKind;
  readonly object: KubeObject;
}

export interface ClusterObjects extends PolicySettings {
  /** Of all clusters, as are namespaces and nodes. */
  readonly pods: readonly PolicyPod[];
  readonly namespaces: readonly PolicyNamespace[];
  readonly nodes: readonly PolicyNode[];
  readonly policies: readonly PolicyObject[];
  readonly objects: PolicyObjects;
  readonly apiServers: readonly IpAddress[];
  /** The prefixes by which nodes know that a new pod is on them. */
  readonly podPrefixes: readonly { readonly node: string; readonly prefixes: readonly string[] }[];
  /** The network plugin, if it enforces policies itself. */
  readonly engine?: PolicyEngine;
  /** Of the network that the cluster is in. */
  readonly mode: NetworkMode;
  /** The addresses that pods of other clusters have; absent: not known. */
  readonly remote?: readonly RemoteNetwork[];
  /** Those that no selector of pods selects, as other clusters say. */
  readonly anonymous?: readonly IpAddress[];
  readonly sharing: Sharing;
}

/** What a cluster shares with others, by its annotations. */
export interface Sharing {
  /** `spec.defaultGlobalNamespace`. */
  readonly isGlobalByDefault: boolean;
  /** Namespaces whose annotation says whether they are global. */
  readonly annotated: ReadonlyMap<string, boolean>;
  /** Those that are global. */
  readonly services: readonly {
    readonly namespace: string;
    readonly name: string;
    readonly isShared: boolean;
  }[];
}

export class ClusterView {
  readonly of: ClusterObjects;
  readonly enforced: Enforced;
  readonly compilations: readonly Compilation[];
  readonly #namespaces: ReadonlyMap<string, PolicyNamespace>;
  readonly #pods: ReadonlyMap<string, PolicyPod>;

  constructor(of: ClusterObjects) {
    this.of = of;
    this.compilations = withinNamespaces(
      of.policies.map(({ kind, object }) => {
        const compilation = compilePolicy(kind, object, of, of.objects);
        const createdAt = object.metadata.creationTimestamp ?? "";
        return { compilation, cost: costOfAll(compilation.policies), createdAt };
      }),
    );
    this.#namespaces = new Map(of.namespaces.map((it) => [`${it.cluster}/${it.name}`, it]));
    this.#pods = new Map(of.pods.map((it) => [podName(it), it]));
    const resolver = new Resolver({ cluster: of.cluster });
    for (const it of of.pods) resolver.upsertPod(it);
    for (const it of of.namespaces) resolver.upsertNamespace(it);
    for (const it of of.nodes) resolver.upsertNode(it);
    resolver.setApiServers(of.apiServers);
    resolver.setRemote(of.remote ?? []);
    resolver.setAnonymous("", of.anonymous ?? []);
    for (const it of this.policies) resolver.upsertPolicy(it);
    this.enforced = new Enforced();
    this.enforced.apply(resolver.take());
  }

  get policies(): readonly CompiledPolicy[] {
    return this.compilations.flatMap((it) => it.policies);
  }

  /** The node that has an address in its prefixes and drops packets of it, as it knows no such pod. */
  guardOf(address: IpAddress): string | undefined {
    if (this.of.policies.length === 0) return undefined;
    const isIn = (text: string): boolean => {
      const prefix = tryParsePrefix(text);
      return prefix !== undefined && containsAddress(prefix, address);
    };
    return this.of.podPrefixes.find((it) => it.prefixes.some(isIn))?.node;
  }

  /** The pod as this cluster knows it. */
  find(pod: PolicyPod): PolicyPod | undefined {
    return this.#pods.get(podName(pod));
  }

  isSelected(pod: PolicyPod, selector: Selector): boolean {
    const namespace = this.#namespaces.get(`${pod.cluster}/${pod.namespace}`);
    return namespace !== undefined && selects(selector, identityReader(pod, namespace.labels));
  }

  /** The policies that decide on a direction of a pod of the cluster. */
  deciding(pod: PolicyPod, way: Way): readonly CompiledPolicy[] {
    return this.policies.filter(
      (it) => it[way] !== undefined && it.subject.of === "pods" && this.isSelected(pod, it.subject.selector),
    );
  }
}

export function nameOf({ kind, namespace, name }: PolicyId): string {
  return `${kind} ${namespace === undefined ? "" : `${namespace}/`}${name}`;
}

export function podName({ cluster, namespace, name }: PolicyPod): string {
  return `${cluster}/${namespace}/${name}`;
}
