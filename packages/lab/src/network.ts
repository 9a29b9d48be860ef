/**
 * The network of a lab as data: pure.
 *
 * The fabric routes between clusters and to the machine. Each cluster has a site namespace, which routes between the
 * fabric and the cluster's nodes and holds its API server. Nothing is bridged: every hop is a route between addresses of
 * the plan and, for gateways, link-local ones. Nothing is translated, except by members' sites with topology "nat", whose
 * nodes and pods the fabric has no routes to (nat.ts).
 */

import { linksOf, NODE_UPLINK, UPLINK } from "#link/plan.ts";
import { FABRIC_NETNS, nodeNetns, siteNetns } from "./places.ts";
import {
  type DualAddress,
  type LabCluster,
  type LabNode,
  type LabTopology,
  PARALLEL_PREFIXES,
} from "./topology.ts";

/** A pair of virtual Ethernet devices. `netns` undefined: on the machine itself. */
export interface PlannedLink {
  readonly a: { readonly netns: string | undefined; readonly device: string };
  readonly b: { readonly netns: string; readonly device: string };
}

export interface PlannedRoute {
  /** A prefix, or "default". */
  readonly to: string;
  /** One next hop, or several that share the load. `via` undefined: the destination is on the link. */
  readonly hops: readonly { readonly via?: string; readonly device: string }[];
}

/** What one namespace is given. */
export interface PlannedNamespace {
  /** undefined: the machine itself. */
  readonly netns: string | undefined;
  readonly addresses: readonly { readonly device: string; readonly address: string }[];
  readonly devices: readonly string[];
  readonly routes: readonly PlannedRoute[];
}

export interface NetworkPlan {
  /** Names of the namespaces, without the machine's own. */
  readonly namespaces: readonly string[];
  readonly links: readonly PlannedLink[];
  readonly configured: readonly PlannedNamespace[];
}

/** In IPv6 the gateway of every link, on the side that is nearer to the fabric. */
const GATEWAY_V6 = "fe80::1";
/** In IPv4 a namespace cannot route through its own address, so the fabric and the sites have one each. */
const FABRIC_V4 = "169.254.0.1";
const SITE_V4 = "169.254.0.2";
/** The far side of every link, in IPv6; in IPv4 it is reached by its own address. */
const FAR_V6 = "fe80::2";
/** Device of the fabric that leads to the machine. */
export const HOST_DEVICE = "host";

export function planNetwork(topology: LabTopology): NetworkPlan {
  const nodes = topology.clusters.flatMap((cluster) => cluster.nodes);
  return {
    namespaces: [
      FABRIC_NETNS,
      ...topology.clusters.map((it) => siteNetns(it)),
      ...nodes.map((it) => nodeNetns(it)),
    ],
    links: [
      {
        a: { netns: undefined, device: topology.host.link },
        b: { netns: FABRIC_NETNS, device: HOST_DEVICE },
      },
      ...linksOf(topology).map(({ ends: [a, b] }) => ({ a, b })),
    ],
    configured: [
      planMachine(topology),
      planFabric(topology),
      ...topology.clusters.map((it) => planSite(it)),
      ...nodes.map((it) => planNode(it)),
    ],
  };
}

function planMachine(topology: LabTopology): PlannedNamespace {
  const { link, machine, fabric } = topology.host;
  return {
    netns: undefined,
    devices: [link],
    addresses: [
      { device: link, address: `${machine.v4}/30` },
      { device: link, address: `${machine.v6}/126` },
    ],
    routes: [
      { to: topology.block.v4, hops: [{ via: fabric.v4, device: link }] },
      { to: topology.block.v6, hops: [{ via: fabric.v6, device: link }] },
    ],
  };
}

