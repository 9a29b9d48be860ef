import type { DrainMode } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { IPFamily } from "@fairlead/kube/api/core/v1/types.ts";
import type {
  EndpointSliceExportSpec,
  ExportedEndpoint,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { ImportedCluster, ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { importPorts } from "./slice.ts";

/** Which clusters' endpoints of a service get traffic in this cluster. Pure. */

export interface TrafficRules {
  /** The cluster that imports. */
  readonly own: string;
  readonly affinity: ImportedService["spec"]["affinity"];
  readonly clusters: readonly Pick<ImportedCluster, "cluster" | "weight" | "priority">[];
  readonly drained: ReadonlyMap<string, DrainMode>;
}

/** The state of a cluster's endpoints: ready, serving while terminating, or none. */
export type Readiness = "ready" | "serving" | "none";

/**
 * The clusters whose endpoints are used: of those with a ready endpoint, those of the first rank. If no endpoint is ready,
 * those that serve while they terminate count (as in KEP-1669 inside a cluster); if nothing serves, all clusters are
 * equal.
 *
 * It has no memory. Readiness is damped where it is measured, by the thresholds of probes, and a choice that depends on
 * history would differ after a restart.
 */
export function eligibleClusters(
  rules: TrafficRules,
  readiness: ReadonlyMap<string, Readiness>,
): ReadonlySet<string> {
  const candidates = rules.clusters.filter((it) => isOpen(rules, it));
  for (const able of [["ready"], ["ready", "serving"]] as const) {
    const usable = candidates.filter((it) => able.some((one) => one === readiness.get(it.cluster)));
    const first = Math.min(...usable.map((it) => rankOf(rules, it)));
    if (usable.length > 0)
      return new Set(candidates.flatMap((it) => (rankOf(rules, it) === first ? [it.cluster] : [])));
  }
  return new Set(candidates.map((it) => it.cluster));
}

/** Whether the clusters are all used or not at all, whatever is ready. */
export function isSettled(rules: TrafficRules): boolean {
  return new Set(rules.clusters.filter((it) => isOpen(rules, it)).map((it) => rankOf(rules, it))).size < 2;
}

/** Returns the clusters that may be used at all. */
export function openClusters(rules: TrafficRules): (cluster: string) => boolean {
  const open = new Set(rules.clusters.filter((it) => isOpen(rules, it)).map((it) => it.cluster));
  return (cluster) => open.has(cluster);
}

function isOpen({ drained }: TrafficRules, { cluster, weight }: TrafficRules["clusters"][number]): boolean {
  return weight !== 0 && drained.get(cluster) !== "Hard";
}

/** More than the highest priority. */
const RANKS = 10_000;

/** Lower comes first: clusters that are not drained, then by locality, then by priority. */
function rankOf(rules: TrafficRules, { cluster, priority = 0 }: TrafficRules["clusters"][number]): number {
  const isOwn = cluster === rules.own;
  const isFar = rules.affinity === "local" ? !isOwn : rules.affinity === "remote" && isOwn;
  return (
    (rules.drained.has(cluster) ? 2 * RANKS : 0) +
    (isFar ? RANKS : 0) +
    (isOwn && isNear(rules) ? 0 : priority)
  );
}

/** With local or remote affinity, this cluster's own endpoints are a separate group, without regard to their priority. */
function isNear({ affinity }: TrafficRules): boolean {
  return affinity === "local" || affinity === "remote";
}

export interface OfferedSlice {
  readonly cluster: string;
  readonly facts: Pick<EndpointSliceExportSpec, "addressType" | "endpoints" | "ports" | "weight">;
  readonly isAlive: (addresses: readonly string[]) => boolean;
}

/** A part of a service with separate endpoints: an address family and, if it has a virtual address, a port. */
export type Unit = string;

export function unitOf(family: IPFamily, port: string): Unit {
  return `${family} ${port}`;
}

/** The readiness of each cluster, by unit. */
export function readinessOf(
  spec: Pick<ImportedService["spec"], "type" | "clusters">,
  slices: Iterable<OfferedSlice>,
): ReadonlyMap<Unit, ReadonlyMap<string, Readiness>> {
  const units = new Map<Unit, Map<string, Readiness>>();
  const exposed = new Map(spec.clusters.map((it) => [it.cluster, it.ports]));
  /** The units of the import that a slice serves. */
  const unitsOf = ({ cluster, facts }: OfferedSlice): Unit[] =>
    spec.type === "Headless"
      ? [unitOf(facts.addressType, "")]
      : importPorts(facts.ports ?? [], exposed.get(cluster) ?? []).map((it) =>
          unitOf(facts.addressType, it.name ?? ""),
        );
  for (const slice of slices) {
    const found = readinessOfEndpoints(slice.facts.endpoints, slice.isAlive);
    for (const unit of unitsOf(slice)) {
      const clusters = units.get(unit) ?? new Map<string, Readiness>();
      units.set(unit, clusters);
      const before = clusters.get(slice.cluster) ?? "none";
      if (before === "none" || found === "ready") clusters.set(slice.cluster, found);
    }
  }
  return units;
}

/** An absent condition means ready (discovery/v1, `EndpointConditions`). */
export function readinessOfEndpoints(
  endpoints: readonly Pick<ExportedEndpoint, "addresses" | "conditions">[],
  isAlive: OfferedSlice["isAlive"],
): Readiness {
  let found: Readiness = "none";
  for (const { addresses, conditions } of endpoints) {
    const isReady = conditions?.ready !== false;
    if ((!isReady && conditions?.serving !== true) || !isAlive(addresses)) continue;
    if (isReady) return "ready";
    found = "serving";
  }
  return found;
}

/** Whether a cluster serves a unit of the service. */
export type Serves = (cluster: string, unit: Unit) => boolean;

/** Decides once for each unit. @param readinessNow - Called only if readiness matters. */
export function chooseClusters(
  rules: TrafficRules,
  readinessNow: () => ReturnType<typeof readinessOf>,
): Serves {
  if (isSettled(rules)) {
    const all = eligibleClusters(rules, new Map());
    return (cluster) => all.has(cluster);
  }
  const readiness = readinessNow();
  const chosen = new Map<Unit, ReadonlySet<string>>();
  return (cluster, unit) => {
    const known = chosen.get(unit) ?? eligibleClusters(rules, readiness.get(unit) ?? new Map());
    chosen.set(unit, known);
    return known.has(cluster);
  };
}
