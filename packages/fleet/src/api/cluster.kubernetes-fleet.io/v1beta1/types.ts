import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { Subject } from "@fairlead/kube/api/rbac/v1/types.ts";

/** Membership of a fleet. v1 has the same shape without `deleteOptions` and `namespaces`. */

export interface AgentStatus {
  type: string;
  conditions?: Condition[];
  /** RFC 3339. */
  lastReceivedHeartbeat?: string;
}

export interface MemberClusterStatus {
  conditions?: Condition[];
  properties?: Record<string, { value: string; observationTime: string }>;
  resourceUsage?: {
    capacity?: Record<string, string>;
    allocatable?: Record<string, string>;
    available?: Record<string, string>;
    observationTime?: string;
  };
  namespaces?: Record<string, string>;
  agentStatus?: AgentStatus[];
}

/** Cluster-scoped, on the hub; its name is the cluster id. */
export interface MemberCluster extends KubeObject {
  spec: {
    /** The identity of the member's agents on the hub. */
    identity: Subject;
    /** Unit: seconds. Range: 1 to 600. Default: 60. */
    heartbeatPeriodSeconds?: number;
    taints?: { key: string; value?: string; effect: "NoSchedule" }[];
    deleteOptions?: {
      validationMode?: "Strict" | "Skip";
      /** What becomes of placed objects when the member leaves. Default: Keep, as in KubeFleet. Addition. */
      placed?: PlacedOnLeave;
    };
  };
  status?: MemberClusterStatus;
}

/**
 * "Keep": they stay as they are, with their AppliedWorks. "Delete": the member deletes them before it has left. "Orphan": they stay
 * without AppliedWorks and references to these.
 */
export const PLACED_ON_LEAVE = ["Keep", "Delete", "Orphan"] as const;
export type PlacedOnLeave = (typeof PLACED_ON_LEAVE)[number];

/** A member that has stopped renewing its lease on the hub. */
export interface SuspectCluster {
  cluster: string;
  /** When the hub gave up waiting. RFC 3339, whole seconds. */
  since: string;
}

/** A member that new flows are kept away from. */
export interface DrainedCluster {
  cluster: string;
  /** "Soft": it still serves where no other cluster can. "Hard": not even then. */
  mode: DrainMode;
}
export type DrainMode = "Soft" | "Hard";

/** In the member's mailbox, under the member's name. */
export interface InternalMemberCluster extends KubeObject {
  spec: {
    state: "Join" | "Leave";
    /** With state Leave: what becomes of placed objects. Default: Keep. Addition. */
    placed?: PlacedOnLeave;
    /** Unit: seconds. */
    heartbeatPeriodSeconds?: number;
    /** How long the member's Lease in its mailbox lives without renewal. Unit: seconds. Addition. */
    leaseDurationSeconds?: number;
    /** Members whose leases expired: drop their endpoints where your own probes of them fail too. Addition. */
    suspects?: SuspectCluster[];
    /** Members that are drained, this one included: new flows go to other clusters. Addition. */
    drained?: DrainedCluster[];
    /** Namespace of the hub from which to read services and endpoints, in addition to the member namespace. Addition. */
    view?: string;
    /** The ClusterMeshProfile that the member belongs to. Absent: the flat network of all members without one. Addition. */
    network?: {
      profile: string;
      mode: "flat" | "parallel";
      /** The fleet addresses of the member, as its AddressBlock has them. */
      ipv4?: string[];
      ipv6?: string[];
      /** Of `fairlead node`: that of the profile, or that of an update run. Absent: that of the profile. */
      version?: string;
    };
  };
  status?: MemberClusterStatus & {
    /** Those of `spec.drained` that the agent has carried out. Addition. */
    drained?: DrainedCluster[];
  };
}

/** The agents that `fairlead member` stands for. */
export const NETWORKING_AGENTS = ["MultiClusterServiceAgent", "ServiceExportImportAgent"] as const;

/** The agent that applies Works. KubeFleet's, or `fairlead member`. */
export const MEMBER_AGENT_TYPE = "MemberAgent";

export const MEMBER_CLUSTER_FINALIZER = "kubernetes-fleet.io/membercluster-finalizer";
export const MEMBER_NAME_LABEL = "kubernetes-fleet.io/member-name";
export const FLEET_RESOURCE_LABEL = "kubernetes-fleet.io/is-fleet-resource";

export const MEMBER_CLUSTERS = resource<MemberCluster>(
  "cluster.kubernetes-fleet.io/v1beta1",
  "MemberCluster",
  "memberclusters",
  "Cluster",
);
export const INTERNAL_MEMBER_CLUSTERS = resource<InternalMemberCluster>(
  "cluster.kubernetes-fleet.io/v1beta1",
  "InternalMemberCluster",
  "internalmemberclusters",
);
