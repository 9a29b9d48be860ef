/**
 * What a lab is made of, worked out from a few numbers: pure, so that the same spec always gives the same fleet.
 *
 * Address plan of one lab, inside its own block (an IPv4 /14 and an IPv6 /48):
 *
 * ```
 * IPv4 10.B.c.0/24           cluster c (0 is the hub): .1 API server, .2 fleet DNS, .3 cluster DNS, .11… nodes, .128/25 load balancers
 *      10.B.255.0/30         the link to the machine: .1 fabric, .2 machine
 *      10.(B+1).0.0/16       Service addresses, the same in every cluster: they never leave it
 *      10.(B+2).0.0/15       pods, a /24 for each node
 * IPv6 P:c::/64              cluster c, as above: ::1, ::2, ::3, ::11…
 *      P:fffe::/126          the link to the machine
 *      P:1000+c::/112        load balancers of cluster c
 *      P:2000+k::/64         pods of node k
 *      P:ffff::/112          Service addresses
 * ```
 *
 * With topology "nat" each member has the same networks behind its NAT router, and only its site has addresses of its own:
 *
 * ```
 * IPv4 10.B.c.0/24           site of cluster c: .1 API server, .2 fleet DNS, .3 cluster DNS, .4 uplink, .128/25 load balancers
 *      10.B.254.0/24         nodes of every member: .11…
 *      10.(B+2).0.0/16       pods of every member, a /24 for each node; 10.(B+3).0.0/16 those of a hub with nodes
 * IPv6 P:c::/64              site of cluster c, as above: ::1, ::2, ::3, ::4
 *      P:fffd::/64           nodes of every member: ::11…
 *      P:2000+k::/64         pods of node k of every member; P:2100+k::/64 of a hub with nodes
 * ```
 */

import { createHash } from "node:crypto";
import { defined } from "@fairlead/base/defined.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { StoredConditions } from "#link/conditions.ts";

/** Fleet addresses of the members of a lab with topology "nat". Labs leave these prefixes to them. */
export const PARALLEL_PREFIXES: DualAddress = { v4: "10.112.0.0/12", v6: "fdfa:1ead:1e55::/48" };

/**
 * How a NAT maps the ports of UDP and TCP. "friendly": to the same port, whatever the destination, so that hole punching
 * works. "random": to another port for each destination, as symmetric NATs do.
 */
export type NatKind = "random" | "friendly";

export const LAB_RELEASES = ["1.36", "1.35"] as const;
/** A minor of Kubernetes that API server and kubelet have. */
export type LabRelease = (typeof LAB_RELEASES)[number];

export interface LabSpec {
  /** DNS label of at most 12 characters: it is part of a link's name, which the kernel limits to 15. */
  readonly name: string;
  /** Member clusters. Range: 1 to 100. */
  readonly members: number;
  /** Nodes of each member. Range: 1 to 5. */
  readonly nodes: number;
  /**
   * How members reach each other. "flat": their pod networks are routed to each other. "nat": each is behind a NAT router of
   * its own, all with the same pod, node and Service networks; only the hub can be connected to.
   */
  readonly topology: "flat" | "nat";
  /** With topology "nat": the kind of every member's NAT. "mixed": every third one is random, the others friendly. */
  readonly nat: NatKind | "mixed";
  /** With topology "nat": how long a NAT keeps a UDP mapping without an answer. Unit: seconds. */
  readonly natUdpSeconds: number;
  /** The same for a mapping with traffic in both directions. Unit: seconds. */
  readonly natUdpStreamSeconds: number;
  /** Families of the clusters' pods, nodes and Services. The links between clusters have both in any case. */
  readonly ipFamily: "dual" | "ipv4";
  /** How long a silent cluster or node counts as alive. Unit: seconds. */
  readonly leaseSeconds: number;
  /**
   * Clusters without programs of the fleet, all alike: the hub has nodes too, and each has its own CoreDNS in pods.
   * What makes a fleet of them is installed by people.
   */
  readonly bare: boolean;
  /** The release of Kubernetes with which clusters and nodes begin; `lab upgrade` changes it for each. */
  readonly release: LabRelease;
  /** The creators of ServiceImports in members: "manual" for users. Absent: agents. */
  readonly serviceImports?: "manual";
  /** Programs that the owner of the lab adds to those of the fleet. */
  readonly extras: readonly ExtraProgram[];
}

