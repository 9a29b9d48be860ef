import type { JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  bool,
  CONDITION,
  int32,
  int64,
  LABEL_SELECTOR,
  list,
  object,
  oneOf,
  PLAIN_CONDITIONS,
  text,
  time,
} from "../crd-schema.ts";

/** Parts that several kinds of placements have in common. */

export const GROUP = "placement.kubernetes-fleet.io";
export const CATEGORIES: readonly string[] = ["fleet", "fleet-placement"];

export type Version = "v1" | "v1beta1" | "v1alpha1";

export function withDefault(schema: JsonSchema, value: JsonSchema["default"]): JsonSchema {
  return { ...schema, default: value };
}
export function rules(...all: readonly (readonly [rule: string, message: string])[]): JsonSchema {
  return { "x-kubernetes-validations": all.map(([rule, message]) => ({ rule, message })) };
}
export function immutable(name: string): JsonSchema {
  return rules(["self == oldSelf", `${name} is immutable`]);
}
/** Any object of Kubernetes. */
export const ANY_OBJECT: JsonSchema = {
  type: "object",
  "x-kubernetes-embedded-resource": true,
  "x-kubernetes-preserve-unknown-fields": true,
};
export function intOrPercent(description: string, more: JsonSchema = {}): JsonSchema {
  return {
    description,
    anyOf: [{ type: "integer" }, { type: "string" }],
    "x-kubernetes-int-or-string": true,
    ...more,
  };
}

export const SELECTOR: JsonSchema = { ...LABEL_SELECTOR, "x-kubernetes-map-type": "atomic" };

/** By name or by labels. */
export const RESOURCE_SELECTOR = object({
  "group!": text("The API group; empty for core kinds."),
  "version!": text("The API version."),
  "kind!": text(),
  name: text("Selects one object. Absent: all objects that labelSelector matches."),
  labelSelector: SELECTOR,
  selectionScope: withDefault(
    oneOf(
      ["NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors"],
      "For Namespaces: whether the objects in it are selected too.",
    ),
    "NamespaceWithResources",
  ),
});

export const CLUSTER_SELECTOR_TERM = object({
  labelSelector: SELECTOR,
  propertySelector: object(
    {
      "matchExpressions!": list(
        object({
          "name!": text("The name of the property."),
          "operator!": text("Gt, Ge, Lt, Le, Eq or Ne."),
          "values!": list(text(), "One quantity.", { maxItems: 1 }),
        }),
      ),
    },
    "Conditions that properties of the cluster meet, all of them.",
  ),
  propertySorter: object({
    "name!": text("The name of the property."),
    "sortOrder!": oneOf(["Ascending", "Descending"]),
  }),
});

export const CLUSTER_SELECTOR = object({
  "clusterSelectorTerms!": list(CLUSTER_SELECTOR_TERM, "A cluster that meets one of them is selected.", {
    maxItems: 10,
  }),
});

export const APPLY_STRATEGY = object(
  {
    type: withDefault(
      oneOf(
        ["ClientSideApply", "ServerSideApply", "ReportDiff"],
        "How objects are written; ReportDiff only compares.",
      ),
      "ClientSideApply",
    ),
    serverSideApplyConfig: object({ force: bool("Takes fields from other field managers.") }),
    comparisonOption: withDefault(
      oneOf(["PartialComparison", "FullComparison"], "Compares the placed fields only, or all fields."),
      "PartialComparison",
    ),
    whenToApply: withDefault(
      oneOf(["Always", "IfNotDrifted"], "Whether changes that were made in the member are overwritten."),
      "Always",
    ),
    whenToTakeOver: withDefault(
      oneOf(["Always", "IfNoDiff", "Never"], "Whether an object that exists in the member is taken over."),
      "Always",
    ),
    allowCoOwnership: bool("Whether the object may have other owners."),
    sharedPriority: int32(
      "Addition. Placements that have it may share objects in a member: that with the highest number decides what they say. Absent: an object belongs to one placement.",
      { minimum: 0, maximum: 1000 },
    ),
    healthRules: list(
      object({
        group: text("Empty: the core group.", { maxLength: 253 }),
        "kind!": text(undefined, { minLength: 1, maxLength: 63 }),
        "available!": text(
          "CEL expression over object, the object in the member: true when it is available. Example: object.status.succeeded >= 1",
          { minLength: 1, maxLength: 1000 },
        ),
      }),
      "Addition. When objects of these kinds are available, in place of what is known of the kind. The first rule of a kind counts.",
      { maxItems: 20 },
    ),
    maxDifferences: int32(
      "Addition. How many differences of an object are listed in the status of its Work. Absent: 100. Bindings and placements list 100 in any case.",
      { minimum: 1, maximum: 10_000 },
    ),
  },
  "How objects are applied in members.",
);

