import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { WORK_FINALIZER } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { Placement, ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type ApplicableOverrides, completeStrategy, planRollout } from "#placement/rollout/plan.ts";
import type { ScopeInformers } from "../informers.ts";
import { overridesOf } from "../overrides/of-cluster.ts";
import type { RolloutParts } from "../parts.ts";
import { latestSnapshot } from "./latest.ts";

/**
 * The first bindings of a placement as they are created: with its resources, if these are known already, which saves a write for
 * each. Of later ones the rollout decides when they are due.
 */
export async function withFirstResources(
  parts: Pick<RolloutParts, "contents" | "deps" | "informers" | "members">,
  scope: ScopeInformers,
  { placement, bindings }: { readonly placement: Placement; readonly bindings: readonly ResourceBinding[] },
  signal: AbortSignal,
): Promise<readonly ResourceBinding[]> {
  if (placement.spec.strategy?.type === "External") return bindings;
  const snapshot = latestSnapshot(scope, keyOf(placement));
  if (snapshot === undefined) return bindings;
  const { name } = snapshot.metadata;
  const { roll } = planRollout({
    placement,
    snapshot: name,
    bindings,
    overridesOf: await overridesOf(parts, scope, snapshot, signal),
    nowMs: parts.deps.clock.now(),
  });
  const rolled = new Map(roll.map((it) => [it.binding, it.overrides]));
  return bindings.map((it) => {
    const overrides = rolled.get(it);
    return overrides === undefined ? it : bound(it, name, overrides, placement);
  });
}

function bound(
  { metadata, spec }: ResourceBinding,
  resourceSnapshotName: string,
  overrides: ApplicableOverrides,
  placement: Placement,
): ResourceBinding {
  const given = Object.entries(overrides).filter(([, names]) => names.length > 0);
  return {
    metadata: { ...metadata, finalizers: [...(metadata.finalizers ?? []), WORK_FINALIZER] },
    spec: {
      ...spec,
      state: "Bound",
      resourceSnapshotName,
      ...Object.fromEntries(given),
      applyStrategy: completeStrategy(placement.spec.strategy?.applyStrategy),
    },
  };
}
