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

/** What is not enforced for new pods; undefined: nothing. @param problem - Why their prefixes are not known. */
export function openPods(problem: string | undefined, links: PodLinks | undefined): string | undefined {
  if (problem === undefined || (links !== undefined && links.count > 0)) return undefined;
  return `the policies of a new pod of this node are enforced from when the agent knows its address, and not before: ${problem}, and no pod has a veth device of its own`;
}
