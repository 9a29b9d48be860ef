import type { EndpointSliceImport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";

export interface ProbeTarget {
  readonly address: string;
  /** TCP ports. Empty: nothing can be asked, the hub's word counts. */
  readonly ports: readonly number[];
}

/** One target per endpoint of the slices, with all the TCP ports that any slice says it has. */
export function planTargets(slices: Iterable<EndpointSliceImport>): ProbeTarget[] {
  const targets = new Map<string, Set<number>>();
  for (const { spec } of slices) {
    const tcp = (spec.ports ?? []).flatMap((it) =>
      (it.protocol ?? "TCP") === "TCP" && it.port !== undefined ? [it.port] : [],
    );
    for (const { addresses } of spec.endpoints) {
      const [address] = addresses;
      if (address === undefined) continue;
      const ports = targets.get(address) ?? new Set();
      targets.set(address, ports);
      for (const port of tcp) ports.add(port);
    }
  }
  return [...targets].map(([address, ports]) => ({ address, ports: [...ports] }));
}
