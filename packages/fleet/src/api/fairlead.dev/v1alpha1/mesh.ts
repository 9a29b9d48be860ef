import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject, LabelSelector } from "@fairlead/kube/api/meta/types.ts";

/**
 * Kinds of the network between clusters. docs/design/parallel-network.md shows who writes and reads each.
 */

/** "flat": pod addresses are routable between clusters. "parallel": every attached pod has a fleet address. */
export type NetworkMode = "flat" | "parallel";

/** Pods with fleet addresses. "selected": those with the label, behind an export, or in a namespace that imports. "all": every workload pod. */
export const ATTACH_MODES = ["selected", "all"] as const;
export type AttachMode = (typeof ATTACH_MODES)[number];

/** "Manual": members and settings change when the profile is applied. "Continuous": at once. */
export const APPLY_MODES = ["Manual", "Continuous"] as const;
export type ApplyMode = (typeof APPLY_MODES)[number];

/** What carries packets and enforces policies. "cilium" is not supported yet. */
export const DATAPLANES = ["fairlead", "cilium"] as const;
export type Dataplane = (typeof DATAPLANES)[number];

/** What CIDRs in Cilium's kinds of policies match besides addresses outside of the network, as `policy-cidr-match-mode` of Cilium. */
export const CIDR_MATCHES = ["nodes", "pods"] as const;
export type CidrMatch = (typeof CIDR_MATCHES)[number];

/** What the clusters of a network have in common in both modes. */
export interface NetworkTerms {
  /** Version of `fairlead node` that members install. Absent: they neither install nor change it. */
  version?: string;
  /** Absent: "fairlead". */
  dataplane?: Dataplane;
  /** Whether a namespace without the annotation `clustermesh.cilium.io/global` is shared. Absent: true. */
  defaultGlobalNamespace?: boolean;
  /** Whether peers of a policy that name no cluster are those of its own cluster. Absent: true. */
  policyDefaultLocalCluster?: boolean;
  /** Known nodes and pods that CIDRs in Cilium's kinds of policies match. Absent: neither. */
  policyCIDRMatchMode?: CidrMatch[];
}

/** The settings of a profile that its members get. */
export interface MeshSettings extends NetworkTerms {
  network: {
    mode: NetworkMode;
    /** Of the mode "parallel". */
    addresses?: {
      /** IPv4 prefix of at most 20 bits that all fleet addresses come from. Absent: 10.112.0.0/12. */
      ipv4?: string;
      /** Unique local IPv6 prefix of 48 bits (RFC 4193). Absent: made from the profile's UID. */
      ipv6?: string;
    };
    /** Of the mode "parallel". Absent: "selected". */
    attach?: AttachMode;
  };
  /** How often gateways make new keys. Absent: when the annotation `fairlead.dev/rotate-keys` changes. Unit: hours. */
  keyRotationHours?: number;
}

/** Most members of a profile, as in Azure's product. */
export const MAX_MESH_MEMBERS = 255;

/** What of a manual profile is in force: the members, by name, and the settings. */
export interface AppliedMesh extends MeshSettings {
  members: string[];
  /** The selector that they were found by, as text. */
  memberSelector: string;
  /** Name of the plan that this belongs to. */
  operation: string;
}

/** States of a profile and of its members, as in Azure's API. */
export const MESH_STATES = ["NotConnected", "Applying", "Connected", "Degraded", "Failed"] as const;
export type MeshState = (typeof MESH_STATES)[number];
export const MESH_MEMBER_STATES = [
  "Unknown",
  "NotConnected",
  "Connecting",
  "Connected",
  "Disconnecting",
  "Failed",
] as const;
export type MeshMemberState = (typeof MESH_MEMBER_STATES)[number];

export interface MeshMemberStatus {
  name: string;
  state: MeshMemberState;
  /** Why it is not connected. */
  error?: string;
  /** When the state changed last. RFC 3339. */
  lastUpdatedAt: string;
}

/** Labels of members. `byLabel` is the form of Azure's API: pairs "key=value", all of which must match; "" selects none. */
export interface MemberSelector extends LabelSelector {
  byLabel?: string;
}

/** On the hub, without a namespace: the network that some members share. Written by the fleet's administrator. */
export interface ClusterMeshProfile extends KubeObject {
  spec: MeshSettings & {
    /** The members. A member that several profiles select belongs to the oldest. */
    memberSelector: MemberSelector;
    /** Absent: "Continuous". */
    apply?: ApplyMode;
    /** Of "Manual". Written by `fairlead mesh apply`. */
    applied?: AppliedMesh;
    /** The same before the last plan, for the way back. */
    appliedBefore?: AppliedMesh;
  };
  status?: {
    conditions?: Condition[];
    members?: number;
    state?: MeshState;
    /** The selector that the present members were found by, as text. */
    lastAppliedMemberSelector?: string;
    /** Of the last plan that was applied; see `spec.applied.operation`. */
    lastOperationId?: string;
    /** What of it went wrong. */
    lastOperationError?: string;
    /** Members that belong to it, or still do. */
    memberStates?: MeshMemberStatus[];
    /** Whether pods of several members have the same addresses, or a member does not say which they have. */
    podAddresses?: "Distinct" | "Overlapping";
    /** The prefixes in use: they are not changed while a member has a block of them. */
    addresses?: { ipv4: string; ipv6: string };
    /** Current epoch of the gateways' keys; from 1. Gateways make a key for it, and remove the key before the last. */
    keyEpoch?: number;
    /** RFC 3339. */
    keyEpochSince?: string;
    /** The last value of the annotation `fairlead.dev/rotate-keys` that new keys were made for. */
    keyRotationRequest?: string;
  };
}

