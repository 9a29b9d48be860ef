import type { AddressBlock } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { byText } from "@fairlead/base/text.ts";
import type { Route } from "@fairlead/os/iproute/lines.ts";
import type { NextHop, NextHopGroup } from "@fairlead/os/iproute/nexthops.ts";
import type { NetworkState } from "@fairlead/os/iproute/state.ts";
import type { VxlanDevice } from "@fairlead/os/iproute/vxlan.ts";
import { nodeAddress } from "../pod-attachment/addresses.ts";
import type { Pair } from "./devices.ts";
import type { EchoState, EchoTarget } from "./echo-probes.ts";
import { planFleetEnd } from "./host-link.ts";
import { hardwareAddressOf, TUNNEL_MARK, tunnelNumber, VXLAN_DEVICE } from "./names.ts";
import type { NodeState } from "./state.ts";

/**
 * Addresses, neighbours and routes of all devices of the agent in `fleet`. Pure.
 *
 * A block of another node of the cluster is reached over VXLAN; the blocks of other members are on a gateway reached through its
 * tunnels, and elsewhere over VXLAN through the gateways. A way whose other end does not answer is left out while another is
 * there. A gateway without a living tunnel to a member sends its packets to the other gateways of the cluster.
 */

/**
 * MTU of the tunnels' devices: 1500 less 80 bytes of WireGuard over IPv6, rounded down to a multiple of 16, to which WireGuard pads
 * packets. Unit: bytes.
 */
export const TUNNEL_MTU = 1408;
/** Of VXLAN between the nodes of a cluster. CNI plugins use the ports 4789 and 8472. */
const VXLAN = { id: 7112, port: 4801 };
/** Outer Ethernet, IP, UDP and VXLAN headers over IPv6. Unit: bytes. */
const VXLAN_OVERHEAD = 70;
/** Ids of next hops: one for each tunnel device, and one group for each set of these. */
export const NEXT_HOP_IDS = [11_200, 11_999] as const;
const TUNNEL_HOP = 11_200;
const GROUP = 11_300;
/**
 * An echo request that came through a tunnel is answered through it, so that each tunnel is probed in both directions: rules of these
 * priorities look up marks in tables of the same number. The kernel passes the mark on to its answer (ip-sysctl, fwmark_reflect).
 */
export const RULE_PRIORITIES = [11_200, 11_299] as const;
/** Parts into which flows are hashed: a flow stays where it is when another way comes or goes. */
const RESILIENT = { buckets: 64, idleSeconds: 30 };

export interface FleetNetworkView {
  readonly nodeName: string;
  readonly state: NodeState;
  /** Tunnels of this node. */
  readonly pairs: readonly Pair[];
  readonly stateOf: (target: string) => Pick<EchoState, "isAlive" | "isAnswering" | "mtu">;
  /** Where WireGuard sends, by pair. */
  readonly endpoints: ReadonlyMap<string, string>;
  /** Of the network between the nodes. Unit: bytes. */
  readonly mtu: number;
}

export interface FleetNetwork {
  /** Absent in a cluster with one node. */
  readonly vxlan: VxlanDevice | undefined;
  readonly network: NetworkState;
  readonly targets: readonly EchoTarget[];
}

type NodeBlock = AddressBlock["spec"];

export function planFleetNetwork(view: FleetNetworkView): FleetNetwork {
  const { nodeName, state, pairs } = view;
  const own = ownAddresses(state.block.spec);
  const { ipv4, ipv6 } = state.network;
  const host = planFleetEnd({ nodeName, ipv4, ipv6, ownIPv4: own.ipv4, ownIPv6: own.ipv6 });
  const nodes = state.nodes.filter((it) => it.nodeAddress !== undefined);
  const vxlan = nodes.length === 0 ? undefined : planVxlan(view);
  const tunnels = [...new Set(pairs.map((it) => it.device))].toSorted(byText);
  const others = [...tunnels, ...(vxlan === undefined ? [] : [vxlan.device])];
  const remote = planRemote(view, nodes);
  return {
    vxlan,
    targets: planTargets(view, nodes),
    network: {
      addresses: [
        ...host.addresses,
        ...others.flatMap((device) => [
          { device, address: `${own.ipv4}/32` },
          { device, address: `${own.ipv6}/128` },
        ]),
      ],
      neighbours: [...host.neighbours, ...nodes.flatMap((it) => neighboursOf(it))],
      routes: [
        ...host.routes,
        ...nodes.flatMap((it) => routesTo(it)),
        ...remote.routes,
        ...numbered(pairs).map(([device, number]) => ({
          to: "0.0.0.0/0",
          hops: [{ device }],
          table: RULE_PRIORITIES[0] + number,
        })),
      ],
      rules: numbered(pairs).map(([, number]) => ({
        priority: RULE_PRIORITIES[0] + number,
        family: "IPv4",
        mark: { value: TUNNEL_MARK + number, mask: 0xffff },
        table: RULE_PRIORITIES[0] + number,
      })),
      nextHops: remote.nextHops,
      nextHopGroups: remote.groups,
      ...(vxlan === undefined
        ? {}
        : {
            forwarding: nodes.map((it) => ({
              device: VXLAN_DEVICE,
              hardwareAddress: vxlanAddress(it.node),
              to: it.nodeAddress ?? "",
            })),
          }),
    },
  };
}

function planVxlan({ nodeName, state, mtu }: FleetNetworkView): VxlanDevice | undefined {
  const local = state.block.spec.nodeAddress;
  if (local === undefined) return undefined;
  const hardwareAddress = vxlanAddress(nodeName);
  return { device: VXLAN_DEVICE, ...VXLAN, local, hardwareAddress, mtu: mtu - VXLAN_OVERHEAD };
}

