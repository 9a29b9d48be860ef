/** Names that hub, members and commands agree on. */

/** Condition of an agent: False while its cluster has ServiceExports that are not valid; a line of the message for each. */
export const EXPORTS_VALID = "fairlead.dev/ExportsValid";
/** The same: False while Services that its cluster exports get no requests, "work/hello: why" in each line. */
export const EXPORTS_SERVED = "fairlead.dev/ExportsServed";

/** Conditions of an InternalServiceExport in addition to `Conflict`, which belongs to the fleet API. */
export const MCS_CONFLICT = "multicluster.x-k8s.io/Conflict";
export const ACCEPTED = "fairlead.dev/Accepted";

/** In `fleet-system` of the hub: the certificates of its webhook. */
export const WEBHOOK_SECRET = "fairlead-hub-webhook";
/** The configuration of that webhook. */
export const WEBHOOK_CONFIGURATION = "fairlead-hub";
/** In `fleet-system` of a member: how its agent reaches the hub. Keys: docs/guide/joining.md. */
export const HUB_SECRET = "fairlead-hub";
/** In `fleet-system` of the hub: kubeconfigs of clusters whose Cluster API upgrades members, by names of the user's. */
export const MANAGEMENT_CLUSTERS_SECRET = "fairlead-management-clusters";
/** In a member's mailbox: the account of its agent. */
export const MEMBER_ACCOUNT = "fairlead-member";

/** In every namespace: the certificates by which clients know its API server. */
export const ROOT_CA_CONFIG_MAP = "kube-root-ca.crt";

/** Annotation of a MemberCluster: UID of the cluster's kube-system namespace, by which a cluster is known again. */
export const CLUSTER_UID_ANNOTATION = "fairlead.dev/cluster-uid";
/**
 * The namespace of the hub that every member without a ClusterMeshProfile reads, with one copy of each object, and all members
 * for TrafficRoutes. Only the hub writes it.
 */
export const VIEW_NAMESPACE = "fleet-view-default";
/** Labels of objects in the view, with which members select them: a service's namespace, a slice's exporter. */
export const SERVICE_NAMESPACE_LABEL = "fairlead.dev/service-namespace";
export const SOURCE_CLUSTER_LABEL = "fairlead.dev/source-cluster";
/** Annotation of a MemberCluster: "strict" means that it does not read the view, but gets copies of its imports. */
export const ISOLATION_ANNOTATION = "fairlead.dev/isolation";
/** Annotation of a namespace on the hub: comma-separated members that may import its services. Absent: all. */
export const ALLOWED_IMPORTERS_ANNOTATION = "fairlead.dev/allowed-importers";
/** Annotation of a namespace on the hub: comma-separated members that may export services of it. Absent: all. */
export const ALLOWED_EXPORTERS_ANNOTATION = "fairlead.dev/allowed-exporters";
/** Annotation of the hub's ServiceImport, written only by the hub: since when each cluster exports the service (`ages.ts`). */
export const EXPORTED_SINCE_ANNOTATION = "fairlead.dev/exported-since";
/** Annotations of a member namespace: its owner, for admission policies. One of both, from `spec.identity` of the MemberCluster. */
export const MEMBER_USER_ANNOTATION = "fairlead.dev/member-user";
export const MEMBER_GROUP_ANNOTATION = "fairlead.dev/member-group";
/**
 * The address ranges of a cluster, if known; comma-separated. Annotations of its MemberCluster, set by `join`, and
 * properties in the status, as its agent reports them.
 */
export const POD_RANGES = "fairlead.dev/pod-cidrs";
export const SERVICE_RANGES = "fairlead.dev/service-cidrs";
/** Networks of the nodes' own addresses, of 24 or 64 bits: a property only. */
export const NODE_RANGES = "fairlead.dev/node-cidrs";
/** Annotations of a MemberCluster, written by the hub: what of these properties counts (`domain/accepted-ranges.ts`). */
export const ACCEPTED_POD_RANGES = "fairlead.dev/accepted-pod-cidrs";
export const ACCEPTED_NODE_RANGES = "fairlead.dev/accepted-node-cidrs";
/**
 * Annotation of a MemberCluster: the only networks that its endpoints may be in, comma-separated. Absent: any. `join`
 * sets it for a new member if all its networks are known; afterwards only the fleet administrator changes it, whatever
 * the member reports.
 */
export const GRANTED_CIDRS_ANNOTATION = "fairlead.dev/granted-cidrs";
/** Condition of a MemberCluster: whether it has that annotation. */
export const ADDRESSES_BOUNDED = "fairlead.dev/AddressesBounded";
/** Annotation of a binding: what its cluster had before a staged update run changed it (`updates/staged/rollback.ts`). */
export const BEFORE_UPDATE_RUN_ANNOTATION = "fairlead.dev/before-update-run";
/** Annotation of a Work: what it was made from and how many Works were made from it (`placement/works/inputs.ts`). */
export const WORK_INPUTS_ANNOTATION = "fairlead.dev/work-inputs";
/** Annotation of a binding: the hash of the policy by which its cluster was picked (`placement/scheduling/bindings.ts`). */
export const POLICY_HASH_ANNOTATION = "fairlead.dev/policy-hash";
/** Annotation of runs and profiles of updates whose fleet was moved to another hub: the UID that they had on the first one. */
export const FIRST_UID_ANNOTATION = "fairlead.dev/first-uid";
/** Of everything that `fairlead verify` creates in a cluster; its value is the id of the run. */
export const RUN_LABEL = "fairlead.dev/verify";
const RUN_NAMESPACE = /^fairlead-verify-[\da-f]{8}$/;