/** A program of which the lab knows only where it runs and what it is given. */
export interface ExtraProgram {
  /** A command of the executable. */
  readonly command: string;
  /**
   * "nodes": in the network of each node of the members, also of bare ones. "hub": in that of the hub. "machine": in the machine's own, for
   * what changes the lab.
   */
  readonly on: "nodes" | "hub" | "machine";
  /** The user of its requests to the API server of its cluster. */
  readonly user: string;
  /**
   * Its arguments, in which these words are replaced: {kubeconfig}, {cluster} and {state}, a folder of its own. On a node: {node}, its
   * name, {netns}, the file of its network namespace, and {cri}, the socket of its container runtime; {state} stays with the
   * node. At the hub: {v4} and {v6}, its addresses for the outside. On the machine, whose {kubeconfig} is of the hub: {lab}, the lab's folder.
   */
  readonly args: readonly string[];
  /** Absent: it keeps nothing for a boot. The same words are replaced. */
  readonly boot?: BootRules;
}

/** What an init unit of a node does at a boot, before the kubelet starts. */
export interface BootRules {
  /** A file that nft loads, if it is there. */
  readonly rules: string;
  /** A file that gets the id of the boot. */
  readonly mark: string;
}

export const DEFAULT_SPEC: LabSpec = {
  name: "demo",
  members: 3,
  nodes: 2,
  topology: "flat",
  nat: "mixed",
  natUdpSeconds: 30,
  natUdpStreamSeconds: 180,
  ipFamily: "dual",
  leaseSeconds: 5,
  bare: false,
  release: "1.36",
  extras: [],
};

const LIMITS = [
  ["members", "members", 1, 100],
  ["nodes", "nodes of a member", 1, 5],
  ["leaseSeconds", "lease seconds", 2, 600],
  ["natUdpSeconds", "seconds of an unanswered UDP mapping", 1, 3600],
  ["natUdpStreamSeconds", "seconds of an answered UDP mapping", 1, 3600],
] as const;

const CHOICES: readonly (readonly [
  "topology" | "nat" | "ipFamily" | "release",
  string,
  readonly string[],
])[] = [
  ["topology", "the topology", ["flat", "nat"]],
  ["nat", "the kind of NAT", ["random", "friendly", "mixed"]],
  ["ipFamily", "the IP family", ["dual", "ipv4"]],
  ["release", "the Kubernetes version", LAB_RELEASES],
];

/** An address in both families. */
export interface DualAddress {
  readonly v4: string;
  readonly v6: string;
}

export interface LabNode {
  /** "member-1-node-1". */
  readonly name: string;
  readonly address: DualAddress;
  readonly podCidr: DualAddress;
  /** Of its kubelet. */
  readonly release: LabRelease;
  /** Failure domain: one for each node, so that locality has something to tell apart. */
  readonly zone: string;
  /** Name of the link in the cluster's site namespace. */
  readonly link: string;
}

export interface LabCluster {
  /** "hub" or "member-1"; also the kubeconfig context and, for members, the cluster id. */
  readonly name: string;
  readonly index: number;
  /** What of the fleet the lab itself runs there. */
  readonly runs: "hub" | "member" | "nothing";
  /** Address of the API server. */
  readonly api: DualAddress;
  /** Address of `fairlead dns`. */
  readonly fleetDns: DualAddress;
  /** Address of the server behind the cluster's DNS Service. */
  readonly clusterDns: DualAddress;
  /** ClusterIPs of the `kube-dns` Service. */
  readonly dnsService: DualAddress;
  readonly loadBalancerCidr: DualAddress;
  readonly nodes: readonly LabNode[];
  /** The place of a node that is not there: an upgrade begins with it. Undefined if the lab has no room for it. */
  readonly spare?: LabNode | undefined;
  /** Of its API server. */
  readonly release: LabRelease;
  /** The kind of its NAT; undefined if it is behind none. */
  readonly nat?: NatKind | undefined;
  /** With topology "nat": where the outside sees the cluster; its NAT maps to this address. Otherwise undefined. */
  readonly uplink?: DualAddress | undefined;
  /** Name of the link in the fabric namespace. */
  readonly link: string;
}

