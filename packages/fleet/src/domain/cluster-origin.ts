import type { Node } from "@fairlead/kube/api/core/v1/types.ts";

/** Where a cluster runs and what it was made by, as its nodes and its API server show. Pure. */

export const REGION_PROPERTY = "fairlead.dev/region";
export const ZONE_PROPERTY = "fairlead.dev/zone";
/** Such as "aks", "eks", "gke", "k3s", "openshift". */
export const DISTRIBUTION_PROPERTY = "fairlead.dev/distribution";
/** The scheme of the nodes' provider IDs, such as "azure", "aws", "gce". */
export const NODE_PROVIDER_PROPERTY = "fairlead.dev/node-provider";
export const AZURE_SUBSCRIPTION_PROPERTY = "fairlead.dev/azure-subscription";
export const AZURE_GROUP_PROPERTY = "fairlead.dev/azure-resource-group";
export const AZURE_CLUSTER_PROPERTY = "fairlead.dev/azure-cluster";

export const ORIGINS = [
  REGION_PROPERTY,
  ZONE_PROPERTY,
  DISTRIBUTION_PROPERTY,
  NODE_PROVIDER_PROPERTY,
  AZURE_SUBSCRIPTION_PROPERTY,
  AZURE_GROUP_PROPERTY,
  AZURE_CLUSTER_PROPERTY,
] as const;
export type Origin = (typeof ORIGINS)[number];

export interface OriginFacts {
  readonly nodes: readonly Pick<Node, "metadata" | "spec">[];
  /** `gitVersion` of the API server. */
  readonly version: string | undefined;
  /** API groups of the cluster. */
  readonly groups: ReadonlySet<string>;
}

/** In versions of API servers, and in labels of nodes. */
const IN_VERSION = [
  ["+k3s", "k3s"],
  ["+rke2", "rke2"],
  ["-eks-", "eks"],
  ["-gke.", "gke"],
  ["+k0s", "k0s"],
] as const;
const IN_LABELS = [
  ["kubernetes.azure.com/cluster", "aks"],
  ["eks.amazonaws.com/nodegroup", "eks"],
  ["cloud.google.com/gke-nodepool", "gke"],
  ["minikube.k8s.io/version", "minikube"],
  ["microk8s.io/cluster", "microk8s"],
] as const;

export function originOf({ nodes, version = "", groups }: OriginFacts): ReadonlyMap<Origin, string> {
  const label = (key: string): string | undefined => common(nodes.map((it) => it.metadata.labels?.[key]));
  const providerIds = nodes.flatMap((it) => it.spec?.providerID ?? []);
  const provider = common(providerIds.map((it) => /^([a-z0-9-]+):\/\//.exec(it)?.[1]));
  const facts: readonly (readonly [Origin, string | undefined])[] = [
    [REGION_PROPERTY, label("topology.kubernetes.io/region")],
    [ZONE_PROPERTY, label("topology.kubernetes.io/zone")],
    [DISTRIBUTION_PROPERTY, distributionOf({ nodes, version, groups, provider })],
    [NODE_PROVIDER_PROPERTY, provider],
    ...azureOf(provider, providerIds, label("kubernetes.azure.com/cluster")),
  ];
  return new Map(facts.flatMap(([key, value]) => (value === undefined ? [] : [[key, value] as const])));
}

function distributionOf({
  nodes,
  version,
  groups,
  provider,
}: Required<OriginFacts> & { readonly version: string; readonly provider: string | undefined }):
  | string
  | undefined {
  if (groups.has("config.openshift.io")) return "openshift";
  const inVersion = IN_VERSION.find(([part]) => version.includes(part))?.[1];
  if (inVersion !== undefined) return inVersion;
  const inLabels = IN_LABELS.find(([key]) =>
    nodes.some((it) => Object.hasOwn(it.metadata.labels ?? {}, key)),
  );
  return inLabels?.[1] ?? (provider === "kind" ? "kind" : undefined);
}

/** AKS names the group of the nodes "MC_GROUP_CLUSTER_REGION": parts with an underscore of their own are ambiguous. */
function azureOf(
  provider: string | undefined,
  providerIds: readonly string[],
  nodeGroup: string | undefined,
): readonly (readonly [Origin, string | undefined])[] {
  if (provider !== "azure") return [];
  const subscription = common(
    providerIds.map((it) => /^azure:\/\/\/subscriptions\/([^/]+)\//i.exec(it)?.[1]),
  );
  const [prefix = "", group, cluster, region, ...rest] = (nodeGroup ?? "").split("_");
  const isPlain = prefix.toUpperCase() === "MC" && region !== undefined && rest.length === 0;
  return [
    [AZURE_SUBSCRIPTION_PROPERTY, subscription],
    [AZURE_GROUP_PROPERTY, isPlain ? group : undefined],
    [AZURE_CLUSTER_PROPERTY, isPlain ? cluster : undefined],
  ];
}

/** The value that all have, which all of those have that have one. */
function common(values: readonly (string | undefined)[]): string | undefined {
  const known = new Set(values.filter((it) => it !== undefined && it !== ""));
  return known.size === 1 ? [...known][0] : undefined;
}