/** A relay that gateways can reach: part of a MeshNetwork. */
export interface MeshRelay {
  name: string;
  /** Public addresses, of either family. */
  addresses: string[];
  /** UDP port of gateway index 0; gateway index N is reached at `basePort + N`. */
  basePort: number;
  /** X25519 public key of the relay. Base64. */
  publicKey: string;
  /** TCP port at which it serves gateways whose UDP is dropped, over TLS. Absent: none. */
  tlsPort?: number;
}

/** Networks of pods of a member, as far as the hub lets them count: others see pods of it by addresses in these. */
export interface MemberNetwork {
  cluster: string;
  /** Prefixes. */
  podCIDRs: string[];
}

/** Clusters of thousands of nodes have few, once neighbours are joined; all members together stay below the size of an object. */
export const MAX_MEMBER_PREFIXES = 100;

/** What members get of both kinds of networks. */
interface SharedTerms extends NetworkTerms {
  /** Of members whose pods others see by their own addresses. Absent: written by a hub that does not say it. */
  podNetworks?: MemberNetwork[];
}

/**
 * What the members of a profile have in common. In the view, written by the hub under the profile's name; copied by each
 * member to its `fleet-system` for its nodes.
 */
export interface MeshNetwork extends KubeObject {
  spec: FlatNetwork | ParallelNetwork;
}

export interface FlatNetwork extends SharedTerms {
  mode: "flat";
}

export interface ParallelNetwork extends SharedTerms {
  mode: "parallel";
  /** The prefixes of all fleet addresses: the routes of nodes. */
  ipv4: string;
  ipv6: string;
  /** The blocks of virtual IPs of Services, the same in every cluster. */
  vipIPv4: string;
  vipIPv6: string;
  keyEpoch: number;
  /** Absent: "selected". */
  attach?: AttachMode;
  relays?: MeshRelay[];
}

/** WireGuard public key of a node for one epoch. */
export interface EpochKey {
  epoch: number;
  /** Base64. */
  publicKey: string;
}

/** One fleet address pair of a pod. */
export interface Allocation {
  podUID: string;
  ipv4: string;
  ipv6: string;
  /** When the pod was gone; the addresses are not reused for some time. RFC 3339. */
  releasedAt?: string;
}

/**
 * On an AddressBlock: since when its member or node is gone. Its addresses are not routed, and are not given to
 * another one for some time. RFC 3339.
 */
export const RELEASED_AT_ANNOTATION = "fairlead.dev/released-at";

/**
 * Fleet addresses of a member (in the view, written by the hub under the member's name, and copied by each member to its
 * `fleet-system`) or of one of its nodes (in `fleet-system` of the member, written by its agent; the status by the node).
 */
export interface AddressBlock extends KubeObject {
  spec: {
    profile: string;
    cluster: string;
    /** The node; absent for the block of the whole member. */
    node?: string;
    /** Address of the node that other nodes of the cluster reach it by. */
    nodeAddress?: string;
    /** Prefixes. A member may have several. */
    ipv4: string[];
    ipv6: string[];
    /**
     * Of a member, while its network changes its mode. "prepare": endpoints still have the addresses of pods. "switch": they
     * get fleet addresses. "leave": they get the addresses of pods again. Importers accept both. Absent: endpoints have
     * fleet addresses only.
     */
    transition?: {
      phase: "prepare" | "switch" | "leave";
      /** RFC 3339. */
      since: string;
      /** How often the change has gone back to "prepare", because members lost their paths. Absent: 0. */
      returns?: number;
    };
  };
  status?: {
    allocations?: Allocation[];
    /** By which other nodes of the cluster know the node: of at most two epochs. */
    keys?: EpochKey[];
    /** Of a node: HostRouted. */
    conditions?: Condition[];
  };
}

/** An address and UDP port at which a gateway may be reached. */
export interface GatewayCandidate {
  type: "private" | "public" | "reflexive";
  address: string;
  /** Added to the offset of the WireGuard device (`wireGuardPort`). Absent: `spec.basePort`. */
  basePort?: number;
}

/**
 * Which way the packets of a tunnel take: to the other gateway, through a relay, through a relay over TLS, or none that is
 * answered.
 */