export interface LabTopology {
  readonly spec: LabSpec;
  /** Everything of the lab lies inside. */
  readonly block: DualAddress;
  readonly serviceCidr: DualAddress;
  /** The link to the machine. */
  readonly host: { readonly link: string; readonly machine: DualAddress; readonly fabric: DualAddress };
  readonly clusters: readonly LabCluster[];
  /** Of links that are not ordinary, by the name of the cluster or node that they connect. Changed by `lab link`. */
  readonly conditions?: Readonly<Record<string, StoredConditions>> | undefined;
}

/** Those of the two addresses, or prefixes, that the lab's clusters use; the primary one first. */
export function used({ ipFamily }: Pick<LabSpec, "ipFamily">, { v4, v6 }: DualAddress): readonly string[] {
  return ipFamily === "ipv4" ? [v4] : [v4, v6];
}

/** The port of every lab API server. */
export const API_PORT = 6443;

const LAB_NAME = /^[a-z]([a-z0-9-]{0,10}[a-z0-9])?$/;

/** Refuses a name that no lab can have; such a name never reaches a path. @throws {FleetError} `OPTION_INVALID` */
export function checkLabName(name: string): void {
  if (!LAB_NAME.test(name)) checkSpec({ ...DEFAULT_SPEC, name });
}

/**
 * Refuses, all at once, what a lab cannot be.
 *
 * @throws {FleetError} `OPTION_INVALID`
 */
export function checkSpec(spec: LabSpec): void {
  const problems: string[] = [];
  if (!LAB_NAME.test(spec.name)) {
    problems.push(
      `the name must have 1 to 12 lower-case letters, digits and dashes, beginning with a letter, got ${JSON.stringify(spec.name)}`,
    );
  }
  for (const [field, what, min, max] of LIMITS) {
    const value = spec[field];
    if (Number.isInteger(value) && value >= min && value <= max) continue;
    problems.push(`${what} must be a whole number from ${min} to ${max}, got ${value}`);
  }
  for (const [field, what, allowed] of CHOICES) {
    if (allowed.includes(spec[field])) continue;
    const last = allowed.at(-1);
    const list = `${allowed.slice(0, -1).join(", ")} or ${last}`;
    problems.push(`${what} must be ${list}, got ${JSON.stringify(spec[field])}`);
  }
  if (problems.length > 0) throw new FleetError("OPTION_INVALID", `invalid lab spec: ${problems.join("; ")}`);
}

/**
 * Second octets at which a lab's IPv4 block may begin: not 10.112.0.0/12, from which parallel networks take their addresses
 * by default.
 */
export const BLOCK_STARTS: readonly number[] = Array.from({ length: 64 }, (_, at) => 4 * at).filter(
  (start) => start < 112 || start > 127,
);

/**
 * The same in the order in which a lab of this name tries them: where it begins follows from the name, so that labs that
 * come up at the same moment hardly ever ask for the same block.
 */
export function blockStartsOf(name: string): readonly number[] {
  const first = createHash("sha256").update(name).digest().readUInt8(0) % BLOCK_STARTS.length;
  return [...BLOCK_STARTS.slice(first), ...BLOCK_STARTS.slice(0, first)];
}

/** The IPv4 block that begins at `start`. */
export function ipv4Block(start: number): string {
  return `10.${start}.0.0/14`;
}

/** The IPv6 block of a lab: a ULA prefix made from its name and the start of its IPv4 block (RFC 4193, section 3.2). */
export function ipv6Prefix(name: string, start: number): string {
  const hex = createHash("sha256").update(`${name}/${start}`).digest("hex");
  return `fd${hex.slice(0, 2)}:${group(hex.slice(2, 6))}:${group(hex.slice(6, 10))}`;
}

/** Leading zeros are dropped, as RFC 5952 asks. */
function group(hex: string): string {
  return Number.parseInt(hex, 16).toString(16);
}

