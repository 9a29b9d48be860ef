import { defined } from "@fairlead/base/defined.ts";
import { byText } from "@fairlead/base/text.ts";
import type { Route } from "@fairlead/os/iproute/lines.ts";
import type { NextHopGroup } from "@fairlead/os/iproute/nexthops.ts";
import type { NetworkState } from "@fairlead/os/iproute/state.ts";
import { nodeAddress } from "../pod-attachment/addresses.ts";
import type { Pair } from "./devices.ts";
import type { EchoState, EchoTarget } from "./echo-probes.ts";
import { planFleetEnd } from "./host-link.ts";
import { TUNNEL_MARK, tunnelNumber } from "./names.ts";
import type { NodePeer } from "./node-peers.ts";
import type { NodeState } from "./state.ts";

/**
 * Addresses and routes of all devices of the agent in `fleet`. Pure.
 *
 * A block of another node of the cluster is reached through WireGuard between the nodes; the blocks of other members are on a gateway
 * reached through its tunnels, and elsewhere through the gateways. A way whose other end does not answer is left out while another is
 * there. A gateway without a living tunnel to a member sends its packets to the other gateways of the cluster; so does one whose tunnels
 * have lost their devices, until its agent has made them again.
 */

/**
 * MTU of WireGuard's devices: 1500 less 80 bytes of WireGuard over IPv6, rounded down to a multiple of 16, to which WireGuard pads
 * packets. Unit: bytes.
 */
export const TUNNEL_MTU = 1408;
/** Ids of next hops: one for each WireGuard device, and one group for each set of these. */
export const NEXT_HOP_IDS = [11_200, 11_999] as const;
const DEVICE_HOP = 11_200;
const GROUP = 11_300;
/** Devices of tunnels have numbers from 0, those for other nodes from 8: a group has devices of one kind, and a bit for each. */
const DEVICES_OF_KIND = 8;
/**
 * An echo request that came by a WireGuard device is answered by it, so that each tunnel is probed in both directions: rules of these
 * priorities look up marks in tables of the same number. The kernel passes the mark on to its answer (ip-sysctl, fwmark_reflect).
 */
export const RULE_PRIORITIES = [11_200, 11_299] as const;
/**
 * Of the routes that count when the devices of a gateway's own tunnels are gone, with the routes over them, and its agent does not run: more
 * than the kernel gives by itself (0, and 1024 in IPv6).
 */
const FALLBACK_METRIC = 2048;
/** Parts into which flows are hashed: a flow stays where it is when another way comes or goes. */
const RESILIENT = { buckets: 64, idleSeconds: 30 };

export interface FleetNetworkView {
  readonly nodeName: string;
  readonly state: NodeState;
  /** Tunnels of this node. */
  readonly pairs: readonly Pair[];
  /** Other nodes of the cluster. */
  readonly peers: readonly NodePeer[];
  readonly stateOf: (target: string) => Pick<EchoState, "isAlive" | "isAnswering" | "mtu">;
  /** Where WireGuard sends, by pair. */
  readonly endpoints: ReadonlyMap<string, string>;
}

export interface FleetNetwork {
  readonly network: NetworkState;
  readonly targets: readonly EchoTarget[];
}

/** A WireGuard device with its number, from 0 to 15. */
type Numbered = readonly [device: string, number: number];

