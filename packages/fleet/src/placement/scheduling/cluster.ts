import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { ineligibility, type Sight } from "./eligibility.ts";

export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

/** What the scheduler knows of a member cluster. */
export interface ClusterFacts {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
  /** Whether the MemberCluster is being deleted: what is placed there is to go. */
  readonly isLeaving: boolean;
  /** Why nothing can be placed there now; undefined if it can. */
  readonly ineligible: string | undefined;
  /** Namespaces of the cluster; undefined if the member does not report them. */
  readonly namespaces: ReadonlySet<string> | undefined;
  /** The value of a property. Unit: 10^-9. Undefined if it is missing or not a quantity. */
  readonly property: (name: string) => bigint | undefined;
}

/** Condition of members that report their namespaces. */
const NAMESPACES_COLLECTED = "NamespaceCollectionSucceeded";

export function clusterFacts(member: MemberCluster, sight: Sight): ClusterFacts {
  const { metadata, spec, status } = member;
  const known = new Map<string, bigint | undefined>();
  const isCollected = findCondition(status?.conditions, NAMESPACES_COLLECTED) !== undefined;
  return {
    name: metadata.name,
    labels: metadata.labels ?? {},
    taints: spec.taints ?? [],
    isLeaving: isDeleting(member),
    ineligible: ineligibility(member, sight),
    namespaces: isCollected ? new Set(Object.keys(status?.namespaces ?? {})) : undefined,
    property(name) {
      if (!known.has(name)) known.set(name, parseQuantity(propertyOf(member, name)));
      return known.get(name);
    },
  };
}

const USAGE_PREFIX = "resources.kubernetes-fleet.io/";
const USAGE = { total: "capacity", allocatable: "allocatable", available: "available" } as const;

/** The text of a property. Those of resources, such as `resources.kubernetes-fleet.io/available-cpu`, are the usage that the member reports. */
export function propertyOf({ status }: MemberCluster, name: string): unknown {
  if (!name.startsWith(USAGE_PREFIX)) return own(status?.properties, name)?.value;
  const [, part, resource = ""] =
    /^(total|allocatable|available)-(.+)$/.exec(name.slice(USAGE_PREFIX.length)) ?? [];
  if (part === undefined) return undefined;
  const amounts = status?.resourceUsage?.[USAGE[part as keyof typeof USAGE]];
  return own(amounts as Readonly<Record<string, unknown>> | undefined, resource);
}

/** Names are the user's: `constructor` is not a property. */
function own<V>(map: Readonly<Record<string, V>> | undefined, name: string): V | undefined {
  return map !== undefined && Object.hasOwn(map, name) ? map[name] : undefined;
}
