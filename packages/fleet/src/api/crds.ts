import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { CILIUM_CRDS } from "./cilium.io/crds.ts";
import { CLUSTER_POLICY_CRD } from "./policy.networking.k8s.io/crds.ts";
import { CLUSTER_CRDS } from "./cluster.kubernetes-fleet.io/crds.ts";
import { FAIRLEAD_CRDS, TRAFFIC_ROUTE_CRD } from "./fairlead.dev/crds.ts";
import { UPDATE_CRDS } from "./fairlead.dev/update-crds.ts";
import { MESH_CRDS, MESH_HUB_CRDS } from "./fairlead.dev/mesh-crds.ts";
import { FLEET_MAILBOX_CRDS, FLEET_USER_CRDS } from "./networking.fleet.azure.com/crds.ts";
import { PEER_CRD } from "./fleetboard.io/crds.ts";
import { CLUSTER_PROFILE_CRD } from "./multicluster.x-k8s.io/cluster-profiles.ts";
import { MULTICLUSTER_CRDS } from "./multicluster.x-k8s.io/crds.ts";
import { PLACEMENT_CRDS } from "./placement.kubernetes-fleet.io/crds.ts";
import { APPLIED_WORK_CRD } from "./placement.kubernetes-fleet.io/work-crds.ts";
import { TRAFFIC_MANAGER_CRDS } from "./networking.fleet.azure.com/traffic-manager-crds.ts";

/** The CRDs of the hub's part of service networking. The membership CRDs may be KubeFleet's, which have more fields than ours. */
export const HUB_NET_CRDS: readonly CustomResourceDefinition[] = [
  ...FLEET_USER_CRDS,
  ...FLEET_MAILBOX_CRDS,
  ...FAIRLEAD_CRDS,
  ...TRAFFIC_MANAGER_CRDS,
  TRAFFIC_ROUTE_CRD,
  ...MESH_HUB_CRDS,
  ...MESH_CRDS,
];

/** What `fairlead hub` needs to manage members and their services. */
export const HUB_CORE_CRDS: readonly CustomResourceDefinition[] = [
  ...CLUSTER_CRDS,
  ...HUB_NET_CRDS,
  PEER_CRD,
  ...UPDATE_CRDS,
];

/** What is installed on the hub: also kinds whose objects are only placed on members from there. */
export const HUB_CRDS: readonly CustomResourceDefinition[] = [
  ...HUB_CORE_CRDS,
  ...PLACEMENT_CRDS,
  CLUSTER_PROFILE_CRD,
  ...MULTICLUSTER_CRDS.filter((it) => it.spec.names.kind === "ServiceExport"),
];

/** What `fairlead join` and `fairlead member` install in a member. */
export const MEMBER_CRDS: readonly CustomResourceDefinition[] = [
  ...FLEET_USER_CRDS,
  ...MULTICLUSTER_CRDS,
  TRAFFIC_ROUTE_CRD,
  ...MESH_CRDS,
  APPLIED_WORK_CRD,
];

/** Kinds of network policies of others, installed where nothing else serves them: an engine that enforces them brings its own definitions. */
export const POLICY_CRDS: readonly CustomResourceDefinition[] = [...CILIUM_CRDS, CLUSTER_POLICY_CRD];
