import type {
  CustomResourceDefinition,
  JsonSchema,
  PrinterColumn,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { crd, list, object, oneOf, PLAIN_CONDITIONS, text } from "../crd-schema.ts";
import {
  CATEGORIES,
  CLUSTER_SELECTOR,
  GROUP,
  immutable,
  intOrPercent,
  RESOURCE_SELECTOR,
  rules,
  type Version,
  withDefault,
} from "./schemas.ts";

/** Overrides and their snapshots, evictions, budgets and envelopes. */

const POLICY = object({
  "overrideRules!": list(
    object({
      clusterSelector: {
        ...CLUSTER_SELECTOR,
        description: "Absent: no cluster. Without terms: every cluster.",
      },
      overrideType: withDefault(
        oneOf(["JSONPatch", "Delete"], "Whether the object is changed, or not placed."),
        "JSONPatch",
      ),
      jsonPatchOverrides: list(
        object({
          "op!": oneOf(["add", "remove", "replace"]),
          "path!": text("A JSON pointer."),
          value: {
            description:
              "May contain ${MEMBER-CLUSTER-NAME} and ${MEMBER-CLUSTER-LABEL-KEY-<label>}, which stand for the cluster's.",
            "x-kubernetes-preserve-unknown-fields": true,
          },
        }),
        "Applied in this order.",
        { minItems: 1, maxItems: 20 },
      ),
    }),
    "Applied in this order.",
    { minItems: 1, maxItems: 20 },
  ),
});

const BOUNDS: JsonSchema = { minItems: 1, maxItems: 20 };
const CLUSTER_SELECTORS = {
  "clusterResourceSelectors!": list(
    RESOURCE_SELECTOR,
    "The objects, by name; a Namespace stands for its content.",
    BOUNDS,
  ),
};
const RESOURCE_SELECTORS = {
  "resourceSelectors!": list(
    object({ "group!": text(), "version!": text(), "kind!": text(), "name!": text() }),
    "The objects of this namespace, by name.",
    BOUNDS,
  ),
};

function overrideSpec(selectors: Readonly<Record<string, JsonSchema>>, version: Version): JsonSchema {
  return object(
    {
      placement: object(
        { "name!": text(), scope: withDefault(oneOf(["Cluster", "Namespaced"]), "Cluster") },
        "The placement that it is for. Absent: all.",
      ),
      ...selectors,
      "policy!": POLICY,
    },
    undefined,
    version === "v1alpha1"
      ? {}
      : rules([
          "(has(oldSelf.placement) && has(self.placement) && oldSelf.placement == self.placement) || (!has(oldSelf.placement) && !has(self.placement))",
          "The placement field is immutable",
        ]),
  );
}

const NOT_NAMESPACED = rules([
  "!has(self.spec.placement) || self.spec.placement.scope != 'Namespaced'",
  "clusterResourceOverride placement reference cannot be Namespaced scope",
]);

const VERSIONS: readonly Version[] = ["v1", "v1alpha1", "v1beta1"];

function overrideCrds(
  kind: string,
  selectors: Readonly<Record<string, JsonSchema>>,
): CustomResourceDefinition[] {
  const isCluster = kind.startsWith("Cluster");
  const of = (name: string, schema: (version: Version) => JsonSchema): CustomResourceDefinition =>
    crd({
      group: GROUP,
      kind: name,
      scope: isCluster ? "Cluster" : "Namespaced",
      categories: CATEGORIES,
      versions: VERSIONS.map((version) => ({
        name: version,
        storage: version === "v1beta1",
        status: false,
        schema: schema(version),
      })),
    });
  return [
    of(kind, (version) =>
      object(
        { "spec!": overrideSpec(selectors, version) },
        "Changes what selected clusters get of an object.",
        isCluster ? NOT_NAMESPACED : {},
      ),
    ),
    of(`${kind}Snapshot`, (version) =>
      object(
        {
          "spec!": object({
            "overrideSpec!": overrideSpec(selectors, version),
            "overrideHash!": text(undefined, { format: "byte" }),
          }),
        },
        "An override as it was.",
      ),
    ),
  ];
}

const COUNT = rules([
  "type(self) == string ? self.matches('^(100|[0-9]{1,2})%$') : self >= 0",
  "If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied value is Integer must be greater than or equal to 0",
]);
const BUDGET = object(
  {
    "spec!": object(
      {
        maxUnavailable: intOrPercent("Clusters that may be unavailable.", COUNT),
        minAvailable: intOrPercent("Clusters that stay available.", COUNT),
      },
      undefined,
      rules([
        "!(has(self.maxUnavailable) && has(self.minAvailable))",
        "Both MaxUnavailable and MinAvailable cannot be specified",
      ]),
    ),
  },
  "Bounds the evictions of the placement of this name.",
);

function evictionOf(placement: string): JsonSchema {
  return object(
    {
      "spec!": object({
        "placementName!": text(`The ${placement}.`, {
          maxLength: 255,
          ...immutable("The PlacementName field"),
        }),
        "clusterName!": text("The cluster that it leaves.", {
          maxLength: 255,
          ...immutable("The ClusterName field"),
        }),
      }),
      status: object({ conditions: PLAIN_CONDITIONS }),
    },
    "Removes a placement from one cluster, once.",
  );
}
const EVICTION_COLUMNS: readonly PrinterColumn[] = ["Valid", "Executed"].map((name) => ({
  name,
  type: "string",
  jsonPath: `.status.conditions[?(@.type=="${name}")].status`,
}));

const ENVELOPE = object(
  {
    "data!": {
      type: "object",
      description: "Objects that take effect in members only, by a name of your choice.",
      additionalProperties: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
      minProperties: 1,
      maxProperties: 50,
    },
  },
  "Objects to place that the hub does not act upon.",
);
function envelopeCrd(kind: string, scope: "Cluster" | "Namespaced"): CustomResourceDefinition {
  return crd({
    group: GROUP,
    kind,
    scope,
    categories: CATEGORIES,
    versions: [{ name: "v1beta1", status: false, schema: ENVELOPE }],
  });
}

export const OVERRIDE_CRDS: readonly CustomResourceDefinition[] = [
  ...overrideCrds("ClusterResourceOverride", CLUSTER_SELECTORS),
  ...overrideCrds("ResourceOverride", RESOURCE_SELECTORS),
  crd({
    group: GROUP,
    kind: "ClusterResourcePlacementEviction",
    scope: "Cluster",
    shortNames: ["crpe"],
    categories: CATEGORIES,
    versions: (["v1alpha1", "v1beta1"] as const).map((name) => ({
      name,
      storage: name === "v1beta1",
      schema: evictionOf("ClusterResourcePlacement"),
      ...(name === "v1beta1" ? { columns: EVICTION_COLUMNS } : {}),
    })),
  }),
  crd({
    group: GROUP,
    kind: "ClusterResourcePlacementDisruptionBudget",
    scope: "Cluster",
    shortNames: ["crpdb"],
    categories: CATEGORIES,
    versions: (["v1alpha1", "v1beta1"] as const).map((name) => ({
      name,
      storage: name === "v1beta1",
      status: false,
      schema: BUDGET,
    })),
  }),
  // Additions: the same for ResourcePlacements.
  crd({
    group: GROUP,
    kind: "ResourcePlacementEviction",
    scope: "Namespaced",
    shortNames: ["rpe"],
    categories: CATEGORIES,
    versions: [{ name: "v1beta1", schema: evictionOf("ResourcePlacement"), columns: EVICTION_COLUMNS }],
  }),
  crd({
    group: GROUP,
    kind: "ResourcePlacementDisruptionBudget",
    scope: "Namespaced",
    shortNames: ["rpdb"],
    categories: CATEGORIES,
    versions: [{ name: "v1beta1", status: false, schema: BUDGET }],
  }),
  envelopeCrd("ClusterResourceEnvelope", "Cluster"),
  envelopeCrd("ResourceEnvelope", "Namespaced"),
];
