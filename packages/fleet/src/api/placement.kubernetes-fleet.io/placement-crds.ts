import type {
  CustomResourceDefinition,
  JsonSchema,
  PrinterColumn,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { AGE, CONDITIONS, crd, int32, list, object, oneOf, text, time } from "../crd-schema.ts";
import {
  APPLY_STRATEGY,
  CATEGORIES,
  CLUSTER_SELECTOR,
  CLUSTER_SELECTOR_TERM,
  GROUP,
  intOrPercent,
  placementStatus,
  REPORT_BACK_STRATEGY,
  RESOURCE_SELECTOR,
  rules,
  type Version,
  withDefault,
} from "./schemas.ts";

/** ClusterResourcePlacement, ResourcePlacement, and the copy of a status in a namespace. */

const NAMESPACES =
  "self.resourceSelectors.filter(x, x.kind == 'Namespace' && x.group == \"\" && x.version == 'v1'";
const CHOSEN = `${NAMESPACES} && has(x.selectionScope) && x.selectionScope == 'NamespaceWithResourceSelectors'`;

const SELECTOR_RULES: readonly (readonly [string, string])[] = [
  ["!(has(oldSelf.policy) && !has(self.policy))", "policy cannot be removed once set"],
  [
    `size(${CHOSEN})) <= 1`,
    "only one namespace selector with NamespaceWithResourceSelectors mode is allowed",
  ],
  [
    `size(${CHOSEN})) == 0 || (size(${CHOSEN} && has(x.name) && size(x.name) > 0 && !has(x.labelSelector))) == 1)`,
    "namespace selector with NamespaceWithResourceSelectors mode must select by name (not by label)",
  ],
  [
    `size(${CHOSEN})) == 0 || size(${NAMESPACES})) == 1`,
    "when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed (cannot mix with other namespace selectors)",
  ],
];
const SCOPE_RULES: readonly (readonly [string, string])[] = [
  [
    "!(self.statusReportingScope == 'NamespaceAccessible' && size(self.resourceSelectors.filter(x, x.kind == 'Namespace')) != 1)",
    "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind 'Namespace' is required",
  ],
  [
    "!has(oldSelf.statusReportingScope) || self.statusReportingScope == oldSelf.statusReportingScope",
    "statusReportingScope is immutable",
  ],
];

export const POLICY = object(
  {
    placementType: withDefault(
      oneOf(["PickAll", "PickN", "PickFixed"], "How clusters are picked."),
      "PickAll",
    ),
    clusterNames: list(text(), "With PickFixed: the clusters.", { maxItems: 100 }),
    numberOfClusters: int32("With PickN: how many clusters.", { minimum: 0 }),
    affinity: object({
      clusterAffinity: object({
        requiredDuringSchedulingIgnoredDuringExecution: CLUSTER_SELECTOR,
        preferredDuringSchedulingIgnoredDuringExecution: list(
          object({
            "weight!": int32("Range: -100 to 100.", { minimum: -100, maximum: 100 }),
            "preference!": CLUSTER_SELECTOR_TERM,
          }),
        ),
      }),
    }),
    topologySpreadConstraints: list(
      object({
        maxSkew: withDefault(int32("How uneven the spread may be.", { minimum: 1 }), 1),
        "topologyKey!": text("A label of clusters."),
        whenUnsatisfiable: withDefault(oneOf(["DoNotSchedule", "ScheduleAnyway"]), "DoNotSchedule"),
      }),
    ),
    tolerations: list(
      object({
        key: text(),
        operator: withDefault(oneOf(["Equal", "Exists"]), "Equal"),
        value: text(),
        effect: oneOf(["NoSchedule"]),
      }),
      "Taints that do not keep the placement away.",
      {
        maxItems: 100,
        ...rules(
          [
            "self.all(x, (has(x.key) && size(x.key) > 0) || x.operator == 'Exists')",
            "operator must be Exists when key is empty",
          ],
          [
            "self.all(x, x.operator != 'Exists' || !has(x.value) || size(x.value) == 0)",
            "value must be empty when operator is Exists",
          ],
        ),
      },
    ),
  },
  "Which clusters are picked. Absent: all.",
);

const BUDGET = { default: "25%", pattern: "^((100|[0-9]{1,2})%|[0-9]+)$" };

/** Of placements, not of policy snapshots: it changes nothing about which clusters are picked. */
const PLACEMENT_POLICY: JsonSchema = {
  ...POLICY,
  properties: {
    ...POLICY.properties,
    requiredDuringExecution: object(
      {
        requirements: list(
          oneOf(["ClusterAffinity", "ClusterEligibility", "NamespaceAffinity", "TaintToleration"]),
          "What is required, by the plugin that checks it. Default: ClusterAffinity and ClusterEligibility.",
          { minItems: 1, maxItems: 4 },
        ),
        afterSeconds: int32(
          "How long a cluster has to fail before it is replaced, and to pass before it is picked again. Default: 300.",
          { minimum: 0, maximum: 86_400 },
        ),
        maxReplacements: intOrPercent(
          "How many clusters may be in replacement at the same time. A percentage rounds up. Default: 1.",
          { pattern: BUDGET.pattern },
        ),
        intervalSeconds: int32("Shortest time between two replacements. Default: 60.", {
          minimum: 0,
          maximum: 86_400,
        }),
      },
      "Addition. Clusters that meet the policy no longer are replaced. Absent: a cluster that is picked stays.",
    ),
  },
};

const POLICY_RULES = rules(
  ["!(self.placementType != oldSelf.placementType)", "placement type is immutable"],
  [
    "self.placementType != 'PickAll' || (!has(self.clusterNames) && !has(self.numberOfClusters) && !has(self.topologySpreadConstraints))",
    "clusterNames, numberOfClusters, and topologySpreadConstraints cannot be set when placementType is PickAll",
  ],
  [
    "self.placementType != 'PickFixed' || (!has(self.affinity) && !has(self.numberOfClusters) && !has(self.topologySpreadConstraints) && !has(self.tolerations))",
    "affinity, numberOfClusters, topologySpreadConstraints, and tolerations cannot be set when placementType is PickFixed",
  ],
  [
    "self.placementType != 'PickN' || (!has(self.clusterNames) && has(self.numberOfClusters))",
    "clusterNames cannot be set and numberOfClusters must be set when placementType is PickN",
  ],
);

function strategy(version: Version): JsonSchema {
  return object({
    type: {
      ...withDefault(
        oneOf(
          ["RollingUpdate", "External"],
          "Whether changes are rolled out by the placement, or by staged update runs.",
        ),
        "RollingUpdate",
      ),
      ...rules([
        "!(self != 'External' && oldSelf == 'External')",
        "cannot change rollout strategy type from 'External' to other types",
      ]),
    },
    rollingUpdate: object({
      maxUnavailable: intOrPercent("Clusters that may be unavailable. Percentages are rounded up.", BUDGET),
      maxSurge: intOrPercent("Clusters above the number wanted. Percentages are rounded up.", BUDGET),
      unavailablePeriodSeconds: {
        type: "integer",
        description: "How long objects of unknown health count as unavailable. Unit: seconds.",
        default: 60,
        minimum: 0,
      },
    }),
    applyStrategy: APPLY_STRATEGY,
    ...(version === "v1"
      ? {}
      : {
          deleteStrategy: object({
            propagationPolicy: withDefault(
              oneOf(["Abandon", "Delete"], "Whether placed objects go with the placement."),
              "Delete",
            ),
          }),
          reportBackStrategy: {
            ...REPORT_BACK_STRATEGY,
            ...rules([
              "(self == null) || (self.type == 'Mirror' ? size(self.destination) != 0 : true)",
              "when reportBackStrategy.type is 'Mirror', a destination must be specified",
            ]),
          },
        }),
  });
}

function placement(version: Version, specRules: readonly (readonly [string, string])[]): JsonSchema {
  return object(
    {
      "spec!": object(
        {
          "resourceSelectors!": list(RESOURCE_SELECTOR, "The objects to place.", {
            minItems: 1,
            maxItems: 100,
            ...rules([
              "self.all(x, !(has(x.name) && size(x.name) > 0 && has(x.labelSelector)))",
              "name and labelSelector are mutually exclusive in a resource selector",
            ]),
          }),
          policy: { ...PLACEMENT_POLICY, ...POLICY_RULES },
          strategy: strategy(version),
          revisionHistoryLimit: withDefault(
            int32("How many resource snapshots are kept.", { minimum: 1, maximum: 1000 }),
            10,
          ),
          statusReportingScope: withDefault(
            oneOf(
              ["ClusterScopeOnly", "NamespaceAccessible"],
              "Whether the status is copied to the selected namespace.",
            ),
            "ClusterScopeOnly",
          ),
        },
        undefined,
        rules(...specRules),
      ),
      status: placementStatus(version, CONDITIONS),
    },
    "Places objects of the hub on clusters.",
  );
}

function columns(prefix: string): readonly PrinterColumn[] {
  const of = (name: string, type: string, wide: boolean): PrinterColumn[] => {
    const at = `.status.conditions[?(@.type=="${prefix}${type}")]`;
    const priority = wide ? { priority: 1 } : {};
    return [
      { name, type: "string", jsonPath: `${at}.status`, ...priority },
      { name: `${name}-Gen`, type: "string", jsonPath: `${at}.observedGeneration`, ...priority },
    ];
  };
  return [
    { name: "Gen", type: "string", jsonPath: ".metadata.generation" },
    { name: "Type", type: "string", jsonPath: ".spec.policy.placementType", priority: 1 },
    ...of("Scheduled", "Scheduled", false),
    ...of("Work-Synchronized", "WorkSynchronized", true),
    ...of("Available", "Available", false),
    AGE,
  ];
}

function placementCrd(
  kind: string,
  shortName: string,
  specRules: readonly (readonly [string, string])[],
): CustomResourceDefinition {
  const version = (name: Version) => ({
    name,
    storage: name === "v1beta1",
    schema: placement(name, specRules),
    columns: columns(kind),
  });
  return crd({
    group: GROUP,
    kind,
    scope: kind.startsWith("Cluster") ? "Cluster" : "Namespaced",
    shortNames: [shortName],
    categories: CATEGORIES,
    versions: [version("v1"), version("v1beta1")],
  });
}

function statusCopy(version: Version): JsonSchema {
  return object(
    {
      "sourceStatus!": placementStatus(version, CONDITIONS),
      "lastUpdatedTime!": time("When it was copied last."),
    },
    "The status of the ClusterResourcePlacement of this name, for users of the namespace.",
  );
}
const STATUS_COLUMNS: readonly PrinterColumn[] = [
  { name: "Resource-Index", type: "string", jsonPath: ".sourceStatus.observedResourceIndex" },
  { name: "Last-Updated", type: "string", jsonPath: ".lastUpdatedTime" },
  AGE,
];

export const PLACEMENT_CRDS: readonly CustomResourceDefinition[] = [
  placementCrd("ClusterResourcePlacement", "crp", [...SELECTOR_RULES, ...SCOPE_RULES]),
  placementCrd("ResourcePlacement", "rp", SELECTOR_RULES),
  crd({
    group: GROUP,
    kind: "ClusterResourcePlacementStatus",
    plural: "clusterresourceplacementstatuses",
    shortNames: ["crps"],
    categories: CATEGORIES,
    versions: (["v1", "v1beta1"] as const).map((name) => ({
      name,
      storage: name === "v1beta1",
      status: false,
      schema: statusCopy(name),
      columns: STATUS_COLUMNS,
    })),
  }),
];
