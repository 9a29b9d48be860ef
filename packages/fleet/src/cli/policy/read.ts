import { defined } from "@fairlead/base/defined.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import {
  NAMESPACES,
  type Node,
  NODES,
  type Pod,
  PODS,
  type Service,
  SERVICES,
} from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { NETWORK_POLICIES } from "@fairlead/kube/api/networking/v1/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  CILIUM_CIDR_GROUPS,
  CILIUM_CLUSTERWIDE_NETWORK_POLICIES,
  CILIUM_NETWORK_POLICIES,
} from "#api/cilium.io/v2/types.ts";
import { OWN_CLUSTER_LABEL } from "#api/fairlead.dev/names.ts";
import { IDENTITY_SLICES } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { ADDRESS_BLOCKS, MESH_NETWORKS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { CLUSTER_NETWORK_POLICIES } from "#api/policy.networking.k8s.io/v1alpha2/types.ts";
import { namespaceOf, nodeOf, podCidrsOf, podOf, reportedBy } from "#dataplane/policy/objects.ts";
import { PodPrefixes } from "#dataplane/policy/pod-prefixes.ts";
import { GLOBAL_NAMESPACE_ANNOTATION, isGlobalNamespace } from "#domain/global-namespace.ts";
import { isGlobalService, readGlobalSettings } from "#domain/global-service.ts";
import { reportedEngineOf } from "#domain/policy-engine.ts";
import type { PolicyKind } from "#policy/compile/compile.ts";
import type { PolicyService } from "#policy/compile/draft.ts";
import { remoteNetworks } from "#dataplane/policy/remote-networks.ts";
import { policySettings } from "#policy/settings.ts";
import type { ClusterObjects } from "./view.ts";

export const POLICY_RESOURCES: Readonly<Record<PolicyKind, Resource>> = {
  NetworkPolicy: NETWORK_POLICIES,
  CiliumNetworkPolicy: CILIUM_NETWORK_POLICIES,
  CiliumClusterwideNetworkPolicy: CILIUM_CLUSTERWIDE_NETWORK_POLICIES,
  ClusterNetworkPolicy: CLUSTER_NETWORK_POLICIES,
};

/**
 * What a member's nodes know: its own pods and policies, and pods of other members that the hub showed it.
 *
 * @param name - The name of the cluster, where no profile has given it one.
 */
export async function readCluster(
  client: KubeClient,
  name: string,
  signal: AbortSignal,
): Promise<ClusterObjects> {
  const list = <T extends KubeObject>(of: Resource<T>): Promise<readonly T[]> =>
    listOrNone(client, of, signal);
  const networks = await list(MESH_NETWORKS);
  const network = networks.find((it) => it.metadata.namespace === FLEET_SYSTEM_NAMESPACE);
  // Without a profile, Fairlead knows the pods of the cluster alone, and its network plugin enforces the policies.
  const cluster = network?.metadata.labels?.[OWN_CLUSTER_LABEL] ?? name;
  const [pods, namespaces, nodes, services, slices, identities, cidrGroups, blocks] = await Promise.all([
    list(PODS),
    list(NAMESPACES),
    list(NODES),
    list(SERVICES),
    list(ENDPOINT_SLICES),
    list(IDENTITY_SLICES),
    list(CILIUM_CIDR_GROUPS),
    list(ADDRESS_BLOCKS),
  ]);
  const reported = identities.map(reportedBy);
  const kinds = Object.entries(POLICY_RESOURCES) as readonly [PolicyKind, Resource][];
  const policies = await Promise.all(
    kinds.map(async ([kind, of]) => (await list(of)).map((object) => ({ kind, object }))),
  );
  return {
    ...policySettings(cluster, network?.spec),
    pods: [...pods.flatMap((it) => podOf(it, cluster) ?? []), ...reported.flatMap((it) => it.pods)],
    namespaces: [
      ...namespaces.map((it) => namespaceOf(it, cluster)),
      ...reported.flatMap((it) => it.namespaces),
    ],
    nodes: [...nodes.map((it) => nodeOf(it, cluster)), ...reported.flatMap((it) => it.nodes)],
    policies: policies.flat(),
    objects: { cidrGroups, services: services.map((it) => serviceOf(it, slices)) },
    apiServers: addressesOf(slices, "default", "kubernetes"),
    podPrefixes: nodes.map((it) => ({ node: it.metadata.name, prefixes: prefixesOf(it, pods) })),
    mode: network?.spec.mode ?? "flat",
    remote: remoteNetworks(
      network?.spec,
      blocks.filter((it) => it.metadata.namespace === FLEET_SYSTEM_NAMESPACE),
      cluster,
    ),
    anonymous: reported.flatMap((it) => it.addresses),
    sharing: {
      isGlobalByDefault: network?.spec.defaultGlobalNamespace ?? true,
      annotated: new Map(
        namespaces
          .filter((it) => it.metadata.annotations?.[GLOBAL_NAMESPACE_ANNOTATION] !== undefined)
          .map((it) => [it.metadata.name, isGlobalNamespace(it)]),
      ),
      services: services.filter(isGlobalService).map((it) => ({
        namespace: it.metadata.namespace ?? "",
        name: it.metadata.name,
        isShared: readGlobalSettings(it).isShared,
      })),
    },
    ...defined({ engine: reportedEngineOf(nodes) }),
  };
}

/** As the agent of the node uses them. */
function prefixesOf(node: Node, pods: readonly Pod[]): readonly string[] {
  const prefixes = new PodPrefixes();
  prefixes.set(podCidrsOf(node), () =>
    pods.map((it) => [
      `${it.metadata.namespace}/${it.metadata.name}`,
      { isLocal: it.spec?.nodeName === node.metadata.name, addresses: podOf(it, "")?.addresses ?? [] },
    ]),
  );
  return prefixes.used;
}

/** Kinds that the cluster does not serve have no objects. */
async function listOrNone<T extends KubeObject>(
  client: KubeClient,
  of: Resource<T>,
  signal: AbortSignal,
): Promise<readonly T[]> {
  try {
    return (await client.list(of, { signal })).items;
  } catch (error) {
    if (hasCode(error, "API_NOT_FOUND")) return [];
    throw error;
  }
}

function serviceOf({ metadata, spec }: Service, slices: readonly EndpointSlice[]): PolicyService {
  const { name, namespace = "", labels = {} } = metadata;
  const selector = Object.keys(spec?.selector ?? {}).length > 0 ? spec?.selector : undefined;
  return {
    name,
    namespace,
    labels,
    addresses: selector === undefined ? addressesOf(slices, namespace, name) : [],
    ...defined({ selector }),
  };
}

function addressesOf(
  slices: readonly EndpointSlice[],
  namespace: string,
  service: string,
): readonly IpAddress[] {
  return slices
    .filter(
      (it) => it.metadata.namespace === namespace && it.metadata.labels?.[SERVICE_NAME_LABEL] === service,
    )
    .flatMap((it) => it.endpoints ?? [])
    .flatMap((it) => it.addresses ?? [])
    .flatMap((it) => tryParseAddress(it) ?? []);
}
