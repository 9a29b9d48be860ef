import { INTERNAL_MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { CONFIG_MAPS, EVENTS, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { MEMBER_ACCOUNT, ROOT_CA_CONFIG_MAP } from "#api/fairlead.dev/names.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "#api/fairlead.dev/v1alpha1/types.ts";
import { IDENTITY_DEMANDS, IDENTITY_SLICES } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { ADDRESS_BLOCKS, GATEWAYS, MESH_NETWORKS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { CLUSTER_UPGRADES } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { TRAFFIC_ROUTES } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import { WORKS } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { type Access, allow, WATCH } from "./access.ts";

/** The rights of a member on the hub: in its member namespace and in the view, and nowhere else. */

/** The rights of Fairlead's agent in its member namespace. */
const OWN: readonly Access[] = [
  allow(INTERNAL_MEMBER_CLUSTERS, WATCH),
  allow(INTERNAL_MEMBER_CLUSTERS, ["patch"], { subresource: "status" }),
  allow(NAMESPACE_REPORTS, [...WATCH, "create", "patch", "delete"]),
  allow(INTERNAL_SERVICE_EXPORTS, [...WATCH, "create", "patch", "delete"]),
  allow(INTERNAL_SERVICE_IMPORTS, [...WATCH, "create", "patch", "delete"]),
  allow(ENDPOINT_SLICE_EXPORTS, [...WATCH, "create", "patch", "delete"]),
  allow(GATEWAYS, [...WATCH, "create", "patch", "delete"]),
  allow(GATEWAYS, ["patch"], { subresource: "status" }),
  allow(IDENTITY_SLICES, [...WATCH, "create", "patch", "delete"]),
  allow(IDENTITY_DEMANDS, [...WATCH, "create", "patch"]),
  allow(CLUSTER_UPGRADES, WATCH),
  allow(CLUSTER_UPGRADES, ["patch"], { subresource: "status" }),
  allow(IMPORTED_SERVICES, WATCH),
  allow(ENDPOINT_SLICE_IMPORTS, WATCH),
  // What to apply. "patch" puts a finalizer on it.
  allow(WORKS, [...WATCH, "patch"]),
  allow(WORKS, ["patch"], { subresource: "status" }),
  allow(LEASES, ["create", "patch"]),
  // By which authorities the hub is known, when that changes.
  allow(CONFIG_MAPS, WATCH, { names: [ROOT_CA_CONFIG_MAP] }),
];

/**
 * What legacy agents do in addition: they replace objects instead of patching them, put their finalizer on copies,
 * keep what they measured in annotations, and write events into the mailbox.
 */
const OTHERS: readonly Access[] = [
  allow(INTERNAL_MEMBER_CLUSTERS, ["get"]),
  allow(INTERNAL_MEMBER_CLUSTERS, ["update"], { subresource: "status" }),
  allow(INTERNAL_SERVICE_EXPORTS, ["get", "update"]),
  allow(INTERNAL_SERVICE_IMPORTS, ["get", "update"]),
  allow(ENDPOINT_SLICE_EXPORTS, ["get", "update"]),
  allow(ENDPOINT_SLICE_IMPORTS, ["get", "update", "patch"]),
  allow(WORKS, ["get", "update"]),
  allow(WORKS, ["get", "update"], { subresource: "status" }),
  allow(EVENTS, ["create", "patch"]),
];

/** For a ServiceAccount in the member namespace, in addition to the rights of every member: request new tokens for itself. */
export const RENEW_TOKEN: readonly Access[] = [
  allow(SERVICE_ACCOUNTS, ["create"], { subresource: "token", names: [MEMBER_ACCOUNT] }),
];

export const MAILBOX: readonly Access[] = [...OWN, ...OTHERS];

/** The rights of every member in the view of members without a profile. */
export const ROUTES: readonly Access[] = [allow(TRAFFIC_ROUTES, WATCH)];

/** The rights of a member in its view. */
export const VIEW: readonly Access[] = [
  allow(IMPORTED_SERVICES, WATCH),
  allow(ENDPOINT_SLICE_IMPORTS, WATCH),
  ...ROUTES,
  allow(MESH_NETWORKS, WATCH),
  allow(ADDRESS_BLOCKS, WATCH),
  allow(GATEWAYS, WATCH),
  allow(IDENTITY_SLICES, WATCH),
];