function planFabric(topology: LabTopology): PlannedNamespace {
  const { fabric } = topology.host;
  return {
    netns: FABRIC_NETNS,
    devices: [HOST_DEVICE, ...topology.clusters.map((it) => it.link)],
    addresses: [
      { device: HOST_DEVICE, address: `${fabric.v4}/30` },
      { device: HOST_DEVICE, address: `${fabric.v6}/126` },
      { device: "lo", address: `${FABRIC_V4}/32` },
      ...topology.clusters.map((it) => ({ device: it.link, address: `${GATEWAY_V6}/64` })),
    ],
    routes: topology.clusters.flatMap((cluster) => [
      ...downRoutes(clusterPrefixes(cluster), cluster.link, cluster.api.v4),
      ...(cluster.nat === undefined ? cluster.nodes : []).flatMap((node) =>
        downRoutes(node.podCidr, cluster.link, cluster.api.v4),
      ),
      { to: cluster.loadBalancerCidr.v6, hops: [{ via: FAR_V6, device: cluster.link }] },
    ]),
  };
}

function planSite(cluster: LabCluster): PlannedNamespace {
  const own = [cluster.api, cluster.fleetDns, cluster.clusterDns];
  return {
    netns: siteNetns(cluster),
    devices: [UPLINK, ...cluster.nodes.map((it) => it.link)],
    addresses: [
      ...own.flatMap((it) => hostAddresses("lo", it)),
      { device: "lo", address: `${SITE_V4}/32` },
      ...(cluster.uplink === undefined ? [] : hostAddresses(UPLINK, cluster.uplink)),
      { device: UPLINK, address: `${FAR_V6}/64` },
      ...cluster.nodes.map((it) => ({ device: it.link, address: `${GATEWAY_V6}/64` })),
    ],
    routes: [
      { to: "0.0.0.0/0", hops: [{ via: FABRIC_V4, device: UPLINK }] },
      { to: "::/0", hops: [{ via: GATEWAY_V6, device: UPLINK }] },
      ...cluster.nodes.flatMap((node) => [
        { to: `${node.address.v4}/32`, hops: [{ device: node.link }] },
        { to: `${node.address.v6}/128`, hops: [{ via: FAR_V6, device: node.link }] },
        ...downRoutes(node.podCidr, node.link, node.address.v4),
      ]),
      ...sharedRoutes(cluster, cluster.loadBalancerCidr),
      // Programs of a member run here, not in pods: they reach fleet addresses as pods do, through a node.
      ...(cluster.nat === undefined ? [] : sharedRoutes(cluster, PARALLEL_PREFIXES)),
    ],
  };
}

/** Addresses that are shared by the nodes; one whose link is down gets nothing. */
function sharedRoutes({ nodes }: LabCluster, to: DualAddress): readonly PlannedRoute[] {
  if (nodes.length === 0) return [];
  return [
    { to: to.v4, hops: nodes.map((it) => ({ via: it.address.v4, device: it.link })) },
    { to: to.v6, hops: nodes.map((it) => ({ via: FAR_V6, device: it.link })) },
  ];
}

function planNode(node: LabNode): PlannedNamespace {
  return {
    netns: nodeNetns(node),
    devices: [NODE_UPLINK],
    addresses: [
      ...hostAddresses(NODE_UPLINK, node.address),
      { device: NODE_UPLINK, address: `${FAR_V6}/64` },
    ],
    routes: [
      { to: "0.0.0.0/0", hops: [{ via: SITE_V4, device: NODE_UPLINK }] },
      { to: "::/0", hops: [{ via: GATEWAY_V6, device: NODE_UPLINK }] },
    ],
  };
}

function hostAddresses(device: string, { v4, v6 }: DualAddress): PlannedNamespace["addresses"] {
  return [
    { device, address: `${v4}/32` },
    { device, address: `${v6}/128` },
  ];
}

function clusterPrefixes(cluster: LabCluster): DualAddress {
  return { v4: cluster.api.v4.replace(/\.1$/, ".0/24"), v6: cluster.api.v6.replace(/::1$/, "::/64") };
}

/** Routes away from the fabric: towards `via4`, an address that the far side of `device` answers for. */
function downRoutes(to: DualAddress, device: string, via4: string): readonly PlannedRoute[] {
  return [
    { to: to.v4, hops: [{ via: via4, device }] },
    { to: to.v6, hops: [{ via: FAR_V6, device }] },
  ];
}