export const REPORT_BACK_STRATEGY = object(
  {
    "type!": withDefault(oneOf(["Disabled", "Mirror"]), "Disabled"),
    destination: oneOf(["OriginalResource", "WorkAPI"], "Where the status is copied to."),
  },
  "Whether the status of placed objects is reported to the hub.",
);

export const NAMESPACED_NAME = object({ "name!": text(), "namespace!": text() });

function envelope(version: Version): JsonSchema {
  const kinds = ["ClusterResourceEnvelope", "ResourceEnvelope"];
  return object(
    {
      "name!": text(),
      namespace: text(),
      type: version === "v1" ? oneOf(kinds) : withDefault(oneOf(["ConfigMap", ...kinds]), "ConfigMap"),
    },
    "The envelope that the object came in.",
  );
}

function resourceFields(version: Version): Readonly<Record<string, JsonSchema>> {
  return {
    group: text(),
    "version!": text(),
    "kind!": text(),
    "name!": text(),
    namespace: text(),
    envelope: envelope(version),
  };
}

export function resourceIdentifier(version: Version): JsonSchema {
  return object(resourceFields(version));
}

export const PATCH_DETAIL = object({
  "path!": text("A JSON pointer."),
  valueInMember: text(),
  valueInHub: text(),
});

/** Entries beyond these are left out. */
const MAX_DETAILS = { maxItems: 100 };

/** What failed, drifted and differs in one member. */
export function placementDetails(version: Version): Readonly<Record<string, JsonSchema>> {
  const resource = resourceFields(version);
  return {
    failedPlacements: list(
      object({ ...resource, "condition!": CONDITION }),
      "Objects that were not applied or are not available.",
      MAX_DETAILS,
    ),
    driftedPlacements: list(
      object({
        ...resource,
        "observationTime!": time(),
        "targetClusterObservedGeneration!": int64(),
        "firstDriftedObservedTime!": time(),
        observedDrifts: list(PATCH_DETAIL),
      }),
      "Objects that were changed in the member.",
      MAX_DETAILS,
    ),
    diffedPlacements: list(
      object({
        ...resource,
        "observationTime!": time(),
        targetClusterObservedGeneration: int64(),
        "firstDiffedObservedTime!": time(),
        observedDiffs: list(PATCH_DETAIL),
      }),
      "Objects that differ from what is to be placed.",
      MAX_DETAILS,
    ),
  };
}

export function placementStatus(version: Version, conditions: JsonSchema): JsonSchema {
  return object({
    conditions,
    observedResourceIndex: text("The index of the resource snapshot that the conditions are about."),
    selectedResources: list(resourceIdentifier(version), "The objects that are selected."),
    placementStatuses: list(
      object({
        clusterName: text("Absent: no cluster could be picked."),
        conditions: PLAIN_CONDITIONS,
        observedResourceIndex: text(),
        applicableResourceOverrides: list(NAMESPACED_NAME),
        applicableClusterResourceOverrides: list(text()),
        ...placementDetails(version),
      }),
      "One entry for each cluster.",
    ),
  });
}

export const CLUSTER_DECISION = object({
  "clusterName!": text(),
  "selected!": bool(),
  "reason!": text("Why, for people."),
  clusterScore: object({
    affinityScore: int32(),
    priorityScore: int32("The score of the topology spread."),
  }),
});
