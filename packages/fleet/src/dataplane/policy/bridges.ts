import { readFile } from "node:fs/promises";
import type { Link } from "@fairlead/os/iproute/parse.ts";

/** Bridges of a node whose packets between ports no table sees. */

export interface BridgeFacts {
  /** Bridges with the number of their ports. */
  readonly bridges: ReadonlyMap<string, number>;
  /** `net.bridge.bridge-nf-call-iptables` and `-ip6tables`; undefined: the module br_netfilter is not there. */
  readonly filters: readonly (string | undefined)[];
}

/** Undefined: nothing is missing. Pure. */
export function unseenBridges({ bridges, filters }: BridgeFacts): string | undefined {
  const used = [...bridges].filter(([, ports]) => ports > 1).map(([name]) => name);
  if (used.length === 0 || filters.every((it) => it === "1")) return undefined;
  return `policies between pods at the same bridge (${used.join(", ")}) are not enforced: load the module br_netfilter, and set net.bridge.bridge-nf-call-iptables and net.bridge.bridge-nf-call-ip6tables to 1`;
}

const SETTINGS = "/proc/sys/net/bridge";

/** Of the network namespace of this process. @param links - Its devices. */
export async function readBridges(links: readonly Link[]): Promise<BridgeFacts> {
  const bridges = new Map<string, number>(
    links.flatMap((it) => (it.kind === "bridge" ? [[it.device, 0] as const] : [])),
  );
  for (const { master } of links) {
    const ports = bridges.get(master ?? "");
    if (master !== undefined && ports !== undefined) bridges.set(master, ports + 1);
  }
  const read = (name: string): Promise<string | undefined> =>
    readFile(`${SETTINGS}/${name}`, "utf8").then(
      (text) => text.trim(),
      () => undefined,
    );
  const filters = ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"].map((it) => read(it));
  return { bridges, filters: await Promise.all(filters) };
}