export const PATH_KINDS = ["direct", "relay", "tcp", "none"] as const;
export type PathKind = (typeof PATH_KINDS)[number];

/** The tunnel of a gateway to one of another member, as it was when `status.pathsReportedAt` says. */
export interface GatewayPath {
  cluster: string;
  ordinal: number;
  path: PathKind;
  /** Of the keys in use. */
  keyEpoch: number;
  /** Of the tunnel. Unit: bytes. */
  mtu?: number;
  /** Round trip through the tunnel, smoothed. Absent without answers. Unit: milliseconds. */
  rttMs?: number;
  /** Of the last 40 probes or so, those without an answer. Unit: percent. */
  lossPercent?: number;
  /** RFC 3339. Absent: none yet. */
  lastHandshake?: string;
  /** Encrypted bytes since the device was made. */
  sentBytes?: number;
  receivedBytes?: number;
}

/**
 * One gateway of a member. In `fleet-system` of the member: `cluster`, `ordinal`, `node` by its agent, the rest by
 * `fairlead node` on that node. The agent copies it to the mailbox; the hub checks it, adds `index`, and copies it to the view;
 * each member copies those of other members to its `fleet-system`.
 */
export interface Gateway extends KubeObject {
  spec: {
    cluster: string;
    /** Unique in its cluster. Range: 0 to 3. */
    ordinal: number;
    node: string;
    /** Public keys, of at most two epochs. */
    keys?: EpochKey[];
    /** UDP port of WireGuard for plane 0 and even epochs; see `wireGuardPort`. */
    basePort?: number;
    candidates?: GatewayCandidate[];
    /** Its own IPv4 fleet address, at which it answers echo requests. */
    fleetAddress?: string;
    /** Dense number on the hub, unique over all profiles, given by the hub: decides ports at relays. Range: 0 to 1023. */
    index?: number;
  };
  status?: {
    /** "Accepted": whether the hub shows it to other members, and why not. In the mailbox, and copied to its owner. */
    conditions?: Condition[];
    /** Its tunnels, written by its node and copied to the mailbox. Reported when something changes, and every ten minutes. */
    paths?: GatewayPath[];
    /** RFC 3339. */
    pathsReportedAt?: string;
  };
}

/**
 * In the view, for the hub alone: the virtual addresses of one service, the same in every cluster of the network. Outlives the
 * exports for some time, with RELEASED_AT_ANNOTATION.
 */
export interface VirtualIP extends KubeObject {
  spec: {
    service: { namespace: string; name: string };
    ipv4: string;
    ipv6: string;
  };
}

/** On the hub, in `fleet-system`: a relay, written by itself. */
export interface Relay extends KubeObject {
  spec: Omit<MeshRelay, "name">;
}

export const CLUSTER_MESH_PROFILES = resource<ClusterMeshProfile>(
  "fairlead.dev/v1alpha1",
  "ClusterMeshProfile",
  "clustermeshprofiles",
  "Cluster",
);
export const MESH_NETWORKS = resource<MeshNetwork>("fairlead.dev/v1alpha1", "MeshNetwork", "meshnetworks");
export const ADDRESS_BLOCKS = resource<AddressBlock>(
  "fairlead.dev/v1alpha1",
  "AddressBlock",
  "addressblocks",
);
export const GATEWAYS = resource<Gateway>("fairlead.dev/v1alpha1", "Gateway", "gateways");
export const VIRTUAL_IPS = resource<VirtualIP>("fairlead.dev/v1alpha1", "VirtualIP", "virtualips");
export const RELAYS = resource<Relay>("fairlead.dev/v1alpha1", "Relay", "relays");

/** Planes of a gateway: one WireGuard device for each ordinal of the remote gateways (AllowedIPs are exclusive in a device). */
export const MAX_ORDINAL = 3;
/** The last port of a relay that begins there is 65535: that of the gateway with index 1023. */
export const MAX_RELAY_BASE_PORT = 65_535 - 1023;
/** The last port of a gateway that begins there is 65535; see `wireGuardPort`. */
export const MAX_BASE_PORT = 65_535 - wireGuardPort(0, MAX_ORDINAL, 1);

/** UDP port of a node's first WireGuard device for other nodes of its cluster; see `wireGuardPort`. */
export const NODES_BASE_PORT = 4801;

/** Servers of others listen on the ports below: no gateway does, and none is looked for there. */
export const MIN_BASE_PORT = 1024;

/** The last epoch of keys: names of their files have nine digits (`dataplane/node/keys.ts`). With a key each hour, 114,000 years. */
export const MAX_KEY_EPOCH = 999_999_999;

/** UDP port of a gateway's WireGuard device for remote gateways of ordinal `plane`, with the key of `epoch`. */
export function wireGuardPort(basePort: number, plane: number, epoch: number): number {
  return basePort + 2 * plane + (epoch % 2);
}
