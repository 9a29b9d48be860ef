/** Names that hub, members and commands agree on. */

/** Conditions of an InternalServiceExport beside `Conflict`, which is the fleet door's. */
export const MCS_CONFLICT = "multicluster.x-k8s.io/Conflict";
export const ACCEPTED = "fairlead.dev/Accepted";

/** In `fleet-system` of a member: how its agent reaches the hub. Keys: server, ca.crt, token, cluster. */
export const HUB_SECRET = "fairlead-hub";
/** In a member's mailbox: the account of its agent. */
export const MEMBER_ACCOUNT = "fairlead-member";

/** Annotation of a MemberCluster: UID of the cluster's kube-system namespace, by which a cluster is known again. */
export const CLUSTER_UID_ANNOTATION = "fairlead.dev/cluster-uid";
/** Set on a MemberCluster whose cluster is gone for good: its agents are not waited for. */
export const FORCE_LEAVE_ANNOTATION = "fairlead.dev/force-leave";

/** Marks what an agent made in its cluster, beside objects of the same kinds that others made. */
export const MANAGED_BY_LABEL = "fairlead.dev/managed-by";
export const MANAGED_BY = "fairlead-member";
/** Value of `endpointslice.kubernetes.io/managed-by` on slices behind a multi-cluster ServiceImport. */
export const MCS_SLICE_MANAGER = "endpointslice-import.fairlead.dev";
