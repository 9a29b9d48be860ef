import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { ClusterSelectorTerm, IntOrPercent, ResourceSelector } from "./placement.ts";

/** Overrides, evictions, budgets and envelopes. */

export interface JsonPatchOverride {
  op: "add" | "remove" | "replace";
  /** JSON pointer (RFC 6901). */
  path: string;
  value?: unknown;
}
export interface OverrideRule {
  /** Absent: no cluster. Empty: every cluster. */
  clusterSelector?: { clusterSelectorTerms: ClusterSelectorTerm[] };
  /** Default: JSONPatch. */
  overrideType?: "JSONPatch" | "Delete";
  jsonPatchOverrides?: JsonPatchOverride[];
}
interface OverrideSpec {
  placement?: { name: string; scope?: "Cluster" | "Namespaced" };
  policy: { overrideRules: OverrideRule[] };
}
export interface ClusterResourceOverrideSpec extends OverrideSpec {
  clusterResourceSelectors: ResourceSelector[];
}
export interface ResourceOverrideSpec extends OverrideSpec {
  resourceSelectors: { group: string; version: string; kind: string; name: string }[];
}
export interface ClusterResourceOverride extends KubeObject {
  spec: ClusterResourceOverrideSpec;
}
export interface ResourceOverride extends KubeObject {
  spec: ResourceOverrideSpec;
}
/** `overrideHash` is base64. */
export interface ClusterResourceOverrideSnapshot extends KubeObject {
  spec: { overrideSpec: ClusterResourceOverrideSpec; overrideHash: string };
}
export interface ResourceOverrideSnapshot extends KubeObject {
  spec: { overrideSpec: ResourceOverrideSpec; overrideHash: string };
}

export interface PlacementEviction extends KubeObject {
  spec: { placementName: string; clusterName: string };
  status?: { conditions?: Condition[] };
}
export interface PlacementDisruptionBudget extends KubeObject {
  spec: { maxUnavailable?: IntOrPercent; minAvailable?: IntOrPercent };
}
export interface Envelope extends KubeObject {
  data: Record<string, KubeObject>;
}

const GROUP_VERSION = "placement.kubernetes-fleet.io/v1beta1";

export const CLUSTER_RESOURCE_OVERRIDES = resource<ClusterResourceOverride>(
  GROUP_VERSION,
  "ClusterResourceOverride",
  "clusterresourceoverrides",
  "Cluster",
);
export const RESOURCE_OVERRIDES = resource<ResourceOverride>(
  GROUP_VERSION,
  "ResourceOverride",
  "resourceoverrides",
);
export const CLUSTER_RESOURCE_OVERRIDE_SNAPSHOTS = resource<ClusterResourceOverrideSnapshot>(
  GROUP_VERSION,
  "ClusterResourceOverrideSnapshot",
  "clusterresourceoverridesnapshots",
  "Cluster",
);
export const RESOURCE_OVERRIDE_SNAPSHOTS = resource<ResourceOverrideSnapshot>(
  GROUP_VERSION,
  "ResourceOverrideSnapshot",
  "resourceoverridesnapshots",
);
export const PLACEMENT_EVICTIONS = resource<PlacementEviction>(
  GROUP_VERSION,
  "ClusterResourcePlacementEviction",
  "clusterresourceplacementevictions",
  "Cluster",
);
export const PLACEMENT_DISRUPTION_BUDGETS = resource<PlacementDisruptionBudget>(
  GROUP_VERSION,
  "ClusterResourcePlacementDisruptionBudget",
  "clusterresourceplacementdisruptionbudgets",
  "Cluster",
);
/** Additions: the same for ResourcePlacements. */
export const RESOURCE_PLACEMENT_EVICTIONS = resource<PlacementEviction>(
  GROUP_VERSION,
  "ResourcePlacementEviction",
  "resourceplacementevictions",
);
export const RESOURCE_PLACEMENT_DISRUPTION_BUDGETS = resource<PlacementDisruptionBudget>(
  GROUP_VERSION,
  "ResourcePlacementDisruptionBudget",
  "resourceplacementdisruptionbudgets",
);
export const CLUSTER_RESOURCE_ENVELOPES = resource<Envelope>(
  GROUP_VERSION,
  "ClusterResourceEnvelope",
  "clusterresourceenvelopes",
  "Cluster",
);
export const RESOURCE_ENVELOPES = resource<Envelope>(GROUP_VERSION, "ResourceEnvelope", "resourceenvelopes");
