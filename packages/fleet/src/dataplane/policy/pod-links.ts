import type { networkInterfaces } from "node:os";
import type { Link } from "@fairlead/os/iproute/parse.ts";

/** Devices of a node by which pods are known whose addresses are not. */
export interface PodLinks {
  /** Veth devices that are not those of pods. */
  readonly uplinks: readonly string[];
  /** How many veth devices are those of pods, or of other containers that are routed to. */
  readonly count: number;
}

/** Plugins give the node's end of each pair such an address. */
const LINK_LOCAL = /^(fe80:|169\.254\.)/;

/** A device with an address is the node's own; a port of a bridge is not where packets are routed from. Pure. */
export function podLinks(links: readonly Link[], addresses: ReturnType<typeof networkInterfaces>): PodLinks {
  const veths = links.filter((it) => it.kind === "veth" && it.master === undefined);
  const isUplink = (device: string): boolean =>
    addresses[device]?.some((it) => !LINK_LOCAL.test(it.address)) === true;
  const uplinks = veths.map((it) => it.device).filter(isUplink);
  const own = veths.filter((it) => it.device.startsWith("fl"));
  return { uplinks: uplinks.toSorted(), count: veths.length - uplinks.length - own.length };
}
