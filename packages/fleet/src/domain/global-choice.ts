import type { DrainMode } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ImportedCluster } from "#api/fairlead.dev/v1alpha1/types.ts";
import type { LocalityAffinity } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { IPFamily } from "@fairlead/kube/api/core/v1/types.ts";
import { type OfferedSlice, type Readiness, readinessOfEndpoints, type Unit, unitOf } from "./eligible.ts";
import { chooseSides, type SideHealth, type Sides } from "./global-service.ts";

/** Which clusters' endpoints a global Service uses in this cluster, for each port and family. Pure. */

export interface GlobalRules {
  /** The cluster that imports. */
  readonly own: string;
  /** Of the Service in this cluster: each cluster decides for itself. */
  readonly affinity: LocalityAffinity;
  /** All exporters of the service. */
  readonly clusters: readonly Pick<ImportedCluster, "cluster" | "weight" | "global">[];
  readonly drained: ReadonlyMap<string, DrainMode>;
}

/** Of one port and family. */
interface GlobalChoice extends Sides {
  /** The other clusters whose endpoints are used, if those of others are. */
  readonly clusters: ReadonlySet<string>;
}

/** The clusters whose endpoints a Service here may use: truth table of global services, and no hard drain or weight 0. */
function openTo({ own, clusters, drained }: GlobalRules): string[] {
  return clusters
    .filter((it) => it.global === true && it.cluster !== own && it.weight !== 0)
    .map((it) => it.cluster)
    .filter((it) => drained.get(it) !== "Hard");
}

/** A drained cluster sends its own requests elsewhere, too. */
export function affinityOf({ own, affinity, drained }: GlobalRules): LocalityAffinity {
  return drained.has(own) ? "remote" : affinity;
}

/** Whether the clusters are all used, or not at all, whatever is ready. */
export function isGlobalSettled(rules: GlobalRules): boolean {
  const isDrained = openTo(rules).some((it) => rules.drained.has(it));
  return affinityOf(rules) === "none" && !isDrained;
}

/** Whether the endpoints of a cluster are used for a port, by the name that both give it. */
export type ServesGlobal = (cluster: string, family: IPFamily, port: string) => boolean;

/** @param slicesNow - Of all exporters, and of the Service here. Called only if readiness matters. */
export function chooseGlobal(rules: GlobalRules, slicesNow: () => Iterable<OfferedSlice>): ServesGlobal {
  if (isGlobalSettled(rules)) {
    const open = new Set([rules.own, ...openTo(rules)]);
    return (cluster) => open.has(cluster);
  }
  const readiness = readinessByPort(slicesNow());
  const chosen = new Map<Unit, GlobalChoice>();
  return (cluster, family, port) => {
    const unit = unitOf(family, port);
    const known = chosen.get(unit) ?? chooseForPort(rules, readiness.get(unit) ?? new Map());
    chosen.set(unit, known);
    return cluster === rules.own ? known.local : known.remote && known.clusters.has(cluster);
  };
}

function chooseForPort(rules: GlobalRules, readiness: ReadonlyMap<string, Readiness>): GlobalChoice {
  const open = openTo(rules);
  const preferred = open.filter((it) => !rules.drained.has(it));
  const hasHealthy = preferred.some((it) => healthOf(readiness.get(it)).isHealthy);
  const clusters = hasHealthy ? preferred : open;
  const remote = {
    isActive: clusters.some((it) => healthOf(readiness.get(it)).isActive),
    isHealthy: clusters.some((it) => healthOf(readiness.get(it)).isHealthy),
  };
  const own = healthOf(readiness.get(rules.own));
  const isLastChoice = !hasHealthy && open.length > preferred.length && !rules.drained.has(rules.own);
  const affinity = isLastChoice && own.isActive ? "local" : affinityOf(rules);
  const sides = chooseSides(affinity, own, remote);
  return { ...sides, clusters: new Set(clusters) };
}

function healthOf(readiness: Readiness = "none"): SideHealth {
  return { isActive: readiness === "ready", isHealthy: readiness !== "none" };
}

/** A headless Service without ports has one unit for each family: "". */
function readinessByPort(slices: Iterable<OfferedSlice>): ReadonlyMap<Unit, ReadonlyMap<string, Readiness>> {
  const units = new Map<Unit, Map<string, Readiness>>();
  for (const { cluster, facts, isAlive } of slices) {
    // In maintenance.
    if (facts.weight === 0) continue;
    const found = readinessOfEndpoints(facts.endpoints, isAlive);
    const { ports = [] } = facts;
    for (const name of ports.length === 0 ? [""] : ports.map((it) => it.name ?? "")) {
      const unit = unitOf(facts.addressType, name);
      const clusters = units.get(unit) ?? new Map<string, Readiness>();
      units.set(unit, clusters);
      const before = clusters.get(cluster) ?? "none";
      if (before === "none" || found === "ready") clusters.set(cluster, found);
    }
  }
  return units;
}
