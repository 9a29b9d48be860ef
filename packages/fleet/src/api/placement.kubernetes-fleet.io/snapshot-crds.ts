import type {
  CustomResourceDefinition,
  JsonSchema,
  PrinterColumn,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { AGE, CONDITIONS, crd, int64, list, object, text } from "../crd-schema.ts";
import { POLICY } from "./placement-crds.ts";
import {
  ANY_OBJECT,
  APPLY_STRATEGY,
  CATEGORIES,
  CLUSTER_DECISION,
  GROUP,
  NAMESPACED_NAME,
  placementDetails,
  type Version,
} from "./schemas.ts";

/** What a placement is carried out by: snapshots of its policy and of its objects, and its bindings to clusters. */

const POLICY_SNAPSHOT = object(
  {
    "spec!": object({
      policy: POLICY,
      "policyHash!": text("Without the number of clusters.", { format: "byte" }),
    }),
    status: object({
      "observedCRPGeneration!": int64("The generation of the placement that was scheduled."),
      conditions: CONDITIONS,
      targetClusters: list(CLUSTER_DECISION, "The picked clusters, and why some others were not picked.", {
        maxItems: 1000,
      }),
    }),
  },
  "A policy of a placement, and the clusters that the scheduler picked for it.",
);

const RESOURCE_SNAPSHOT = object(
  {
    "spec!": object({ "selectedResources!": list(ANY_OBJECT, "The objects, as they are to be placed.") }),
    status: object({ conditions: CONDITIONS }),
  },
  "The objects of a placement, or a part of them.",
);

function binding(version: Version): JsonSchema {
  return object(
    {
      "spec!": object({
        "state!": text("Scheduled, Bound or Unscheduled."),
        "resourceSnapshotName!": text("The objects that the cluster gets; empty before it gets any."),
        resourceOverrideSnapshots: list(NAMESPACED_NAME),
        clusterResourceOverrideSnapshots: list(text()),
        "schedulingPolicySnapshotName!": text("The policy that the cluster was picked for."),
        "targetCluster!": text("The cluster."),
        "clusterDecision!": CLUSTER_DECISION,
        applyStrategy: APPLY_STRATEGY,
      }),
      status: object({ conditions: CONDITIONS, ...placementDetails(version) }),
    },
    "A cluster that a placement is for.",
  );
}

const GENERATION_COLUMNS: readonly PrinterColumn[] = [
  { name: "Gen", type: "string", jsonPath: ".metadata.generation" },
  AGE,
];

function statusOf(name: string, type: string, more: Partial<PrinterColumn> = {}): PrinterColumn {
  return { name, type: "string", jsonPath: `.status.conditions[?(@.type=="${type}")].status`, ...more };
}
const BINDING_COLUMNS: readonly PrinterColumn[] = [
  statusOf("WorkSynchronized", "WorkSynchronized"),
  statusOf("ResourcesApplied", "Applied"),
  statusOf("ResourceAvailable", "Available", { priority: 1 }),
  AGE,
];

interface Pair {
  readonly kind: string;
  readonly shortNames: readonly [cluster: string, namespaced: string];
  readonly schema: (version: Version) => JsonSchema;
  readonly columns: readonly PrinterColumn[];
}

/** The kind of ClusterResourcePlacements in v1 and v1beta1, and the kind of ResourcePlacements in v1beta1. */
function pair({ kind, shortNames, schema, columns }: Pair): CustomResourceDefinition[] {
  const version = (name: Version) => ({
    name,
    storage: name === "v1beta1",
    schema: schema(name),
    columns,
  });
  const common = { group: GROUP, categories: CATEGORIES };
  return [
    crd({
      ...common,
      kind: `Cluster${kind}`,
      scope: "Cluster",
      shortNames: [shortNames[0]],
      versions: [version("v1"), version("v1beta1")],
    }),
    crd({ ...common, kind, shortNames: [shortNames[1]], versions: [version("v1beta1")] }),
  ];
}

export const SNAPSHOT_CRDS: readonly CustomResourceDefinition[] = [
  ...pair({
    kind: "SchedulingPolicySnapshot",
    shortNames: ["csps", "sps"],
    schema: () => POLICY_SNAPSHOT,
    columns: GENERATION_COLUMNS,
  }),
  ...pair({
    kind: "ResourceSnapshot",
    shortNames: ["crs", "rs"],
    schema: () => RESOURCE_SNAPSHOT,
    columns: GENERATION_COLUMNS,
  }),
  ...pair({ kind: "ResourceBinding", shortNames: ["crb", "rb"], schema: binding, columns: BINDING_COLUMNS }),
];
