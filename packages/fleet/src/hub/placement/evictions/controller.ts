import { defined } from "@fairlead/base/defined.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import { findCondition, type NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import { writeConditions } from "@fairlead/kube/objects/write-conditions.ts";
import type { Controller } from "@fairlead/kube/types.ts";
import { PARENT_PLACEMENT_LABEL, PLACEMENT_MANAGER } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { PlacementEviction } from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import { type EvictionVerdict, planEviction } from "#placement/evictions/plan.ts";
import type { ScopeInformers } from "../informers.ts";
import { type RolloutParts, scopeOfKey } from "../parts.ts";
import type { PlacementScope } from "#api/placement.kubernetes-fleet.io/scopes.ts";

type Parts = Pick<RolloutParts, "client" | "deps" | "informers">;

/** Carries out evictions, each once. Keys are evictions of both scopes. */
export function createEvictions(parts: Parts): Controller {
  const evictions = new Evictions(parts);
  const { cluster, namespaced } = parts.informers;
  return createController(
    {
      name: "hub-evictions",
      // One after another: the budget of the second counts what the first evicted.
      concurrency: 1,
      reconcile: (key, signal) => evictions.reconcile(key, signal),
      sources: [watching(cluster.evictions), watching(namespaced.evictions)],
    },
    parts.deps,
  );
}

class Evictions {
  readonly #parts: Parts;
  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { scope, evictions }: ScopeInformers = scopeOfKey(this.#parts.informers, key);
    const eviction = evictions.store.get(key);
    if (eviction === undefined || isDeleting(eviction) || isDecided(eviction)) return;
    const verdict = await this.#judge(scope, eviction, signal);
    if (verdict.kind !== "evict") {
      await this.#report(scope, eviction, verdict, signal);
      return;
    }
    // Before the deletion, so that a pass after a crash knows that the eviction was under way.
    const marked = await this.#report(scope, eviction, { kind: "evict" }, signal);
    const { uid } = verdict.binding.metadata;
    const { client } = this.#parts;
    await client.delete(scope.bindings, keyOf(verdict.binding), { signal, ...defined({ uid }) });
    if (marked !== undefined)
      await this.#report(scope, marked, { kind: "executed", message: verdict.message }, signal);
  }

  /** From the API server: the verdict is final, and a watch may lag behind. */
  async #judge(
    scope: PlacementScope,
    { metadata: { namespace }, spec, status }: PlacementEviction,
    signal: AbortSignal,
  ): Promise<EvictionVerdict> {
    const { client } = this.#parts;
    const key = objectKey(namespace, spec.placementName);
    const placement = await client.find(scope.placements, key, { signal });
    if (placement === undefined)
      return planEviction({ cluster: spec.clusterName, placement, bindings: [], budget: undefined });
    const { items } = await client.list(scope.bindings, {
      ...defined({ namespace }),
      labelSelector: `${PARENT_PLACEMENT_LABEL}=${spec.placementName}`,
      signal,
    });
    const validAt = findCondition(status?.conditions, "Valid")?.lastTransitionTime;
    const evicted = items.find((it) => it.spec.targetCluster === spec.clusterName);
    // The binding that was judged is gone. One of a later time is not meant: the scheduler has picked the cluster again.
    if (validAt !== undefined && (evicted?.metadata.creationTimestamp ?? "9") > validAt)
      return { kind: "executed", message: "The resources of the placement were removed from the cluster" };
    return planEviction({
      cluster: spec.clusterName,
      placement,
      bindings: items,
      budget: await client.find(scope.budgets, key, { signal }),
    });
  }

  async #report(
    scope: PlacementScope,
    eviction: PlacementEviction,
    verdict: { readonly kind: EvictionVerdict["kind"]; readonly message?: string },
    signal: AbortSignal,
  ): Promise<PlacementEviction | undefined> {
    try {
      return await writeConditions(this.#parts.client, scope.evictions, {
        object: eviction,
        own: new Set(["Valid", "Executed"]),
        next: conditionsOf(`${scope.conditionPrefix}Eviction`, verdict),
        fieldManager: PLACEMENT_MANAGER,
        clock: this.#parts.deps.clock,
        signal,
      });
    } catch (error) {
      ignoreNotFound(error);
      return undefined;
    }
  }
}

function isDecided({ status }: PlacementEviction): boolean {
  return (
    findCondition(status?.conditions, "Valid")?.status === "False" ||
    findCondition(status?.conditions, "Executed") !== undefined
  );
}

function conditionsOf(
  reason: string,
  { kind, message = "" }: { readonly kind: EvictionVerdict["kind"]; readonly message?: string },
): NewCondition[] {
  if (kind === "invalid") return [{ type: "Valid", status: "False", reason: `${reason}Invalid`, message }];
  const valid: NewCondition = {
    type: "Valid",
    status: "True",
    reason: `${reason}Valid`,
    message: "The placement is on the cluster",
  };
  if (kind === "evict") return [valid];
  return kind === "executed"
    ? [valid, { type: "Executed", status: "True", reason: `${reason}Executed`, message }]
    : [valid, { type: "Executed", status: "False", reason: `${reason}NotExecuted`, message }];
}
