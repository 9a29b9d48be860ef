import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { Prefix } from "@fairlead/base/netaddr/prefix.ts";
import type { Selector } from "./selector.ts";

/**
 * What policies of all kinds are compiled to, and what they see of a fleet. Pure data: the dataplane turns it into nftables, the tests
 * interpret it. What is equal has an equal `key`, so that equal selectors are one set in the kernel.
 */

type Labels = Readonly<Record<string, string>>;

/** What a policy sees of a pod of the own cluster or of another one. Pods of the host's network and pods that have ended are not pods here. */
export interface PolicyPod {
  readonly cluster: string;
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
  readonly serviceAccount: string;
  /** Own and fleet addresses of both families. */
  readonly addresses: readonly IpAddress[];
  /** Named container ports. */
  readonly ports: readonly NamedPort[];
  /** The pod's node; known for pods of the own cluster only. */
  readonly node?: string;
}

export interface NamedPort {
  readonly name: string;
  readonly protocol: Transport;
  readonly port: number;
}

export interface PolicyNamespace {
  readonly cluster: string;
  readonly name: string;
  readonly labels: Labels;
}

export interface PolicyNode {
  readonly cluster: string;
  readonly name: string;
  readonly labels: Labels;
  readonly addresses: readonly IpAddress[];
}

export type Transport = "TCP" | "UDP" | "SCTP";
export type Way = "ingress" | "egress";

/** `kind` is that of the object, such as "NetworkPolicy"; `namespace` is absent for kinds of the cluster. */
export interface PolicyId {
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
}

/**
 * In the order in which they decide:
 *
 * - `admin`: the first rule that matches decides: `allow` and `deny` are final, `pass` leaves it to the next tier.
 * - `network-policy`: `deny` before `allow`, in no other order. What no rule matches is denied if one policy of the direction denies by
 *   default; that and `allow` are final. Otherwise the next tier decides.
 * - `baseline`: as `admin`. What no rule matches is allowed.
 *
 * `allow` concerns one end: a flow needs the egress of its source and the ingress of its destination.
 */
export type Tier = "admin" | "network-policy" | "baseline";
export const TIERS: readonly Tier[] = ["admin", "network-policy", "baseline"];

/** What one policy object, or one of its `specs`, demands. */
export interface CompiledPolicy {
  /** Names the policy; with the index of the spec where an object has several: `NetworkPolicy/shop/web`, `CiliumNetworkPolicy/shop/web#1`. */
  readonly key: string;
  readonly id: PolicyId;
  readonly tier: Tier;
  /** Lower decides first; equal ones are ordered by `key`. 0 in the tier `network-policy`. */
  readonly priority: number;
  /** The pods, or nodes of the own cluster, whose traffic the policy decides on. */
  readonly subject: Subject;
  /** Absent: the policy says nothing about this direction. */
  readonly ingress?: Direction;
  readonly egress?: Direction;
}

/** `nodes`: the traffic of the node's own network, which is that of `hostNetwork` pods, too. */
export interface Subject {
  readonly of: "pods" | "nodes";
  readonly selector: Selector;
}

export interface Direction {
  readonly isDefaultDeny: boolean;
  /** In order. */
  readonly rules: readonly Rule[];
}

/** Matches a packet if one of the peers and one of the ports does. */
export interface Rule {
  readonly action: "allow" | "deny" | "pass";
  /** An empty list matches nothing. */
  readonly peers: "any" | readonly Peer[];
  readonly ports: "any" | readonly PortMatch[];
  /**
   * Only DNS queries for these names; the other end is a DNS server. What the DNS proxy does not see is matched only if one pattern is `*`.
   */
  readonly dns?: readonly FqdnPattern[];
  /** Where the manifest says so: `spec.ingress[0]`. */
  readonly origin: string;
}

/**
 * The other end of a flow: source for ingress, destination for egress, after the translation of Service addresses.
 * `key` is equal for equal peers. How each is matched by address, see `matchOf`.
 */
export type Peer = PodsPeer | CidrPeer | EntityPeer | NodesPeer | FqdnPeer | UnidentifiedPeer;

/** Pods of all known clusters; the selector has the cluster where the policy means one. */
export interface PodsPeer {
  readonly kind: "pods";
  readonly key: string;
  readonly selector: Selector;
}

