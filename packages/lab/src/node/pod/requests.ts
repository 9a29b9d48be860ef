import type { Container, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { countQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import { isSidecar } from "./restart.ts";

/** What a pod asks of its node. Pure. */

/** The resources that are counted, and in which unit: thousandths for CPUs, as the kubelet reports them. */
const UNITS: Readonly<Record<string, number>> = { cpu: 1000, memory: 1, "ephemeral-storage": 1 };

/**
 * By resource: the sum over containers and sidecars, or what the init phase needs at its worst, with the pod's overhead.
 * Source: k8s.io/component-helpers/resource (KEP-753).
 */
export function podRequests(pod: Pod): ReadonlyMap<string, number> {
  return new Map(Object.keys(UNITS).map((name) => [name, requestOf(pod, name)]));
}

export function inUnits(resource: string, text: string | undefined): number {
  return countQuantity(text, UNITS[resource]) ?? 0;
}

function requestOf({ spec }: Pod, resource: string): number {
  const of = ({ resources }: Container): number =>
    inUnits(resource, resources?.requests?.[resource] ?? resources?.limits?.[resource]);
  let sidecars = 0;
  let peak = 0;
  for (const container of spec?.initContainers ?? []) {
    if (isSidecar(container)) sidecars += of(container);
    peak = Math.max(peak, isSidecar(container) ? sidecars : sidecars + of(container));
  }
  const sum = (spec?.containers ?? []).reduce((total, it) => total + of(it), sidecars);
  return Math.max(sum, peak) + inUnits(resource, spec?.overhead?.[resource]);
}
