import {
  MEMBER_NAME_LABEL,
  type MemberCluster,
  type MemberClusterStatus,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { KUBERNETES_PROPERTY, reportedFacts } from "./cluster-facts.ts";
import {
  AZURE_CLUSTER_PROPERTY,
  AZURE_GROUP_PROPERTY,
  AZURE_SUBSCRIPTION_PROPERTY,
  DISTRIBUTION_PROPERTY,
  NODE_PROVIDER_PROPERTY,
  REGION_PROPERTY,
  ZONE_PROPERTY,
} from "./cluster-origin.ts";
import { isLabelValue } from "./formats.ts";

/** Labels that the hub gives to MemberClusters, for placements, profiles and update runs to select by. Pure. */

/** Follow what the member reports: they say what it is now. */
const FOLLOWED = [
  ["fairlead.dev/kubernetes-version", KUBERNETES_PROPERTY],
  ["fairlead.dev/distribution", DISTRIBUTION_PROPERTY],
  ["fairlead.dev/node-provider", NODE_PROVIDER_PROPERTY],
] as const;

/**
 * Are written where they are absent, and stay: users may write them first, and a member that changes what it reports does not
 * move into another region.
 */
const FIRST = [
  ["topology.kubernetes.io/region", REGION_PROPERTY],
  ["topology.kubernetes.io/zone", ZONE_PROPERTY],
  ["fleet.azure.com/location", REGION_PROPERTY],
  ["fleet.azure.com/subscription-id", AZURE_SUBSCRIPTION_PROPERTY],
  ["fleet.azure.com/resource-group", AZURE_GROUP_PROPERTY],
  ["fleet.azure.com/cluster-name", AZURE_CLUSTER_PROPERTY],
] as const;

/** The change of the labels; null removes one. Undefined: nothing changes. */
export function planLabels(
  { metadata: { name, labels = {} } }: Pick<MemberCluster, "metadata">,
  reported: MemberClusterStatus["properties"],
): Readonly<Record<string, string | null>> | undefined {
  const facts = reportedFacts(reported);
  const valueOf = (property: string): string | undefined => {
    // Versions may have a "+", which labels may not.
    const value = facts[property]?.value.replaceAll("+", "_");
    return value !== undefined && isLabelValue(value) ? value : undefined;
  };
  const wanted: readonly (readonly [string, string | undefined])[] = [
    [MEMBER_NAME_LABEL, name],
    ["fleet.azure.com/member-name", name],
    // A member that has reported nothing yet keeps what it had.
    ...(reported === undefined ? [] : FOLLOWED.map(([key, property]) => [key, valueOf(property)] as const)),
    ...FIRST.map(([key, property]) => [key, labels[key] ?? valueOf(property)] as const),
  ];
  const changes = wanted.filter(([key, value]) => labels[key] !== value);
  if (changes.length === 0) return undefined;
  return Object.fromEntries(changes.map(([key, value]) => [key, value ?? null]));
}