/** Works out the fleet. `blockStart` is one of `BLOCK_STARTS`, chosen so that it meets no route of the machine. */
export function planTopology(spec: LabSpec, blockStart: number): LabTopology {
  checkSpec(spec);
  const prefix = ipv6Prefix(spec.name, blockStart);
  const second = blockStart;
  const indexes = Array.from({ length: spec.members + 1 }, (_, index) => index);
  return {
    spec,
    block: { v4: ipv4Block(second), v6: `${prefix}::/48` },
    serviceCidr: { v4: `10.${second + 1}.0.0/16`, v6: `${prefix}:ffff::/112` },
    host: {
      link: `fl-${spec.name}`,
      machine: { v4: `10.${second}.255.2`, v6: `${prefix}:fffe::2` },
      fabric: { v4: `10.${second}.255.1`, v6: `${prefix}:fffe::1` },
    },
    clusters: indexes.map((index) => planCluster(spec, { index, second, prefix })),
  };
}

interface Place {
  readonly index: number;
  readonly second: number;
  readonly prefix: string;
}

function planCluster(spec: LabSpec, place: Place): LabCluster {
  const { index, second, prefix } = place;
  const name = index === 0 ? "hub" : `member-${index}`;
  const runs = spec.bare ? "nothing" : index === 0 ? "hub" : "member";
  const at = (host: number): DualAddress => ({
    v4: `10.${second}.${index}.${host}`,
    // RFC 5952: the hub's group of zeros is part of the run that "::" stands for.
    v6: `${prefix}${index === 0 ? "" : `:${index.toString(16)}`}::${host}`,
  });
  const numbers = runs === "hub" ? [] : Array.from({ length: spec.nodes }, (_, node) => node + 1);
  const nat = natOf(spec, index);
  // Behind NAT, every member has the same nodes.
  const nodeAt = (host: number): DualAddress =>
    nat === undefined ? at(host) : { v4: `10.${second}.254.${host}`, v6: `${prefix}:fffd::${host}` };
  return {
    name,
    index,
    runs,
    api: at(1),
    fleetDns: at(2),
    clusterDns: at(3),
    dnsService: { v4: `10.${second + 1}.0.10`, v6: `${prefix}:ffff::a` },
    loadBalancerCidr: {
      v4: `10.${second}.${index}.128/25`,
      v6: `${prefix}:${(0x1000 + index).toString(16)}::/112`,
    },
    nodes: numbers.map((number) => planNode(spec, place, { number, name, address: nodeAt(10 + number) })),
    ...defined({ spare: planSpare(spec, place, nodeAt) }),
    release: spec.release,
    ...(spec.topology === "nat" ? { uplink: at(4) } : {}),
    ...defined({ nat }),
    link: `c${index}`,
  };
}

/** The hub is public. */
function natOf({ topology, nat }: LabSpec, index: number): NatKind | undefined {
  if (topology !== "nat" || index === 0) return undefined;
  return nat === "mixed" ? (index % 3 === 0 ? "random" : "friendly") : nat;
}

/** One node more, with pods at the end of the lab's pod networks. */
function planSpare(
  spec: LabSpec,
  place: Place,
  addressOf: (host: number) => DualAddress,
): LabNode | undefined {
  const { index } = place;
  const isHub = index === 0;
  if (isHub && !spec.bare) return undefined;
  const last = POD_NETWORKS - 1 - index;
  const isFree = last >= (spec.members + 1) * spec.nodes;
  if (spec.topology === "flat" && !isFree) return undefined;
  const number = spec.nodes + 1;
  const name = isHub ? "hub" : `member-${index}`;
  const node = { number, name, address: addressOf(10 + number) };
  return spec.topology === "flat" ? planNode(spec, place, node, last) : planNode(spec, place, node);
}

/** Networks of a /24 in the range of pods. */
const POD_NETWORKS = 512;

function planNode(
  spec: LabSpec,
  place: Place,
  node: { number: number; name: string; address: DualAddress },
  ordinal = firstOrdinal(spec, place.index) + (node.number - 1),
): LabNode {
  return {
    name: `${node.name}-node-${node.number}`,
    address: node.address,
    podCidr: {
      v4: `10.${place.second + 2 + Math.floor(ordinal / 256)}.${ordinal % 256}.0/24`,
      v6: `${place.prefix}:${(0x2000 + ordinal).toString(16)}::/64`,
    },
    release: spec.release,
    zone: `${node.name}-zone-${node.number}`,
    link: `n${node.number}`,
  };
}

/** Which of the lab's pod networks is that of a cluster's first node. */
function firstOrdinal(spec: LabSpec, index: number): number {
  if (spec.topology === "nat") return index === 0 ? 256 : 0;
  return (spec.bare ? index : index - 1) * spec.nodes;
}
