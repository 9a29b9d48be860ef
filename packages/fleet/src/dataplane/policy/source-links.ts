import type { Link } from "@fairlead/os/iproute/parse.ts";
import { byText } from "@fairlead/base/text.ts";
import { isDeviceWord } from "@fairlead/os/iproute/words.ts";

/**
 * The links of a node whose other ends are pods: what comes by them has to have a source that the node reaches by the same link.
 *
 * A pod is at one end of a veth pair, whose other end the node has, or is a port of a bridge of the node. A node in a container (kind, a lab)
 * has a veth to its own network, too, and a machine of virtual machines a bridge to it: those lead to a gateway.
 */
export interface SourceLinks {
  /** Devices of these kinds that are not links of pods. */
  readonly unchecked: readonly string[];
  /** Bridges with several ports. Sources are checked for the bridge, not for its ports. */
  readonly shared: readonly string[];
}

const KINDS: ReadonlySet<string | undefined> = new Set(["veth", "bridge"]);

/** Pure. @param gateways - The devices by which the node reaches gateways. */
export function planSourceLinks(links: readonly Link[], gateways: ReadonlySet<string>): SourceLinks {
  const ports = Map.groupBy(links, (it) => it.master);
  const isOf = (it: Link): boolean => KINDS.has(it.kind);
  return {
    unchecked: links
      .filter((it) => isOf(it) && gateways.has(it.device) && isDeviceWord(it.device))
      .map((it) => it.device)
      .toSorted(byText),
    shared: links
      .filter((it) => it.kind === "bridge" && !gateways.has(it.device))
      .map((it) => it.device)
      .filter((it) => (ports.get(it)?.length ?? 0) > 1)
      .toSorted(byText),
  };
}