/** What is left of the CIDRs without their exceptions. */
export interface CidrPeer {
  readonly kind: "cidr";
  readonly key: string;
  /** Sorted, without overlaps. */
  readonly prefixes: readonly Prefix[];
  /** Whether addresses of known pods are matched. NetworkPolicy and ClusterNetworkPolicy: yes. Cilium's kinds: as the option says. */
  readonly matchesPods: boolean;
  /** The same for addresses of known nodes. */
  readonly matchesNodes: boolean;
  /**
   * Only these addresses, as `closedToUnidentified` makes it. "known": of the two, where one of them is matched. "anonymous": addresses of which
   * another cluster says that no selector of pods selects them.
   */
  readonly within?: "known" | "anonymous";
  /** Not these addresses, as `closedToUnidentified` makes it: one set for all peers, since each would be as long as the fleet's networks. */
  readonly beyond?: PrefixSet;
}

/** Prefixes, and the key of the set that has them. */
export interface PrefixSet {
  readonly key: string;
  /** Sorted, without overlaps. */
  readonly prefixes: readonly Prefix[];
}

/**
 * - `host`: the own node;
 * - `remote-node`: all other nodes of all clusters;
 * - `kube-apiserver`: the endpoints of the own cluster's API server;
 * - `cluster`: pods of the own cluster and the nodes of all clusters;
 * - `world`, `world-ipv4`, `world-ipv6`: what is neither a known pod nor a known node.
 *
 * `all` is `peers: "any"`; `none`, and entities that exist with Cilium's data plane only (`init`, `health`, `ingress`, `unmanaged`), match nothing.
 */
export type Entity =
  | "host"
  | "remote-node"
  | "kube-apiserver"
  | "cluster"
  | "world"
  | "world-ipv4"
  | "world-ipv6";

export interface EntityPeer {
  readonly kind: "entity";
  readonly key: string;
  readonly entity: Entity;
}

/** Nodes of all known clusters. */
export interface NodesPeer {
  readonly kind: "nodes";
  readonly key: string;
  /** As `fromNodes` and `toNodes` of Cilium's kinds have it: not the own node. */
  readonly areRemote: boolean;
  readonly selector: Selector;
}

/** Addresses that DNS gave the subject for names that match. They never match known pods and nodes. Egress only. */
export interface FqdnPeer {
  readonly kind: "fqdn";
  readonly key: string;
  readonly pattern: FqdnPattern;
}

/** Addresses in the prefixes of which it is not known which labels a pod there and its namespace have. Made by `closedToUnidentified`. */
export interface UnidentifiedPeer {
  readonly kind: "unidentified";
  readonly key: string;
  /** Key of the set of the prefixes. */
  readonly set: string;
  readonly prefixes: readonly Prefix[];
}

/**
 * Lower case, without the final dot. `*` stands for characters other than a dot; `*` alone for every name; a leading `**.` for one label or
 * more. A pattern without a `*` is a name.
 */
export type FqdnPattern = string;

/** Destination ports of pods. Numbers are inclusive; 0 to 65535 is each port of the protocol. */
export type PortMatch =
  | { readonly kind: "range"; readonly protocol: Transport; readonly first: number; readonly last: number }
  /** The number that the *destination* pod gives the name; it may differ from pod to pod. */
  | { readonly kind: "named"; readonly protocol: Transport; readonly name: string }
  /** IP protocol number: 2 (IGMP), 112 (VRRP). */
  | { readonly kind: "protocol"; readonly number: number }
  | { readonly kind: "icmp"; readonly family: "IPv4" | "IPv6"; readonly type: number };

/**
 * A part of a policy that is not enforced as it is written. Nothing that a refusal concerns makes a policy wider:
 *
 * - `policy not enforced`: which pods the policy concerns cannot be known;
 * - `matches nothing`: the part of an allowing rule that the field belongs to (peer, port or the whole rule) matches nothing; the direction
 *   still denies by default;
 * - `denies more`: a denying rule is enforced without the part that would have narrowed it; a rule that passes denies instead;
 * - `part ignored`: without effect on what is allowed;
 * - `pods closed`: the policy is too large. What it allows is not allowed, and what it denies or passes is denied as a whole.
 */
export interface Refusal {
  /** `spec.ingress[0].toPorts[0].rules.http` */
  readonly field: string;
  /** A sentence for people, with what to do. */
  readonly reason: string;
  readonly effect: "policy not enforced" | "matches nothing" | "denies more" | "part ignored" | "pods closed";
}

/** What the compiler makes of one object. */
export interface Compilation {
  readonly id: PolicyId;
  /** One per spec; none where the policy cannot be enforced. */
  readonly policies: readonly CompiledPolicy[];
  readonly refusals: readonly Refusal[];
  /** Compile the object again when one of these objects changes. */
  readonly reads: { readonly cidrGroups: boolean; readonly services: boolean };
}
