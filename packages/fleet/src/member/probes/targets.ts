import type { AskedSlice } from "./refused-slices.ts";
import type { EndpointSliceExportSpec } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";

/** A slice of another cluster, as far as probes need it. */
export interface ProbedSlice {
  readonly spec: Pick<EndpointSliceExportSpec, "endpoints" | "ports">;
}

/** The endpoints of other clusters that this member uses. */
export interface KnownEndpoints {
  readonly clusters: () => readonly string[];
  readonly slicesOf: (cluster: string) => Iterable<ProbedSlice>;
}

export interface ProbeTarget {
  readonly address: string;
  /** TCP ports. Empty: nothing can be asked, the hub's word counts. */
  readonly ports: readonly number[];
  /** The slice whose ports these are; absent: they are those of several. */
  readonly of?: AskedSlice;
}

/** One target per endpoint of the slices, with all the TCP ports that any slice says it has. */
export function planTargets(slices: Iterable<ProbedSlice>): ProbeTarget[] {
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

/** So many are asked in a round at least, and this part of all. */
const SAMPLE = { atLeast: 3, part: 0.1 };

/** Splits off those whose turn it is after so many were asked: round after round all get theirs. */
export function takeSample(
  targets: readonly ProbeTarget[],
  asked: number,
): readonly [sample: readonly ProbeTarget[], rest: readonly ProbeTarget[]] {
  const from = targets.length === 0 ? 0 : asked % targets.length;
  const turned = [...targets.slice(from), ...targets.slice(0, from)];
  const size = Math.max(SAMPLE.atLeast, Math.ceil(targets.length * SAMPLE.part));
  return [turned.slice(0, size), turned.slice(size)];
}
