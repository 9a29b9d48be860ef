import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { NetworkPolicy } from "@fairlead/kube/api/networking/v1/types.ts";
import type { CiliumCidrGroup, CiliumNetworkPolicy } from "#api/cilium.io/v2/types.ts";
import type { ClusterNetworkPolicy } from "#api/policy.networking.k8s.io/v1alpha2/types.ts";
import type { PolicyService } from "../compile/draft.ts";
import type { PolicyNamespace, PolicyNode, PolicyPod } from "../model.ts";

/** What a case of the tests consists of. */
export interface World {
  readonly cluster: string;
  readonly node: string;
  readonly isLocalByDefault: boolean;
  /** In a parallel one, pods of the cluster have fleet addresses besides their own, and pods of others these alone. */
  readonly network: "flat" | "parallel";
  readonly pods: Map<string, PolicyPod>;
  readonly namespaces: Map<string, PolicyNamespace>;
  readonly nodes: Map<string, PolicyNode>;
  readonly networkPolicies: Map<string, NetworkPolicy>;
  /** CiliumNetworkPolicies, and CiliumClusterwideNetworkPolicies, which have no namespace. */
  readonly ciliumPolicies: Map<string, CiliumNetworkPolicy>;
  readonly clusterPolicies: Map<string, ClusterNetworkPolicy>;
  readonly cidrGroups: CiliumCidrGroup[];
  readonly services: PolicyService[];
  readonly apiServers: readonly IpAddress[];
  /** What DNS answered. */
  readonly names: ReadonlyMap<string, readonly IpAddress[]>;
  readonly cidrMatchesPods: boolean;
  readonly cidrMatchesNodes: boolean;
}

/** One end of a flow. */
export type Actor =
  | { readonly kind: "pod"; readonly address: IpAddress; readonly pod: PolicyPod }
  | { readonly kind: "node"; readonly address: IpAddress; readonly node: PolicyNode }
  | { readonly kind: "external"; readonly address: IpAddress };

export function actorsOf(world: World, external: readonly IpAddress[]): readonly Actor[] {
  return [
    ...[...world.pods.values()].flatMap((pod) =>
      pod.addresses.map((address): Actor => ({ kind: "pod", address, pod })),
    ),
    ...[...world.nodes.values()].flatMap((node) =>
      node.addresses.map((address): Actor => ({ kind: "node", address, node })),
    ),
    ...external.map((address): Actor => ({ kind: "external", address })),
  ];
}

export function isOwnNode(world: World, node: PolicyNode): boolean {
  return node.cluster === world.cluster && node.name === world.node;
}

/** A pod of the own node whose policies are known. */
export function isOwnPod(world: World, actor: Actor): boolean {
  if (actor.kind !== "pod") return false;
  const { pod } = actor;
  return pod.cluster === world.cluster && pod.node === world.node && namespaceOf(world, pod) !== undefined;
}

export function namespaceOf(world: World, pod: PolicyPod): PolicyNamespace | undefined {
  return world.namespaces.get(`${pod.cluster}/${pod.namespace}`);
}
