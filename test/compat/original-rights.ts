import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { EVENTS, SECRETS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { type Access, allow, type Verb } from "@fairlead/fleet/authz/access.ts";
import type { ProgramAccess } from "@fairlead/fleet/authz/programs.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import {
  TRAFFIC_MANAGER_BACKENDS,
  TRAFFIC_MANAGER_PROFILES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/traffic-manager.ts";

/** What the roles of fleet-networking's charts allow its three managers in their own clusters. */

const READ: readonly Verb[] = ["get", "list", "watch"];
const CHANGE: readonly Verb[] = [...READ, "update", "patch"];
const FULL: readonly Verb[] = [...CHANGE, "create", "delete"];
const ELECTION: readonly Access[] = [
  allow(LEASES, ["create", "get", "list", "update"]),
  allow(EVENTS, ["create", "get", "list", "update", "patch", "watch"]),
];
const DEFINITIONS = allow(CUSTOM_RESOURCE_DEFINITIONS, [...CHANGE, "create"]);

/** With the status and the finalizers of its objects. */
function whole(of: Access["of"], verbs: readonly Verb[]): readonly Access[] {
  return [
    allow(of, verbs),
    allow(of, ["get", "update", "patch"], { subresource: "status" }),
    allow(of, ["update"], { subresource: "finalizers" }),
  ];
}

export const ORIGINAL_HUB_NET: ProgramAccess = {
  name: "original-hub-net",
  cluster: [
    ...ELECTION,
    allow(ENDPOINT_SLICES, FULL),
    allow(ENDPOINT_SLICE_EXPORTS, [...CHANGE, "create"]),
    allow(ENDPOINT_SLICE_IMPORTS, FULL),
    ...whole(INTERNAL_SERVICE_EXPORTS, FULL),
    allow(INTERNAL_SERVICE_IMPORTS, CHANGE),
    allow(INTERNAL_SERVICE_IMPORTS, ["get", "update", "patch"], { subresource: "status" }),
    ...whole(FLEET_SERVICE_IMPORTS, FULL),
    allow(MEMBER_CLUSTERS, READ),
    DEFINITIONS,
    ...whole(TRAFFIC_MANAGER_PROFILES, FULL),
    ...whole(TRAFFIC_MANAGER_BACKENDS, FULL),
  ],
  system: [],
};

export const ORIGINAL_MEMBER_NET: ProgramAccess = {
  name: "original-member-net",
  cluster: [
    ...ELECTION,
    allow(SERVICES, FULL),
    allow(SECRETS, ["get", "list"]),
    allow(ENDPOINT_SLICES, FULL),
    allow(MULTI_CLUSTER_SERVICES, READ),
    ...whole(FLEET_SERVICE_EXPORTS, FULL),
    ...whole(FLEET_SERVICE_IMPORTS, CHANGE),
    DEFINITIONS,
  ],
  system: [],
};

export const ORIGINAL_MCS: ProgramAccess = {
  name: "original-mcs",
  cluster: [
    ...ELECTION,
    allow(SERVICES, FULL),
    allow(SECRETS, ["get", "list"]),
    ...whole(MULTI_CLUSTER_SERVICES, FULL),
    allow(FLEET_SERVICE_IMPORTS, FULL),
  ],
  system: [],
};
