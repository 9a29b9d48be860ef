import type { Deployment, ReplicaSet } from "@fairlead/kube/api/apps/v1/types.ts";
import { byText } from "@fairlead/base/text.ts";
import { countOf } from "../percent.ts";
import { DESIRED_REPLICAS, MAX_REPLICAS, revisionOf } from "./revisions.ts";

/** How many pods each ReplicaSet of a Deployment is to have next. Source: pkg/controller/deployment/{rolling,sync}.go. */

export interface Bounds {
  readonly replicas: number;
  /** Pods beyond `replicas` that may exist during a rollout. */
  readonly maxSurge: number;
  /** Pods below `replicas` that may be missing during a rollout. */
  readonly maxUnavailable: number;
}

export function boundsOf(deployment: Deployment): Bounds {
  const replicas = deployment.spec?.replicas ?? 1;
  const { type = "RollingUpdate", rollingUpdate = {} } = deployment.spec?.strategy ?? {};
  if (type === "Recreate") return { replicas, maxSurge: 0, maxUnavailable: replicas };
  const maxSurge = countOf(rollingUpdate.maxSurge ?? "25%", replicas, Math.ceil);
  const maxUnavailable = countOf(rollingUpdate.maxUnavailable ?? "25%", replicas, Math.floor);
  // With neither a rollout could not begin; validation refuses two zeros, but two percentages may come to that.
  if (maxSurge === 0 && maxUnavailable === 0) return { replicas, maxSurge, maxUnavailable: 1 };
  return { replicas, maxSurge, maxUnavailable: Math.min(maxUnavailable, replicas) };
}

/** A set and the number of pods it is to have. */
export interface Scaled {
  readonly set: ReplicaSet;
  readonly replicas: number;
}

export const replicasOf = (set: ReplicaSet | undefined): number => set?.spec?.replicas ?? 0;
const existing = (set: ReplicaSet): number => set.status?.replicas ?? 0;
/** Of a set that was just made smaller, the status still counts pods that are about to go. */
const available = (set: ReplicaSet): number => Math.min(set.status?.availableReplicas ?? 0, replicasOf(set));
export const sumOf = (sets: readonly ReplicaSet[], count: (set: ReplicaSet) => number): number =>
  sets.reduce((sum, set) => sum + count(set), 0);

/** What a set that does not exist yet starts with: as much as the surge leaves room for. */
export function initialReplicas(bounds: Bounds, oldSets: readonly ReplicaSet[], isRecreate: boolean): number {
  if (isRecreate) return bounds.replicas;
  const room = bounds.replicas + bounds.maxSurge - sumOf(oldSets, replicasOf);
  return Math.max(0, Math.min(bounds.replicas, room));
}

/**
 * The next step of a rolling update: first the new set grows as far as the surge allows; when it cannot, the old ones
 * shrink as far as the available pods allow, those without available pods first, then the oldest.
 */
export function planRolling(bounds: Bounds, newSet: ReplicaSet, oldSets: readonly ReplicaSet[]): Scaled[] {
  const current = replicasOf(newSet);
  const grown = current > bounds.replicas ? bounds.replicas : grownReplicas(bounds, newSet, oldSets);
  if (grown !== current) return [{ set: newSet, replicas: grown }];
  return shrinkOld(bounds, newSet, oldSets);
}

function grownReplicas(bounds: Bounds, newSet: ReplicaSet, oldSets: readonly ReplicaSet[]): number {
  const current = replicasOf(newSet);
  const room = bounds.replicas + bounds.maxSurge - current - sumOf(oldSets, replicasOf);
  return current + Math.max(0, Math.min(room, bounds.replicas - current));
}

function shrinkOld(bounds: Bounds, newSet: ReplicaSet, oldSets: readonly ReplicaSet[]): Scaled[] {
  const all = [newSet, ...oldSets];
  const minAvailable = bounds.replicas - bounds.maxUnavailable;
  // Pods of the new set that are not available yet count as if they never were: they must not be waited for twice.
  const newUnavailable = replicasOf(newSet) - available(newSet);
  let budget = sumOf(all, replicasOf) - minAvailable - newUnavailable;
  const left = new Map(oldSets.map((set) => [set, replicasOf(set)]));
  for (const set of oldSets.toSorted(byAge)) {
    const unhealthy = Math.min(replicasOf(set) - available(set), Math.max(0, budget));
    if (unhealthy <= 0) continue;
    left.set(set, replicasOf(set) - unhealthy);
    budget -= unhealthy;
  }
  let surplus = sumOf(all, available) - minAvailable;
  for (const set of oldSets.toSorted(byAge)) {
    const healthy = Math.min(left.get(set) ?? 0, available(set), Math.max(0, surplus));
    if (healthy <= 0) continue;
    left.set(set, (left.get(set) ?? 0) - healthy);
    surplus -= healthy;
  }
  return [...left]
    .filter(([set, replicas]) => replicas !== replicasOf(set))
    .map(([set, replicas]) => ({ set, replicas }));
}

