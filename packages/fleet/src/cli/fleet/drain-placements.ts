import { hasCode } from "@fairlead/base/errors.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { byText } from "@fairlead/base/text.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { PARENT_PLACEMENT_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import {
  PLACEMENT_EVICTIONS,
  type PlacementEviction,
  RESOURCE_PLACEMENT_EVICTIONS,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  RESOURCE_BINDINGS,
  type ResourceBinding,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { listOrNone } from "./leave-member.ts";

/** Takes placements off a cordoned member: each placement that is bound to it gets an eviction. */

/**
 * `Bound`: nothing was asked for. `Requested`: the hub has not decided on the eviction. `Evicted`: allowed, and the resources are being removed.
 * `Removed`: nothing of the placement is left in the cluster.
 */
type EvictionOutcome = "Bound" | "Requested" | "Evicted" | "Removed" | "Refused" | "Invalid";
export interface PlacementDrain {
  readonly kind: "ClusterResourcePlacement" | "ResourcePlacement";
  /** "name", or "namespace/name". */
  readonly placement: string;
  readonly outcome: EvictionOutcome;
  readonly message: string;
}

interface Scope {
  readonly kind: PlacementDrain["kind"];
  readonly bindings: Resource<ResourceBinding>;
  readonly evictions: Resource<PlacementEviction>;
}
const SCOPES: readonly Scope[] = [
  {
    kind: "ClusterResourcePlacement",
    bindings: CLUSTER_RESOURCE_BINDINGS,
    evictions: PLACEMENT_EVICTIONS,
  },
  { kind: "ResourcePlacement", bindings: RESOURCE_BINDINGS, evictions: RESOURCE_PLACEMENT_EVICTIONS },
];

interface Bound {
  readonly scope: Scope;
  readonly binding: ResourceBinding;
}

export interface PlacementDrainOptions {
  readonly name: string;
  /** Wait until each eviction is decided, and carried out. */
  readonly wait: boolean;
  /** Unit: milliseconds. */
  readonly timeoutMs: number;
}

/**
 * May be stopped and run again at any time: an eviction is named after the uid of its binding, and one that was refused before is
 * asked for again.
 */
export async function drainPlacements(
  hub: KubeClient,
  { name, wait, timeoutMs }: PlacementDrainOptions,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<PlacementDrain[]> {
  const bound = await boundTo(hub, name, signal);
  for (const it of bound) await requestEviction(hub, it, signal);
  if (!wait)
    return bound.map((it) => ({
      ...named(it),
      outcome: "Requested",
      message: "the hub decides on the eviction",
    }));
  const untilMs = deps.clock.monotonic() + timeoutMs;
  const waiting = { hub, deps, signal, leftMs: () => Math.max(1, untilMs - deps.clock.monotonic()) };
  const results: PlacementDrain[] = [];
  for (const it of bound) results.push(await outcomeOf(it, waiting));
  return results;
}

/** Placements that a drain would evict, as far as disruption budgets allow. */
export async function placementsOn(
  hub: KubeClient,
  cluster: string,
  signal: AbortSignal,
): Promise<PlacementDrain[]> {
  const bound = await boundTo(hub, cluster, signal);
  return bound.map((it) => ({
    ...named(it),
    outcome: "Bound",
    message: "as far as disruption budgets allow",
  }));
}

async function boundTo(hub: KubeClient, cluster: string, signal: AbortSignal): Promise<Bound[]> {
  const found = await Promise.all(
    SCOPES.map(async (scope) =>
      (await listOrNone(hub, scope.bindings, { signal }))
        .filter((it) => it.spec.targetCluster === cluster)
        .map((binding) => ({ scope, binding })),
    ),
  );
  return found.flat().toSorted((a, b) => byText(placementOf(a.binding), placementOf(b.binding)));
}

function named({ scope: { kind }, binding }: Bound): Pick<PlacementDrain, "kind" | "placement"> {
  return { kind, placement: placementOf(binding) };
}
function placementOf({ metadata: { namespace, labels } }: ResourceBinding): string {
  return objectKey(namespace, labels?.[PARENT_PLACEMENT_LABEL] ?? "");
}

function evictionOf({ binding: { metadata, spec } }: Bound): PlacementEviction {
  return {
    metadata: {
      name: `drain-${spec.targetCluster}-${metadata.uid ?? ""}`,
      ...defined({ namespace: metadata.namespace }),
    },
    spec: {
      placementName: metadata.labels?.[PARENT_PLACEMENT_LABEL] ?? "",
      clusterName: spec.targetCluster,
    },
  };
}

async function requestEviction(hub: KubeClient, bound: Bound, signal: AbortSignal): Promise<void> {
  if (isDeleting(bound.binding)) return;
  const { evictions } = bound.scope;
  const wanted = evictionOf(bound);
  const before = await hub.find(evictions, keyOf(wanted), { signal });
  if (before !== undefined && verdictOf(before)?.outcome !== "Refused") return;
  if (before !== undefined)
    await hub.delete(evictions, keyOf(wanted), { signal, ...defined({ uid: before.metadata.uid }) });
  try {
    await hub.create(evictions, wanted, { signal });
  } catch (error) {
    // Another drain of the same cluster.
    if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
  }
}

/** An eviction is decided once. Undefined until then. */
function verdictOf(
  eviction: PlacementEviction | undefined,
): Pick<PlacementDrain, "outcome" | "message"> | undefined {
  const conditions = eviction?.status?.conditions;
  const valid = findCondition(conditions, "Valid");
  if (valid?.status === "False") return { outcome: "Invalid", message: valid.message };
  const executed = findCondition(conditions, "Executed");
  if (executed === undefined) return undefined;
  return { outcome: executed.status === "True" ? "Evicted" : "Refused", message: executed.message };
}

interface Waiting {
  readonly hub: KubeClient;
  readonly deps: RuntimeDeps;
  readonly signal: AbortSignal;
  readonly leftMs: () => number;
}

async function outcomeOf(bound: Bound, waiting: Waiting): Promise<PlacementDrain> {
  const { scope, binding } = bound;
  const verdict = isDeleting(binding)
    ? ({ outcome: "Evicted", message: "The resources of the placement are already being removed" } as const)
    : await untilThen(waiting, scope.evictions, keyOf(evictionOf(bound)), verdictOf);
  if (verdict === undefined)
    return { ...named(bound), outcome: "Requested", message: "the hub has not decided on the eviction" };
  if (verdict.outcome !== "Evicted") return { ...named(bound), ...verdict };
  const isGone = await untilThen(waiting, scope.bindings, keyOf(binding), (it) =>
    it?.metadata.uid === binding.metadata.uid ? undefined : true,
  );
  return { ...named(bound), ...verdict, ...(isGone === true ? { outcome: "Removed" } : {}) };
}

/** @returns What `read` says first; undefined if it says nothing in time. */
async function untilThen<T extends KubeObject, R>(
  { hub, deps, signal, leftMs }: Waiting,
  of: Resource<T>,
  key: ObjectKey,
  read: (object: T | undefined) => R | undefined,
): Promise<R | undefined> {
  const options = { of, key, timeoutMs: leftMs(), until: (it: T | undefined) => read(it) !== undefined };
  try {
    return read(await waitFor(hub, { ...options, message: () => `${of.kind} ${key}` }, deps, signal));
  } catch (error) {
    if (hasCode(error, "TIMED_OUT")) return undefined;
    throw error;
  }
}
