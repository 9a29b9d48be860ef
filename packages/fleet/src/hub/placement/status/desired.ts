import type { Clock } from "@fairlead/base/clock.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { type NewCondition, setCondition } from "@fairlead/kube/objects/conditions.ts";
import { POLICY_INDEX_LABEL, RESOURCE_INDEX_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { Placement, ResourceIdentifier } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { identifierIn } from "#placement/selection/select.ts";
import { latestOf } from "#placement/snapshots/history.ts";
import { isMaster } from "#placement/snapshots/resources.ts";
import { bounded, type Report } from "#placement/status/bounds.ts";
import { isExternal, ownConditions, placementStatus } from "#placement/status/status.ts";
import { type ContentsCache, findSnapshot } from "../contents.ts";
import { OF_PLACEMENT, type ScopeInformers } from "../informers.ts";
import type { Outcome } from "../resources/outcomes.ts";

/** What is written of a status; what is undefined stays as it is. */
export interface OwnStatus extends Partial<Report> {
  readonly observedResourceIndex?: string;
  readonly conditions: readonly NewCondition[];
}

export async function desiredStatus(
  { contents }: { readonly contents: ContentsCache },
  of: ScopeInformers,
  {
    key,
    placement,
    outcome,
  }: { readonly key: ObjectKey; readonly placement: Placement; readonly outcome: Outcome },
  signal: AbortSignal,
): Promise<OwnStatus> {
  const { scope, policySnapshots, resourceSnapshots, bindings } = of;
  const prefix = scope.conditionPrefix;
  if (outcome.problem !== undefined)
    return { conditions: [invalidSelectors(placement, prefix, outcome.problem)] };
  const status = placementStatus({
    placement,
    prefix,
    policy: latestOf([...policySnapshots.store.byIndex(OF_PLACEMENT, key)], POLICY_INDEX_LABEL),
    snapshot: latestOf(
      [...resourceSnapshots.store.byIndex(OF_PLACEMENT, key)].filter(isMaster),
      RESOURCE_INDEX_LABEL,
    ),
    bindings: [...bindings.store.byIndex(OF_PLACEMENT, key)],
    resources: outcome.resources,
  });
  const { observedResourceIndex, conditions } = status;
  const isOther =
    isExternal(placement) && observedResourceIndex !== "" && status.selectedResources.length > 0;
  const selectedResources = isOther
    ? await resourcesOf(contents, of, { placement, index: observedResourceIndex }, signal)
    : status.selectedResources;
  return {
    ...bounded({ selectedResources, placementStatuses: status.placementStatuses }),
    observedResourceIndex,
    conditions,
  };
}

function invalidSelectors({ metadata }: Placement, prefix: string, message: string): NewCondition {
  return {
    type: `${prefix}Scheduled`,
    status: "False",
    observedGeneration: metadata.generation ?? 0,
    reason: "InvalidResourceSelectors",
    message,
  };
}

/** What a snapshot of a placement holds, which need not be what is selected now. */
async function resourcesOf(
  contents: ContentsCache,
  of: ScopeInformers,
  { placement, index }: { readonly placement: Placement; readonly index: string },
  signal: AbortSignal,
): Promise<ResourceIdentifier[]> {
  const { name, namespace } = placement.metadata;
  const snapshot = findSnapshot(of, namespace, `${name}-${index}-snapshot`);
  if (snapshot === undefined) return [];
  try {
    const { parts } = await contents.read(of, snapshot, { signal });
    return parts.flatMap((it) => it.resources.map(identifierIn));
  } catch (error) {
    if (hasCode(error, "API_NOT_FOUND")) return [];
    throw error;
  }
}

/** All conditions of the placement: those of others as they are, then ours in the order of the stages. */
export function nextConditions(
  placement: Placement,
  prefix: string,
  next: readonly NewCondition[],
  clock: Clock,
): Condition[] {
  const own = ownConditions(prefix);
  const before = placement.status?.conditions ?? [];
  const others = before.filter((it) => !own.has(it.type));
  const ours = next.map((it) =>
    setCondition<Condition>(before, it, clock).find(({ type }) => type === it.type),
  );
  return [...others, ...ours.filter((it) => it !== undefined)];
}