export function planFleetNetwork(view: FleetNetworkView): FleetNetwork {
  const { nodeName, state, pairs, peers, stateOf } = view;
  const own = {
    ipv4: nodeAddress(state.block.spec.ipv4[0] ?? ""),
    ipv6: nodeAddress(state.block.spec.ipv6[0] ?? ""),
  };
  const { ipv4, ipv6 } = state.network;
  const host = planFleetEnd({ nodeName, ipv4, ipv6, ownIPv4: own.ipv4, ownIPv6: own.ipv6 });
  const devices = numbered(pairs, peers);
  const used = usedPeers(peers, stateOf);
  const remote = planRemote(view, used);
  return {
    targets: planTargets(view),
    network: {
      addresses: [
        ...host.addresses,
        ...devices.flatMap(([device]) => [
          { device, address: `${own.ipv4}/32` },
          { device, address: `${own.ipv6}/128` },
        ]),
      ],
      neighbours: host.neighbours,
      routes: [
        ...host.routes,
        ...state.nodes.flatMap((it) => routesTo(it, used.get(it.node ?? ""), stateOf)),
        ...remote.routes,
        ...devices.map(([device, number]) => ({
          to: "0.0.0.0/0",
          hops: [{ device }],
          table: RULE_PRIORITIES[0] + number,
        })),
      ],
      rules: devices.map(([, number]) => ({
        priority: RULE_PRIORITIES[0] + number,
        family: "IPv4",
        mark: { value: TUNNEL_MARK + number, mask: 0xffff },
        table: RULE_PRIORITIES[0] + number,
      })),
      nextHops: devices.map(([device, number]) => ({ id: DEVICE_HOP + number, device })),
      nextHopGroups: remote.groups,
    },
  };
}

/** The keys with which each other node is reached. */
function usedPeers(
  peers: readonly NodePeer[],
  stateOf: FleetNetworkView["stateOf"],
): ReadonlyMap<string, NodePeer> {
  const used = [...Map.groupBy(peers, (it) => it.node)].flatMap(([node, all]) => {
    const living = all.filter((it) => stateOf(nodeTarget(it)).isAlive);
    const [peer] = living.length > 0 ? ofEpoch(living, Math.max) : ofEpoch(all, Math.min);
    return peer === undefined ? [] : [[node, peer] as const];
  });
  return new Map(used);
}

function routesTo(
  { ipv4, ipv6 }: NodeState["nodes"][number],
  peer: NodePeer | undefined,
  stateOf: FleetNetworkView["stateOf"],
): readonly Route[] {
  if (peer === undefined) return [];
  const { mtu = TUNNEL_MTU } = stateOf(nodeTarget(peer));
  return [...ipv4, ...ipv6].map((to) => ({ to, hops: [{ device: peer.device }], mtu }));
}

/** Id of the probe of another node of the cluster. */
function nodeTarget(peer: Pick<NodePeer, "id">): string {
  return `node/${peer.id}`;
}

/** Id of the probe of a tunnel. */
export function tunnelTarget(pair: Pick<Pair, "id">): string {
  return `tunnel/${pair.id}`;
}

function planTargets({ pairs, peers, endpoints }: FleetNetworkView): EchoTarget[] {
  return [
    ...probedPeers(peers).map((peer) => ({
      id: nodeTarget(peer),
      device: peer.device,
      address: nodeAddress(peer.ipv4),
      tunnel: { mtu: TUNNEL_MTU, path: peer.endpoint },
    })),
    ...pairs.flatMap((pair) => {
      const { fleetAddress } = pair.remote;
      if (fleetAddress === undefined) return [];
      const tunnel = { mtu: TUNNEL_MTU, path: endpoints.get(pair.id) ?? "" };
      return [{ id: tunnelTarget(pair), device: pair.device, address: fleetAddress, tunnel }];
    }),
  ];
}

/** Gateways, because there are other ways; other nodes only with new keys, while they also have old ones. */
function probedPeers(peers: readonly NodePeer[]): readonly NodePeer[] {
  return [...Map.groupBy(peers, (it) => it.node).values()].flatMap((all) => {
    if (all.some((it) => it.isGateway)) return all;
    return all.length > 1 ? ofEpoch(all, Math.max) : [];
  });
}

interface Remote {
  readonly routes: readonly Route[];
  readonly groups: readonly NextHopGroup[];
}

