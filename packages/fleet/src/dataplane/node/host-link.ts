import { addVethPair, type IpLine, setLink } from "@fairlead/os/iproute/lines.ts";
import type { NetworkState } from "@fairlead/os/iproute/state.ts";
import { FLEET_HOP, hardwareAddressOf, HOST_DEVICE, NODE_DEVICE, NODE_HOP } from "./names.ts";

/**
 * The link between the node's own namespace and `fleet`. The node gets one route per fleet prefix and nothing else; in `fleet`
 * everything that no other route leads to goes to the node: the addresses of its pods. Pure.
 */
export interface HostLink {
  readonly nodeName: string;
  /** Prefixes of all fleet addresses. */
  readonly ipv4: string;
  readonly ipv6: string;
  /** The node's own fleet addresses, without a length. */
  readonly ownIPv4: string;
  readonly ownIPv6: string;
}

function hardware(nodeName: string): { readonly host: string; readonly fleet: string } {
  return { host: hardwareAddressOf(`${nodeName} host`), fleet: hardwareAddressOf(`${nodeName} fleet`) };
}

/** For the node's namespace: the pair, with its other end in `fleet`. */
export function createHostLink(nodeName: string, fleetNetns: string): readonly IpLine[] {
  const { host, fleet } = hardware(nodeName);
  return [
    addVethPair(
      { device: HOST_DEVICE, hardwareAddress: host },
      { device: NODE_DEVICE, hardwareAddress: fleet, netns: fleetNetns },
    ),
  ];
}

/** Brings an end up without addresses of its own. */
export function raiseLink(device: string): readonly IpLine[] {
  return [setLink(device, { addressGeneration: "none" }), setLink(device, { up: true })];
}

/** The state of `fl-host` in the node's namespace. */
export function planHostEnd({
  nodeName,
  ipv4,
  ipv6,
}: Pick<HostLink, "nodeName" | "ipv4" | "ipv6">): NetworkState {
  const { fleet } = hardware(nodeName);
  return {
    addresses: [],
    neighbours: [FLEET_HOP.IPv4, FLEET_HOP.IPv6].map((address) => ({
      device: HOST_DEVICE,
      address,
      hardwareAddress: fleet,
    })),
    routes: [
      { to: ipv4, hops: [{ device: HOST_DEVICE, via: FLEET_HOP.IPv4, isOnlink: true }] },
      { to: ipv6, hops: [{ device: HOST_DEVICE, via: FLEET_HOP.IPv6, isOnlink: true }] },
    ],
  };
}

/** The state of `fl-node` in `fleet`. */
export function planFleetEnd({ nodeName, ownIPv4, ownIPv6 }: HostLink): NetworkState {
  const { host } = hardware(nodeName);
  return {
    addresses: [
      { device: NODE_DEVICE, address: `${ownIPv4}/32` },
      { device: NODE_DEVICE, address: `${ownIPv6}/128` },
    ],
    neighbours: [NODE_HOP.IPv4, NODE_HOP.IPv6].map((address) => ({
      device: NODE_DEVICE,
      address,
      hardwareAddress: host,
    })),
    routes: [
      { to: "0.0.0.0/0", hops: [{ device: NODE_DEVICE, via: NODE_HOP.IPv4, isOnlink: true }] },
      { to: "::/0", hops: [{ device: NODE_DEVICE, via: NODE_HOP.IPv6, isOnlink: true }] },
    ],
  };
}