/** Old pods go first, all of them; the new set gets its pods once none is left. */
export function planRecreate(
  bounds: Bounds,
  newSet: ReplicaSet | undefined,
  oldSets: readonly ReplicaSet[],
): { readonly scale: Scaled[]; readonly mayStart: boolean } {
  const running = oldSets.filter((set) => replicasOf(set) > 0).map((set) => ({ set, replicas: 0 }));
  const mayStart = running.length === 0 && sumOf(oldSets, existing) === 0;
  const isShort = newSet !== undefined && mayStart && replicasOf(newSet) !== bounds.replicas;
  return { scale: isShort ? [...running, { set: newSet, replicas: bounds.replicas }] : running, mayStart };
}

/** Whether someone changed the number of replicas since the sets were last scaled. */
export function isScalingEvent(bounds: Bounds, sets: readonly ReplicaSet[]): boolean {
  return sets.some((set) => {
    const desired = set.metadata.annotations?.[DESIRED_REPLICAS];
    return replicasOf(set) > 0 && desired !== undefined && Number(desired) !== bounds.replicas;
  });
}

/**
 * A change of `replicas` in the middle of a rollout, or while it is paused: every set gets its share, so that the risk
 * of a bad new version does not grow with the Deployment.
 */
export function planProportional(
  bounds: Bounds,
  newSet: ReplicaSet | undefined,
  oldSets: readonly ReplicaSet[],
): Scaled[] {
  const active = [...(newSet === undefined ? [] : [newSet]), ...oldSets].filter((set) => replicasOf(set) > 0);
  const [only] = active.length === 0 && newSet !== undefined ? [newSet] : active;
  if (only === undefined) return [];
  if (active.length <= 1) return changed([{ set: only, replicas: bounds.replicas }]);
  const limit = bounds.replicas === 0 ? 0 : bounds.replicas + bounds.maxSurge;
  const sorted = active.toSorted(bySize(limit > sumOf(active, replicasOf)));
  let left = limit - sumOf(active, replicasOf);
  const next = new Map<ReplicaSet, number>();
  for (const set of sorted) {
    const share = shareOf(set, limit, left);
    next.set(set, replicasOf(set) + share);
    left -= share;
  }
  // What rounding left over: the largest sets take it, none below zero.
  for (const set of sorted) {
    const replicas = next.get(set) ?? 0;
    const rest = Math.max(-replicas, left);
    next.set(set, replicas + rest);
    left -= rest;
  }
  return changed([...next].map(([set, replicas]) => ({ set, replicas })));
}

/** A set's share of the added (or, below zero, removed) pods, by its share of the pods at the last scaling. */
function shareOf(set: ReplicaSet, limit: number, left: number): number {
  const before = Number(set.metadata.annotations?.[MAX_REPLICAS] ?? 0) || limit;
  const wanted = before === 0 ? 0 : Math.round((replicasOf(set) * limit) / before) - replicasOf(set);
  return left > 0 ? Math.min(Math.max(0, wanted), left) : Math.max(Math.min(0, wanted), left);
}

/** The largest first; of equals the newest when pods are added, the oldest when they are removed. */
function bySize(isAdding: boolean): (a: ReplicaSet, b: ReplicaSet) => number {
  return (a, b) => replicasOf(b) - replicasOf(a) || (isAdding ? byAge(b, a) : byAge(a, b));
}

function changed(scaled: readonly Scaled[]): Scaled[] {
  return scaled.filter(({ set, replicas }) => replicas !== replicasOf(set));
}

/** The oldest first. */
function byAge(a: ReplicaSet, b: ReplicaSet): number {
  return (
    byText(a.metadata.creationTimestamp ?? "", b.metadata.creationTimestamp ?? "") ||
    revisionOf(a) - revisionOf(b)
  );
}

/** Old sets without pods that the history has no room for, the oldest revision first. */
export function planCleanup(deployment: Deployment, oldSets: readonly ReplicaSet[]): ReplicaSet[] {
  const limit = deployment.spec?.revisionHistoryLimit ?? 10;
  const idle = oldSets.filter(
    (set) => replicasOf(set) === 0 && existing(set) === 0 && set.metadata.deletionTimestamp === undefined,
  );
  return idle.toSorted((a, b) => revisionOf(a) - revisionOf(b)).slice(0, Math.max(0, oldSets.length - limit));
}
