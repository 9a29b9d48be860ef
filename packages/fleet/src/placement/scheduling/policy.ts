import type {
  PlacementPolicy,
  TopologySpreadConstraint,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { compilePreference, compileTerm, type Scorer } from "./affinity.ts";
import type { ClusterFacts } from "./cluster.ts";
import { policyProblems } from "./problems.ts";
import type { Spread } from "./spread.ts";
import { formatTaint, untolerated } from "./taints.ts";

/** In the order in which they are asked. */
export const PLUGINS = [
  "ClusterAffinity",
  "ClusterEligibility",
  "NamespaceAffinity",
  "TaintToleration",
  "SamePlacementAffinity",
  "TopologySpreadConstraints",
] as const;
export type PluginName = (typeof PLUGINS)[number];

/** What a filter reads besides the cluster. */
export interface Round {
  /** Of a ResourcePlacement: its own. */
  readonly namespace: string | undefined;
  /** Whether the placement has the cluster already. */
  readonly isPlaced: (cluster: string) => boolean;
  readonly spread: Spread;
}

export interface Filter {
  readonly plugin: PluginName;
  readonly passes: (cluster: ClusterFacts, round: Round) => boolean;
  /** In words, why a cluster does not pass. */
  readonly why: (cluster: ClusterFacts, round: Round) => string;
}

/** A policy as it is asked: read once, then used for all clusters. */
export interface CompiledPolicy {
  readonly type: "PickAll" | "PickFixed" | "PickN";
  /** Of PickFixed. */
  readonly names: ReadonlySet<string>;
  readonly problems: readonly string[];
  readonly filters: readonly Filter[];
  /** The affinity score of a cluster of a fleet. */
  readonly scorerOf: (fleet: readonly ClusterFacts[]) => Scorer;
  readonly spread: readonly TopologySpreadConstraint[];
  /** Properties that it reads. */
  readonly properties: ReadonlySet<string>;
}

/** @param policy - Absent: PickAll over everything. */
export function compilePolicy(policy: PlacementPolicy = {}): CompiledPolicy {
  const problems = policyProblems(policy);
  const {
    placementType: type = "PickAll",
    clusterNames = [],
    topologySpreadConstraints: spread = [],
  } = policy;
  if (problems.length > 0)
    return {
      type,
      problems,
      names: new Set(),
      filters: [],
      scorerOf: () => () => 0,
      spread: [],
      properties: new Set(),
    };
  const preferences = (preferredOf(policy) ?? []).map(compilePreference);
  return {
    type,
    problems,
    names: new Set(clusterNames),
    filters: [
      clusterAffinity(policy),
      CLUSTER_ELIGIBILITY,
      NAMESPACE_AFFINITY,
      taintToleration(policy),
      SAME_PLACEMENT_AFFINITY,
      TOPOLOGY_SPREAD,
    ],
    scorerOf(fleet) {
      const scorers = preferences.map((it) => it(fleet));
      return (cluster) => scorers.reduce((sum, score) => sum + score(cluster), 0);
    },
    spread,
    properties: propertiesOf(policy),
  };
}

function requiredOf({ affinity }: PlacementPolicy) {
  return affinity?.clusterAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.clusterSelectorTerms;
}
function preferredOf({ affinity }: PlacementPolicy) {
  return affinity?.clusterAffinity?.preferredDuringSchedulingIgnoredDuringExecution;
}

function propertiesOf(policy: PlacementPolicy): ReadonlySet<string> {
  const required = (requiredOf(policy) ?? []).flatMap((it) => it.propertySelector?.matchExpressions ?? []);
  const sorters = (preferredOf(policy) ?? []).flatMap((it) => it.preference.propertySorter ?? []);
  return new Set([...required, ...sorters].map((it) => it.name));
}

function clusterAffinity(policy: PlacementPolicy): Filter {
  const terms = (requiredOf(policy) ?? []).map(compileTerm);
  return {
    plugin: "ClusterAffinity",
    // No terms require nothing.
    passes: (cluster) => terms.length === 0 || terms.some((it) => it.matches(cluster)),
    why: (cluster) => {
      const [first] = terms;
      return terms.length === 1 && first !== undefined
        ? first.lacks(cluster)
        : `it matches none of the ${terms.length} required terms`;
    },
  };
}

const CLUSTER_ELIGIBILITY: Filter = {
  plugin: "ClusterEligibility",
  passes: (cluster) => cluster.ineligible === undefined,
  why: (cluster) => cluster.ineligible ?? "",
};

const NAMESPACE_AFFINITY: Filter = {
  plugin: "NamespaceAffinity",
  passes: ({ namespaces }, { namespace }) =>
    namespace === undefined || namespaces === undefined || namespaces.has(namespace),
  why: (_, { namespace = "" }) => `it does not have namespace ${namespace}`,
};

function taintToleration({ tolerations = [] }: PlacementPolicy): Filter {
  return {
    plugin: "TaintToleration",
    passes: ({ taints }) => taints.length === 0 || untolerated(taints, tolerations) === undefined,
    why: ({ taints }) => {
      const taint = untolerated(taints, tolerations);
      return taint === undefined ? "" : `its taint ${formatTaint(taint)} is not tolerated`;
    },
  };
}

const SAME_PLACEMENT_AFFINITY: Filter = {
  plugin: "SamePlacementAffinity",
  passes: (cluster, { isPlaced }) => !isPlaced(cluster.name),
  why: () => "the placement has the cluster already",
};

const TOPOLOGY_SPREAD: Filter = {
  plugin: "TopologySpreadConstraints",
  passes: (cluster, { spread }) => !spread.isNeeded || spread.judge(cluster).violation === undefined,
  why: (cluster, { spread }) => spread.judge(cluster).violation ?? "",
};