/** @param id - Eight hexadecimal digits. */
export function namespaceOfRun(id: string): string {
  return `fairlead-verify-${id}`;
}

/** Whether a namespace has the name of one that `fairlead verify` creates, in the clusters that it checks. */
export function isNamespaceOfRun(name: string): boolean {
  return RUN_NAMESPACE.test(name);
}

/** Set on a MemberCluster whose cluster no longer exists, so that the hub does not wait for its agents. */
export const FORCE_LEAVE_ANNOTATION = "fairlead.dev/force-leave";

/** Annotations of a ServiceExport, through either API unless said otherwise: how its service is shared out. */
export const TRAFFIC_ANNOTATIONS = {
  /** Of the multi-cluster API: the fleet API has its own. A whole number from 0 to 1000; absent means 1. */
  weight: "fairlead.dev/weight",
  /** A whole number from 0 to 1000; absent means 0. A cluster serves while none with a lower number can. */
  priority: "fairlead.dev/priority",
  /** "none", "local" or "remote". */
  affinity: "fairlead.dev/affinity",
  /** Names of members, with commas between them: only these import the service from this cluster. */
  exportTo: "fairlead.dev/export-to",
} as const;
/** Condition of ServiceExports and InternalServiceExports: what came of these annotations. */
export const TRAFFIC = "fairlead.dev/Traffic";
/** Condition of ServiceExports whose Service has no endpoints that requests can be sent to: why. Absent: it has. */
export const ENDPOINTS = "fairlead.dev/Endpoints";
/** Annotation of a MemberCluster: new flows go to other clusters. "true", or "hard": even if no other cluster can serve. */
export const DRAIN_ANNOTATION = "fairlead.dev/drain";

/** Annotation of a member's Namespace. "all": allowed connections of its pods are logged, too. */
export const FLOW_LOG_ANNOTATION = "fairlead.dev/flow-log";
export const FLOW_LOG_ALL = "all";

/** Marks the objects that an agent creates in its cluster, as opposed to users' objects of the same kinds. */
export const MANAGED_BY_LABEL = "fairlead.dev/managed-by";
export const MANAGED_BY = "fairlead-member";

/** Annotation of a user's ServiceImport that the member agent serves. */
export const ADOPTED_ANNOTATION = "fairlead.dev/adopted";
/**
 * Annotation of such an import whose ports have other names than those of the service: the names of its ports in EndpointSlices, in
 * their order, as a JSON list.
 */
export const PORT_NAMES_ANNOTATION = "fairlead.dev/port-names";
/** On the MeshNetwork in `fleet-system` of a member: the name of that member. */
export const OWN_CLUSTER_LABEL = "fairlead.dev/own-cluster";
/** Value of `endpointslice.kubernetes.io/managed-by` on slices behind a multi-cluster ServiceImport. */
export const MCS_SLICE_MANAGER = "endpointslice-import.fairlead.dev";

/** The same on slices that are next to those of a global Service, with the endpoints of other clusters. */
export const GLOBAL_SLICE_MANAGER = "endpointslice-global.fairlead.dev";
/** Label of these slices: the Service, also where service proxies are not to see them. */
export const GLOBAL_SERVICE_LABEL = "fairlead.dev/global-service";
/** Condition of a global Service: what came of its annotations. */
export const GLOBAL_SERVICE = "fairlead.dev/GlobalService";

/** Annotation of a ServiceExport. "union": where clusters have different ports, these are united (the oldest export decides). */
export const PORTS_ANNOTATION = "fairlead.dev/ports";
export const UNITED_PORTS = "union";

/** On users' objects: False while their cluster has left the fleet; not there otherwise. */
export const ACTIVE_CONDITION = "fairlead.dev/Active";

/** On the Leases of hub and members: the version of the program that renews it. */
export const VERSION_ANNOTATION = "fairlead.dev/version";
/** On the Deployment of a member's agent: the image that it ran before an update run gave it another one. */
export const UPGRADED_FROM_ANNOTATION = "fairlead.dev/upgraded-from";
/** On the Lease of the hub: "0.1.0 for Kubernetes 1.25-1.36", of the version that renews it. */
export const HUB_SUPPORT_ANNOTATION = "fairlead.dev/hub-support";
/** On the Lease of the hub: the releases of `fairlead node` that it knows, "0.1 for Kubernetes 1.25-1.36, …". */
export const NODE_RELEASES_ANNOTATION = "fairlead.dev/node-releases";
/** On the Lease of a member: how long changes of other members took to arrive lately. See domain/propagation.ts. */
export const PROPAGATION_ANNOTATION = "fairlead.dev/propagation";
/** On the Lease of a member: the clusters to which its data path is cut, with commas between them. */
export const CUT_OFF_ANNOTATION = "fairlead.dev/cut-off";
/** The same: whether endpoints of clusters that the hub has lost answer this member. See domain/lost-clusters.ts. */
export const LOST_CLUSTERS_ANNOTATION = "fairlead.dev/lost-clusters";
/** The same: services whose endpoints in a cluster refuse connections, "east/work/hello,…". */
export const REFUSED_ANNOTATION = "fairlead.dev/refused";
/** So many of them, at most: some are enough to look into the cause. */
export const MAX_REFUSED = 20;

/** Label of a Node: "true" makes it a gateway of its cluster in a parallel network. */
export const GATEWAY_LABEL = "fairlead.dev/gateway";
