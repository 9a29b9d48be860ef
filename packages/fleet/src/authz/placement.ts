import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import {
  CLUSTER_RESOURCE_ENVELOPES,
  CLUSTER_RESOURCE_OVERRIDE_SNAPSHOTS,
  CLUSTER_RESOURCE_OVERRIDES,
  PLACEMENT_DISRUPTION_BUDGETS,
  PLACEMENT_EVICTIONS,
  RESOURCE_ENVELOPES,
  RESOURCE_OVERRIDE_SNAPSHOTS,
  RESOURCE_OVERRIDES,
  RESOURCE_PLACEMENT_DISRUPTION_BUDGETS,
  RESOURCE_PLACEMENT_EVICTIONS,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENT_STATUSES,
  CLUSTER_RESOURCE_PLACEMENTS,
  CLUSTER_RESOURCE_SNAPSHOTS,
  CLUSTER_SCHEDULING_POLICY_SNAPSHOTS,
  RESOURCE_BINDINGS,
  RESOURCE_PLACEMENTS,
  RESOURCE_SNAPSHOTS,
  SCHEDULING_POLICY_SNAPSHOTS,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import {
  APPROVAL_REQUESTS,
  CLUSTER_APPROVAL_REQUESTS,
  CLUSTER_STAGED_UPDATE_RUNS,
  CLUSTER_STAGED_UPDATE_STRATEGIES,
  STAGED_UPDATE_RUNS,
  STAGED_UPDATE_STRATEGIES,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { CLUSTER_PROFILES } from "#api/multicluster.x-k8s.io/cluster-profiles.ts";
import { INTERNAL_SERVICE_EXPORTS } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { APPLIED_WORKS, WORKS } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { type Access, allow, WATCH } from "./access.ts";

/** The rights of placements, on the hub and in members. */

type Kind = Resource;

/** Of users: the hub adds finalizers, labels and a status. */
const WANTED: readonly Kind[] = [
  CLUSTER_RESOURCE_PLACEMENTS,
  RESOURCE_PLACEMENTS,
  CLUSTER_RESOURCE_OVERRIDES,
  RESOURCE_OVERRIDES,
  PLACEMENT_EVICTIONS,
  RESOURCE_PLACEMENT_EVICTIONS,
  CLUSTER_STAGED_UPDATE_RUNS,
  STAGED_UPDATE_RUNS,
] as readonly Kind[];

/** Of users, read only. */
const READ: readonly Kind[] = [
  PLACEMENT_DISRUPTION_BUDGETS,
  RESOURCE_PLACEMENT_DISRUPTION_BUDGETS,
  CLUSTER_RESOURCE_ENVELOPES,
  RESOURCE_ENVELOPES,
  CLUSTER_STAGED_UPDATE_STRATEGIES,
  STAGED_UPDATE_STRATEGIES,
] as readonly Kind[];

/** Of the hub. */
const MADE: readonly Kind[] = [
  CLUSTER_SCHEDULING_POLICY_SNAPSHOTS,
  SCHEDULING_POLICY_SNAPSHOTS,
  CLUSTER_RESOURCE_SNAPSHOTS,
  RESOURCE_SNAPSHOTS,
  CLUSTER_RESOURCE_BINDINGS,
  RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_OVERRIDE_SNAPSHOTS,
  RESOURCE_OVERRIDE_SNAPSHOTS,
  CLUSTER_RESOURCE_PLACEMENT_STATUSES,
  CLUSTER_APPROVAL_REQUESTS,
  APPROVAL_REQUESTS,
  WORKS,
] as readonly Kind[];

/** Any kind: what placements may select is not known before. */
const ANYTHING = { group: "*", plural: "*" };

export const HUB_PLACEMENT: readonly Access[] = [
  ...[...WANTED, ...MADE].map((it) => allow(it, ["patch"], { subresource: "status" })),
  ...WANTED.map((it) => allow(it, ["get", ...WATCH, "patch"])),
  ...READ.map((it) => allow(it, ["get", ...WATCH])),
  ...MADE.map((it) => allow(it, ["get", ...WATCH, "create", "patch", "delete"])),
  allow(CLUSTER_PROFILES, [...WATCH, "create", "patch", "delete"]),
  allow(CLUSTER_PROFILES, ["patch"], { subresource: "status" }),
  allow(ANYTHING, ["get", ...WATCH]),
  // For "reportBackStrategy": the status of placed objects is written onto those of the hub.
  allow(ANYTHING, ["patch"], { subresource: "status" }),
];

/** What the applier keeps of its own, besides what the ClusterRole of applied objects permits. */
export const MEMBER_WORK: readonly Access[] = [
  allow(APPLIED_WORKS, ["get", ...WATCH, "create", "patch", "delete"]),
  allow(APPLIED_WORKS, ["patch"], { subresource: "status" }),
  // It owns applied objects, and its deletion waits for theirs.
  allow(APPLIED_WORKS, ["update"], { subresource: "finalizers" }),
];

/** What the hub's webhook decides by. */
export const WEBHOOK_READS: readonly Access[] = [
  allow(CLUSTER_RESOURCE_OVERRIDES, ["list"]),
  allow(RESOURCE_OVERRIDES, ["list"]),
  allow(CLUSTER_RESOURCE_PLACEMENTS, ["get"]),
  allow(INTERNAL_SERVICE_EXPORTS, ["list"]),
];
