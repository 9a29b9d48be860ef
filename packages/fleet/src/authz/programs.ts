import {
  VALIDATING_ADMISSION_POLICIES,
  VALIDATING_ADMISSION_POLICY_BINDINGS,
  VALIDATING_WEBHOOK_CONFIGURATIONS,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  CERTIFICATE_SIGNING_REQUESTS,
  CLIENT_SIGNER,
  SIGNERS,
} from "@fairlead/kube/api/certificates/v1/types.ts";
import { INTERNAL_MEMBER_CLUSTERS, MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS } from "@fairlead/kube/api/apps/v1/types.ts";
import { DNS_SERVERS, MEMBER_AGENT } from "#api/fairlead.dev/installed.ts";
import { CRON_JOBS, JOBS } from "@fairlead/kube/api/batch/v1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import {
  CONFIG_MAPS,
  EVENTS,
  NAMESPACES,
  NODES,
  PODS,
  SECRETS,
  SERVICE_ACCOUNTS,
  SERVICES,
} from "@fairlead/kube/api/core/v1/types.ts";
import { RESOURCE_QUOTAS } from "@fairlead/kube/api/core/v1/quota.ts";
import { HUB_CORE_CRDS, MEMBER_CRDS } from "#api/crds.ts";
import { CLUSTER_PROFILE_CRD } from "#api/multicluster.x-k8s.io/cluster-profiles.ts";
import { PLACEMENT_CRDS } from "#api/placement.kubernetes-fleet.io/crds.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { NETWORK_POLICIES, SERVICE_CIDRS } from "@fairlead/kube/api/networking/v1/types.ts";
import { MCS_SERVICE_EXPORTS, MCS_SERVICE_IMPORTS } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { MOVE_JOURNAL } from "#api/fairlead.dev/hub-move.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "#api/networking.fleet.azure.com/v1beta1/types.ts";
import {
  TRAFFIC_MANAGER_BACKENDS,
  TRAFFIC_MANAGER_PROFILES,
} from "#api/networking.fleet.azure.com/v1beta1/traffic-manager.ts";
import { ROLE_BINDINGS, ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import { MEMBERS_GROUP } from "#api/fairlead.dev/identity.ts";
import { LEASES_OF } from "#api/fairlead.dev/leases.ts";
import {
  HUB_SECRET,
  MANAGEMENT_CLUSTERS_SECRET,
  VIEW_NAMESPACE,
  WEBHOOK_CONFIGURATION,
  WEBHOOK_SECRET,
} from "#api/fairlead.dev/names.ts";
import { NODE_AGENTS } from "#api/fairlead.dev/node-agents.ts";
import { ADMINISTER } from "./policies/cel.ts";
import { KUBEFLEET_WEBHOOKS } from "./policies/install.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "#api/fairlead.dev/v1alpha1/types.ts";
import {
  CILIUM_CIDR_GROUPS,
  CILIUM_CLUSTERWIDE_NETWORK_POLICIES,
  CILIUM_NETWORK_POLICIES,
} from "#api/cilium.io/v2/types.ts";
import { CLUSTER_NETWORK_POLICIES } from "#api/policy.networking.k8s.io/v1alpha2/types.ts";
import { IDENTITY_DEMANDS, IDENTITY_SLICES } from "#api/fairlead.dev/v1alpha1/identities.ts";
import {
  ADDRESS_BLOCKS,
  CLUSTER_MESH_PROFILES,
  GATEWAYS,
  MESH_NETWORKS,
  RELAYS,
  VIRTUAL_IPS,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import {
  AUTO_UPGRADE_PROFILES,
  CLUSTER_UPGRADES,
  GATES,
  RELEASE_CATALOGS,
  UPDATE_RUNS,
  UPDATE_STRATEGIES,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { TRAFFIC_ROUTES } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import { CAPI_CLUSTERS } from "#updates/engines/cluster-api.ts";
import { MACHINES } from "#updates/engines/cluster-api-machines.ts";
import { PLAN_NAMES, PLANS } from "#updates/engines/plans.ts";
import { type Access, allow, WATCH } from "./access.ts";
import { HUB_PLACEMENT, MEMBER_WORK, WEBHOOK_READS } from "./placement.ts";
import { MAILBOX, RENEW_TOKEN } from "./mailbox.ts";

/** The rights of each program in the cluster that it runs in. */
export interface ProgramAccess {
  /** Of its roles, their bindings, and the ServiceAccount that charts give it. */
  readonly name: string;
  /** The program that has these rights in addition to its own. Absent: they are those of the program of this name. */
  readonly of?: string;
  /** In every namespace, and of kinds without one. */
  readonly cluster: readonly Access[];
  /** In `fleet-system`. */
  readonly system: readonly Access[];
}

/** Definitions that it waits for. Only who installs them may write them. */
function awaits(crds: readonly { readonly metadata: { readonly name: string } }[]): Access {
  return allow(CUSTOM_RESOURCE_DEFINITIONS, WATCH, { names: crds.map((it) => it.metadata.name) });
}

/** The election of the copy that acts. */
function elects(names: readonly string[]): readonly Access[] {
  return [allow(LEASES, ["get", "update"], { names })];
}

/** Checks that fleet-system exists; the installer creates it. */
const SYSTEM_NAMESPACE = allow(NAMESPACES, ["get"], { names: [FLEET_SYSTEM_NAMESPACE] });

export const HUB_ACCESS: ProgramAccess = {
  name: "fairlead-hub",
  cluster: [
    awaits(HUB_CORE_CRDS),
    SYSTEM_NAMESPACE,
    allow(NAMESPACES, ["get"], { names: [VIEW_NAMESPACE] }),
    allow(MEMBER_CLUSTERS, [...WATCH, "patch"]),
    allow(MEMBER_CLUSTERS, ["patch"], { subresource: "status" }),
    // What it finds in place it need not install.
    allow(VALIDATING_ADMISSION_POLICIES, ["list"]),
    allow(VALIDATING_ADMISSION_POLICY_BINDINGS, ["list"]),
    // Whether KubeFleet's hub agent enforces the same.
    allow(VALIDATING_WEBHOOK_CONFIGURATIONS, ["get"], { names: KUBEFLEET_WEBHOOKS }),
    allow(ADMINISTER, [ADMINISTER.verb]),
    // Mailboxes, and the namespaces of exported services.
    allow(NAMESPACES, [...WATCH, "create", "patch", "delete"]),
    allow(ROLES, [...WATCH, "create", "patch"]),
    // Deletes those of members that read the view no longer.
    allow(ROLE_BINDINGS, [...WATCH, "create", "patch", "delete"]),
    // Created once for each member namespace; afterwards the administrator may change it.
    allow(RESOURCE_QUOTAS, [...WATCH, "create"]),
    allow(INTERNAL_MEMBER_CLUSTERS, [...WATCH, "create", "patch", "delete"]),
    allow(LEASES, [...WATCH, "delete"]),
    allow(NAMESPACE_REPORTS, [...WATCH, "delete"]),
    allow(IMPORTED_SERVICES, [...WATCH, "create", "patch", "delete"]),
    allow(FLEET_SERVICE_IMPORTS, [...WATCH, "create", "patch", "delete"]),
    allow(FLEET_SERVICE_IMPORTS, ["patch"], { subresource: "status" }),
    // "patch" also removes the finalizers of agents that no longer run.
    allow(INTERNAL_SERVICE_EXPORTS, [...WATCH, "patch", "delete"]),
    allow(INTERNAL_SERVICE_EXPORTS, ["patch"], { subresource: "status" }),
    allow(INTERNAL_SERVICE_IMPORTS, [...WATCH, "patch", "delete"]),
    allow(INTERNAL_SERVICE_IMPORTS, ["patch"], { subresource: "status" }),
    allow(ENDPOINT_SLICE_EXPORTS, [...WATCH, "patch", "delete"]),
    allow(ENDPOINT_SLICE_IMPORTS, [...WATCH, "create", "patch", "delete"]),
    allow(TRAFFIC_MANAGER_PROFILES, [...WATCH, "patch"]),
    allow(TRAFFIC_MANAGER_PROFILES, ["patch"], { subresource: "status" }),
    allow(TRAFFIC_MANAGER_BACKENDS, [...WATCH, "patch"]),
    allow(TRAFFIC_MANAGER_BACKENDS, ["patch"], { subresource: "status" }),
    allow(TRAFFIC_ROUTES, ["get", ...WATCH, "create", "patch", "delete"]),
    allow(CLUSTER_MESH_PROFILES, WATCH),
    allow(CLUSTER_MESH_PROFILES, ["patch"], { subresource: "status" }),
    allow(MESH_NETWORKS, [...WATCH, "create", "patch", "delete"]),
    allow(ADDRESS_BLOCKS, [...WATCH, "create", "patch", "delete"]),
    allow(GATEWAYS, [...WATCH, "create", "patch", "delete"]),
    allow(GATEWAYS, ["patch"], { subresource: "status" }),
    allow(VIRTUAL_IPS, [...WATCH, "create", "patch", "delete"]),
    allow(IDENTITY_SLICES, [...WATCH, "create", "patch", "delete"]),
    allow(IDENTITY_DEMANDS, [...WATCH, "delete"]),
    allow(IDENTITY_DEMANDS, ["patch"], { subresource: "status" }),
    allow(UPDATE_RUNS, [...WATCH, "create"]),
    allow(AUTO_UPGRADE_PROFILES, WATCH),
    allow(AUTO_UPGRADE_PROFILES, ["patch"], { subresource: "status" }),
    allow(UPDATE_RUNS, ["update"], { subresource: "status" }),
    allow(UPDATE_STRATEGIES, WATCH),
    allow(GATES, [...WATCH, "create", "patch", "delete"]),
    allow(RELEASE_CATALOGS, WATCH),
    allow(CLUSTER_UPGRADES, ["get", ...WATCH, "create", "patch"]),
    allow(EVENTS, ["create", "patch"]),
    // Certificates of members.
    allow(CERTIFICATE_SIGNING_REQUESTS, [...WATCH, "delete"]),
    allow(CERTIFICATE_SIGNING_REQUESTS, ["update"], { subresource: "approval" }),
    allow(SIGNERS, ["approve"], { names: [CLIENT_SIGNER] }),
    allow(MEMBER_CLUSTERS, ["get"]),
    // RBAC only allows granting rights that the granter has ("Privilege escalation prevention").
    ...MAILBOX,
    ...RENEW_TOKEN,
  ],
  // With tokens of these accounts clusters join. Leases it creates everywhere: members do in their mailboxes.
  system: [
    ...elects(LEASES_OF.hub),
    allow(SERVICE_ACCOUNTS, ["get", ...WATCH, "patch", "delete"]),
    allow(RELAYS, WATCH),
  ],
};

/** The rights of both parts of a member. */
const MEMBER_COMMON: readonly Access[] = [
  awaits(MEMBER_CRDS),
  SYSTEM_NAMESPACE,
  allow(NAMESPACES, WATCH),
  allow(SERVICES, WATCH),
  allow(ENDPOINT_SLICES, WATCH),
  allow(FLEET_SERVICE_EXPORTS, WATCH),
  allow(FLEET_SERVICE_IMPORTS, WATCH),
  allow(MULTI_CLUSTER_SERVICES, WATCH),
  allow(MCS_SERVICE_EXPORTS, WATCH),
  allow(MCS_SERVICE_IMPORTS, WATCH),
  allow(EVENTS, ["create", "patch"]),
];

/** Kinds of network policies, and what these refer to. */
const POLICIES = [
  NETWORK_POLICIES,
  CILIUM_NETWORK_POLICIES,
  CILIUM_CLUSTERWIDE_NETWORK_POLICIES,
  CILIUM_CIDR_GROUPS,
  CLUSTER_NETWORK_POLICIES,
];

/** Exports, and imports through both APIs. */
const MEMBER_NET: readonly Access[] = [
  // Which ranges the cluster takes addresses from.
  allow(NODES, WATCH),
  // For the network policies of all clusters.
  allow(PODS, WATCH),
  // Why an exported Service has no pods. Their templates tell no more than pods do.
  allow(DEPLOYMENTS, ["list"]),
  allow(STATEFUL_SETS, ["list"]),
  ...POLICIES.map((it) => allow(it, WATCH)),
  // What is not enforced of them.
  ...[CILIUM_NETWORK_POLICIES, CILIUM_CLUSTERWIDE_NETWORK_POLICIES, CLUSTER_NETWORK_POLICIES].flatMap(
    (it) => [allow(it, ["get"]), allow(it, ["patch"], { subresource: "status" })],
  ),
  allow(SERVICE_CIDRS, ["list"]),
  allow(SERVICES, ["create", "patch", "delete"]),
  // What came of the annotations of global Services.
  allow(SERVICES, ["patch"], { subresource: "status" }),
  allow(ENDPOINT_SLICES, ["create", "patch", "delete"]),
  allow(FLEET_SERVICE_EXPORTS, ["patch"]),
  allow(FLEET_SERVICE_EXPORTS, ["patch"], { subresource: "status" }),
  allow(MCS_SERVICE_EXPORTS, ["patch"], { subresource: "status" }),
  allow(FLEET_SERVICE_IMPORTS, ["patch"]),
  allow(FLEET_SERVICE_IMPORTS, ["patch"], { subresource: "status" }),
  allow(MCS_SERVICE_IMPORTS, ["create", "patch", "delete"]),
  allow(MCS_SERVICE_IMPORTS, ["patch"], { subresource: "status" }),
  // A derived Service keeps its ServiceImport from going first (OwnerReferencesPermissionEnforcement).
  allow(MCS_SERVICE_IMPORTS, ["update"], { subresource: "finalizers" }),
  allow(TRAFFIC_ROUTES, [...WATCH, "create", "patch", "delete"]),
];

/** Load balancers of MultiClusterServices. */
const MEMBER_MCS: readonly Access[] = [
  allow(SERVICES, ["create", "patch", "delete"]),
  allow(FLEET_SERVICE_IMPORTS, ["create", "patch", "delete"]),
  allow(MULTI_CLUSTER_SERVICES, ["patch"]),
  allow(MULTI_CLUSTER_SERVICES, ["patch"], { subresource: "status" }),
  allow(MULTI_CLUSTER_SERVICES, ["update"], { subresource: "finalizers" }),
];

/** What nodes need to connect to other clusters: copies of the view, and the parts of this cluster. */
const MEMBER_MESH: readonly Access[] = [
  allow(MESH_NETWORKS, [...WATCH, "create", "patch", "delete"]),
  allow(ADDRESS_BLOCKS, [...WATCH, "create", "patch", "delete"]),
  allow(GATEWAYS, [...WATCH, "create", "patch", "delete"]),
  allow(GATEWAYS, ["patch"], { subresource: "status" }),
  allow(IDENTITY_SLICES, [...WATCH, "create", "patch", "delete"]),
];

/** The Secret that names the hub, which the agent writes its newer credentials into. */
const HUB_CREDENTIALS = allow(SECRETS, ["get", ...WATCH, "patch"], { names: [HUB_SECRET] });

export const MEMBER_ACCESS: ProgramAccess = {
  name: "fairlead-member",
  cluster: [...MEMBER_COMMON, ...MEMBER_NET, ...MEMBER_MCS],
  system: [allow(LEASES, ["create"]), ...elects(LEASES_OF.member), HUB_CREDENTIALS, ...MEMBER_MESH],
};

/** For members, and for clusters that are joining: requesting a certificate. The hub decides which identity it may have. */
export const ASK_FOR_CERTIFICATES: readonly Access[] = [
  allow(CERTIFICATE_SIGNING_REQUESTS, ["create", ...WATCH]),
];

/**
 * For the hub on Fairlead's API server, where an approver may only certify identities that it may impersonate
 * (docs/adr/0010). Other servers do not require this right, and it must not be granted where it is not needed.
 */
export const ACT_AS_MEMBERS: readonly Access[] = [
  allow({ group: "", plural: "users" }, ["impersonate"]),
  allow({ group: "", plural: "groups" }, ["impersonate"], { names: [MEMBERS_GROUP] }),
];

/** The agent of a node. */
export const NODE_ACCESS: ProgramAccess = {
  name: "fairlead-node",
  cluster: [
    awaits(MEMBER_CRDS),
    allow(NAMESPACES, WATCH),
    // Its zone, and the addresses of all.
    allow(NODES, WATCH),
    allow(PODS, WATCH),
    allow(ENDPOINT_SLICES, WATCH),
    // Which are global.
    allow(SERVICES, WATCH),
    allow(FLEET_SERVICE_EXPORTS, WATCH),
    allow(MCS_SERVICE_EXPORTS, WATCH),
    allow(MCS_SERVICE_IMPORTS, WATCH),
    ...POLICIES.map((it) => allow(it, WATCH)),
    // Whether it enforces policies there.
    allow(NODES, ["patch"], { subresource: "status" }),
    // About connections that policies deny.
    allow(EVENTS, ["create", "patch"]),
  ],
  system: [
    allow(MESH_NETWORKS, WATCH),
    allow(ADDRESS_BLOCKS, WATCH),
    allow(ADDRESS_BLOCKS, ["patch"], { subresource: "status" }),
    allow(IDENTITY_SLICES, WATCH),
    allow(GATEWAYS, [...WATCH, "patch"]),
    allow(GATEWAYS, ["patch"], { subresource: "status" }),
  ],
};

/** In addition, for a member that installs node agents: who has it may run privileged pods on all nodes. */
export const MEMBER_NODES_ACCESS: ProgramAccess = {
  name: "fairlead-member-nodes",
  of: MEMBER_ACCESS.name,
  cluster: [],
  system: [
    // Also those that others installed.
    allow(DAEMON_SETS, WATCH),
    // Applied on the server, which asks for "create" by the name, too.
    allow(DAEMON_SETS, ["create", "patch", "delete"], { names: [NODE_AGENTS] }),
    // Why one does not run.
    allow(PODS, ["list"]),
    // They are upgraded with the node agents; the agent itself is the last.
    allow(DEPLOYMENTS, ["get", "patch"], { names: [DNS_SERVERS, MEMBER_AGENT] }),
  ],
};

/** In addition, for a member that keeps pods off nodes whose agent has not written their policies. A policy leaves it the taint alone. */
export const MEMBER_TAINTS_ACCESS: ProgramAccess = {
  name: "fairlead-member-taints",
  of: MEMBER_ACCESS.name,
  cluster: [allow(NODES, ["get", "patch"])],
  system: [],
};

/** In addition, for a hub that upgrades members by Cluster API: where it is the management cluster, and by kubeconfigs of others. */
export const HUB_CLUSTER_API_ACCESS: ProgramAccess = {
  name: "fairlead-hub-cluster-api",
  of: HUB_ACCESS.name,
  cluster: [allow(CAPI_CLUSTERS, ["get", "patch"]), allow(MACHINES, ["list"])],
  system: [allow(SECRETS, ["get"], { names: [MANAGEMENT_CLUSTERS_SECRET] })],
};

/** In addition, for a member that is upgraded by a Job or by Plans: who has it may run any pod in `fleet-system`, and act on all nodes. */
export const MEMBER_UPGRADES_ACCESS: ProgramAccess = {
  name: "fairlead-member-upgrades",
  of: MEMBER_ACCESS.name,
  cluster: [allow(PLANS, ["get", "create", "patch", "delete"], { names: Object.values(PLAN_NAMES) })],
  system: [allow(CRON_JOBS, ["get"]), allow(JOBS, ["get", ...WATCH, "create", "patch"])],
};

/** On the hub: a program that carries out the upgrades of members whose engine is "External". */
export const EXTERNAL_UPGRADER_ACCESS: ProgramAccess = {
  name: "fairlead-external-upgrader",
  cluster: [
    allow(CLUSTER_UPGRADES, WATCH),
    allow(CLUSTER_UPGRADES, ["patch"], { subresource: "status" }),
    // Mailboxes are for their members, the hub and those who have this.
    allow(ADMINISTER, [ADMINISTER.verb]),
  ],
  system: [],
};

export const DNS_ACCESS: ProgramAccess = {
  name: "fairlead-dns",
  cluster: [
    allow(CUSTOM_RESOURCE_DEFINITIONS, ["get", ...WATCH], {
      names: [MCS_SERVICE_IMPORTS, TRAFFIC_ROUTES].map((it) => `${it.plural}.${it.group}`),
    }),
    allow(NAMESPACES, WATCH),
    allow(MCS_SERVICE_IMPORTS, WATCH),
    allow(ENDPOINT_SLICES, WATCH),
    allow(TRAFFIC_ROUTES, WATCH),
  ],
  system: [],
};

/** On the hub. Gateways hold public keys and addresses only. */
export const RELAY_ACCESS: ProgramAccess = {
  name: "fairlead-relay",
  cluster: [allow(GATEWAYS, WATCH)],
  system: [allow(RELAYS, [...WATCH, "create", "patch"])],
};

/** In addition, for a hub that places resources: it reads everything that placements may select, Secrets included. */
export const HUB_PLACEMENT_ACCESS: ProgramAccess = {
  name: "fairlead-hub-placement",
  of: HUB_ACCESS.name,
  cluster: [awaits([...PLACEMENT_CRDS, CLUSTER_PROFILE_CRD]), ...HUB_PLACEMENT],
  system: [],
};

/** In addition, for a hub with a webhook: its certificates, its configuration, and what its rules read. */
export const HUB_WEBHOOK_ACCESS: ProgramAccess = {
  name: "fairlead-hub-webhook",
  of: HUB_ACCESS.name,
  cluster: [
    // Applied on the server, which asks for "create" by the name, too.
    allow(VALIDATING_WEBHOOK_CONFIGURATIONS, ["get", "create", "patch"], { names: [WEBHOOK_CONFIGURATION] }),
    ...WEBHOOK_READS,
  ],
  system: [
    allow(SECRETS, ["get", ...WATCH, "create", "patch"], { names: [WEBHOOK_SECRET] }),
    allow(CONFIG_MAPS, ["get"], { names: [MOVE_JOURNAL] }),
  ],
};

/** In addition, for a member that applies what is placed: what it may write comes from a ClusterRole of your choice. */
export const MEMBER_WORK_ACCESS: ProgramAccess = {
  name: "fairlead-member-work",
  of: MEMBER_ACCESS.name,
  cluster: MEMBER_WORK,
  system: [],
};

export const PROGRAMS: readonly ProgramAccess[] = [
  HUB_ACCESS,
  MEMBER_ACCESS,
  MEMBER_NODES_ACCESS,
  MEMBER_TAINTS_ACCESS,
  MEMBER_UPGRADES_ACCESS,
  HUB_CLUSTER_API_ACCESS,
  DNS_ACCESS,
  NODE_ACCESS,
  RELAY_ACCESS,
  HUB_PLACEMENT_ACCESS,
  HUB_WEBHOOK_ACCESS,
  MEMBER_WORK_ACCESS,
];