function vxlanAddress(nodeName: string | undefined): string {
  return hardwareAddressOf(`${nodeName} vxlan`);
}

function ownAddresses({ ipv4, ipv6 }: NodeBlock): { readonly ipv4: string; readonly ipv6: string } {
  return { ipv4: nodeAddress(ipv4[0] ?? ""), ipv6: nodeAddress(ipv6[0] ?? "") };
}

function neighboursOf(node: NodeBlock): NetworkState["neighbours"] {
  const { ipv4, ipv6 } = ownAddresses(node);
  const hardwareAddress = vxlanAddress(node.node);
  return [ipv4, ipv6].map((address) => ({ device: VXLAN_DEVICE, address, hardwareAddress }));
}

function routesTo(node: NodeBlock): readonly Route[] {
  return [...node.ipv4, ...node.ipv6].map((to) => ({ to, hops: [hopTo(node, to)] }));
}

function hopTo(node: NodeBlock, to: string): Route["hops"][number] {
  const { ipv4, ipv6 } = ownAddresses(node);
  return { device: VXLAN_DEVICE, via: to.includes(":") ? ipv6 : ipv4, isOnlink: true };
}

/** Id of the probe of another node of the cluster. */
function nodeTarget(node: string | undefined): string {
  return `node/${node}`;
}

/** Id of the probe of a tunnel. */
export function tunnelTarget(pair: Pick<Pair, "id">): string {
  return `tunnel/${pair.id}`;
}

function planTargets(
  { pairs, state, endpoints }: FleetNetworkView,
  nodes: readonly NodeBlock[],
): EchoTarget[] {
  return [
    ...nodes
      .filter((it) => state.gatewayNodes.has(it.node ?? ""))
      .map((it) => ({ id: nodeTarget(it.node), device: VXLAN_DEVICE, address: ownAddresses(it).ipv4 })),
    ...pairs.flatMap((pair) => {
      const { fleetAddress } = pair.remote;
      if (fleetAddress === undefined) return [];
      const tunnel = { mtu: TUNNEL_MTU, path: endpoints.get(pair.id) ?? "" };
      return [{ id: tunnelTarget(pair), device: pair.device, address: fleetAddress, tunnel }];
    }),
  ];
}

interface Remote {
  readonly routes: readonly Route[];
  readonly nextHops: readonly NextHop[];
  readonly groups: readonly NextHopGroup[];
}

/** The ways to other members. */
function planRemote(view: FleetNetworkView, nodes: readonly NodeBlock[]): Remote {
  const { state, pairs, stateOf } = view;
  const gateways = nodes.filter((it) => state.gatewayNodes.has(it.node ?? ""));
  const groups = new Map<number, NextHopGroup>();
  const routes: Route[] = [];
  const byCluster = Map.groupBy(pairs, (it) => it.remote.cluster);
  for (const [cluster, block] of state.members) {
    if (cluster === state.block.spec.cluster) continue;
    const prefixes = [...block.ipv4, ...block.ipv6];
    const all = byCluster.get(cluster) ?? [];
    const living = all.filter((it) => stateOf(tunnelTarget(it)).isAlive);
    // When all failed at once, those of the other gateways probably did too: one that begins to answer is the better way.
    const answering = living.length > 0 ? living : all.filter((it) => stateOf(tunnelTarget(it)).isAnswering);
    const through = gateways.filter((it) => stateOf(nodeTarget(it.node)).isAlive);
    if (answering.length > 0 || (all.length > 0 && through.length === 0)) {
      const used = answering.length > 0 ? ofEpoch(answering, Math.max) : ofEpoch(all, Math.min);
      const nextHop = nextHopOf([...new Set(used.map((it) => tunnelNumber(it.plane, it.epoch)))], groups);
      // One for all, because any of them may carry a flow. That of the device is named, too: a route over a next-hop object takes
      // the metrics of another route over it where it has none (linux: fib_find_info_nh).
      const mtu = Math.min(...used.map((it) => stateOf(tunnelTarget(it)).mtu ?? TUNNEL_MTU));
      routes.push(...prefixes.map((to) => ({ to, hops: [], nextHop, mtu })));
    } else if (gateways.length > 0) {
      const used = through.length > 0 ? through : gateways;
      routes.push(...prefixes.map((to) => ({ to, hops: used.map((it) => hopTo(it, to)) })));
    }
  }
  return {
    routes,
    nextHops: numbered(pairs).map(([device, number]) => ({ id: TUNNEL_HOP + number, device })),
    groups: [...groups.values()],
  };
}

/**
 * While keys are exchanged, both epochs work; the newer one is used as soon as it does. An agent that has just started does not know
 * whether it does: the other gateway may not have learned of the new key yet.
 */
function ofEpoch(pairs: readonly Pair[], choose: (...epochs: readonly number[]) => number): readonly Pair[] {
  const epoch = choose(...pairs.map((it) => it.epoch));
  return pairs.filter((it) => it.epoch === epoch);
}

/** The devices of the tunnels with their numbers. */
function numbered(pairs: readonly Pair[]): readonly (readonly [device: string, number: number])[] {
  return [...new Map(pairs.map((it) => [it.device, tunnelNumber(it.plane, it.epoch)]))];
}

/** A group has a bit for each of its tunnel devices in its id. */
function nextHopOf(tunnels: readonly number[], groups: Map<number, NextHopGroup>): number {
  const [only] = tunnels;
  if (tunnels.length === 1 && only !== undefined) return TUNNEL_HOP + only;
  const id = GROUP + tunnels.reduce((mask, at) => mask + 2 ** at, 0);
  groups.set(id, {
    id,
    members: tunnels.toSorted((a, b) => a - b).map((at) => ({ id: TUNNEL_HOP + at })),
    resilient: RESILIENT,
  });
  return id;
}
