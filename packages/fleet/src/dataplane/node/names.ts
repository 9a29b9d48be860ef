import { createHash } from "node:crypto";

/** Names of what the node agent owns in the kernel. Linux takes 15 characters for a device. */

/** The node's end of the link between its own network namespace and `fleet`. */
export const HOST_DEVICE = "fl-host";
/** The other end, in `fleet`. */
export const NODE_DEVICE = "fl-node";
/** A gateway's WireGuard device for remote gateways of one ordinal, with the keys of one epoch. */
export function wireGuardDevice(plane: number, epoch: number): string {
  return `fl-wg${plane}${epoch % 2}`;
}

/**
 * A WireGuard device for other nodes of the cluster, with the keys of one epoch: the gateway of that ordinal, and of ordinal 0 also the
 * nodes that are not gateways.
 */
export function nodesDevice(ordinal: number, epoch: number): string {
  return `fl-nodes${ordinal}${epoch % 2}`;
}

/** A small number of each device of a gateway's tunnels: planes, and parities of epochs. Range: 0 to 7. */
export function tunnelNumber(plane: number, epoch: number): number {
  return 2 * plane + (epoch % 2);
}

/** The same of the devices for other nodes. Range: 8 to 15. */
export function nodesNumber(ordinal: number, epoch: number): number {
  return 8 + tunnelNumber(ordinal, epoch);
}

/** Mark of echo requests that came by the device with number 0; the next 15 are of the others. */
export const TUNNEL_MARK = 0x7000;

/** Whether a device is one of them. */
export function isWireGuardDevice(name: string): boolean {
  return /^fl-(wg|nodes)[0-3][01]$/.test(name);
}

/**
 * Next hops on links of the agent: no interface has these addresses, permanent neighbours lead to the other end. The first is the
 * side of `fleet`, the second that of the node.
 */
export const FLEET_HOP = { IPv4: "169.254.77.1", IPv6: "fe80::f1" } as const;
export const NODE_HOP = { IPv4: "169.254.77.2", IPv6: "fe80::f2" } as const;

/** Locally administered unicast address (IEEE 802: bit 1 set and bit 0 clear in the first byte) that follows from `text`. */
export function hardwareAddressOf(text: string): string {
  const hex = createHash("sha256").update(text).digest("hex").slice(0, 10);
  return ["02", ...(hex.match(/../g) ?? [])].join(":");
}
