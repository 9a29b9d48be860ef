import { readdir, readFile } from "node:fs/promises";

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

const DEVICES = "/sys/class/net";
const SETTINGS = "/proc/sys/net/bridge";

/** Of the network namespace of this process. @param devices - Their names. */
export async function readBridges(devices: readonly string[]): Promise<BridgeFacts> {
  const bridges = new Map<string, number>();
  for (const name of devices) {
    // Only bridges have it.
    const ports = await readdir(`${DEVICES}/${name}/brif`).catch(() => undefined);
    if (ports !== undefined) bridges.set(name, ports.length);
  }
  const read = (name: string): Promise<string | undefined> =>
    readFile(`${SETTINGS}/${name}`, "utf8").then(
      (text) => text.trim(),
      () => undefined,
    );
  const filters = ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"].map((it) => read(it));
  return { bridges, filters: await Promise.all(filters) };
}