/** The ways to other members. */
function planRemote(view: FleetNetworkView, nodes: ReadonlyMap<string, NodePeer>): Remote {
  const { state, pairs, stateOf } = view;
  const gateways = [...nodes.values()].filter((it) => it.isGateway);
  const groups = new Map<number, NextHopGroup>();
  const routes: Route[] = [];
  const route = (
    prefixes: readonly string[],
    numbers: readonly number[],
    targets: readonly string[],
    metric?: number,
  ): void => {
    const nextHop = nextHopOf([...new Set(numbers)], groups);
    // One for all, because any of them may carry a flow. That of the device is named, too: a route over a next-hop object takes
    // the metrics of another route over it where it has none (linux: fib_find_info_nh).
    const mtu = Math.min(...targets.map((it) => stateOf(it).mtu ?? TUNNEL_MTU));
    routes.push(...prefixes.map((to) => ({ to, hops: [], nextHop, mtu, ...defined({ metric }) })));
  };
  const throughOthers = (prefixes: readonly string[], metric?: number): void => {
    const living = gateways.filter((it) => stateOf(nodeTarget(it)).isAlive);
    const used = living.length > 0 ? living : gateways;
    if (used.length > 0)
      route(
        prefixes,
        used.map((it) => it.number),
        used.map((it) => nodeTarget(it)),
        metric,
      );
  };
  const byCluster = Map.groupBy(pairs, (it) => it.remote.cluster);
  for (const [cluster, block] of state.members) {
    if (cluster === state.block.spec.cluster) continue;
    const prefixes = [...block.ipv4, ...block.ipv6];
    const all = byCluster.get(cluster) ?? [];
    const living = all.filter((it) => stateOf(tunnelTarget(it)).isAlive);
    // When all failed at once, those of the other gateways probably did too: one that begins to answer is the better way.
    const answering = living.length > 0 ? living : all.filter((it) => stateOf(tunnelTarget(it)).isAnswering);
    const through = gateways.filter((it) => stateOf(nodeTarget(it)).isAlive);
    if (answering.length > 0 || (all.length > 0 && through.length === 0)) {
      const used = answering.length > 0 ? ofEpoch(answering, Math.max) : ofEpoch(all, Math.min);
      route(
        prefixes,
        used.map((it) => tunnelNumber(it.plane, it.epoch)),
        used.map((it) => tunnelTarget(it)),
      );
      throughOthers(prefixes, FALLBACK_METRIC);
    } else throughOthers(prefixes);
  }
  return { routes, groups: [...groups.values()] };
}

/**
 * While keys are exchanged, both epochs work; the newer one is used as soon as it does. An agent that has just started does not know
 * whether it does: the other gateway may not have learned of the new key yet.
 */
function ofEpoch<T extends { readonly epoch: number }>(
  all: readonly T[],
  choose: (...epochs: readonly number[]) => number,
): readonly T[] {
  const epoch = choose(...all.map((it) => it.epoch));
  return all.filter((it) => it.epoch === epoch);
}

function numbered(pairs: readonly Pair[], peers: readonly NodePeer[]): readonly Numbered[] {
  const devices = new Map([
    ...pairs.map((it) => [it.device, tunnelNumber(it.plane, it.epoch)] as const),
    ...peers.map((it) => [it.device, it.number] as const),
  ]);
  return [...devices].toSorted(([a], [b]) => byText(a, b));
}

/** A group has a bit for each of its devices in its id. */
function nextHopOf(numbers: readonly number[], groups: Map<number, NextHopGroup>): number {
  const [only = 0] = numbers;
  if (numbers.length === 1) return DEVICE_HOP + only;
  const kind = Math.floor(only / DEVICES_OF_KIND);
  const id = numbers.reduce(
    (sum, at) => sum + 2 ** (at % DEVICES_OF_KIND),
    GROUP + kind * 2 ** DEVICES_OF_KIND,
  );
  groups.set(id, {
    id,
    members: numbers.toSorted((a, b) => a - b).map((at) => ({ id: DEVICE_HOP + at })),
    resilient: RESILIENT,
  });
  return id;
}
