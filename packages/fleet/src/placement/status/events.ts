import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { Placement } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** An Event of a placement, with the reasons of KubeFleet. */
export interface EventText {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

type Watched = Pick<Placement, "metadata" | "spec" | "status">;

/** The conditions after Scheduled, each with the message of its Event. */
const STEPS: Readonly<Record<string, string>> = {
  RolloutStarted: "the rollout of the latest resources has started",
  Overridden: "the overrides are applied",
  WorkSynchronized: "the Works of the selected clusters are up to date",
  Applied: "the resources are applied on the selected clusters",
  Available: "the resources are available on the selected clusters",
  DiffReported: "the differences on the selected clusters are reported",
};
/** Reasons where they are not "Placement" with the type. */
const REASONS: Readonly<Record<string, string>> = { Overridden: "PlacementOverriddenSucceeded" };
/** With the last of these a rollout is complete. */
const LAST = new Set(["Available", "DiffReported"]);

/** @param prefix - Of the types of conditions. */
export function eventsOfPlacement(before: Watched, after: Watched, prefix: string): EventText[] {
  const events = Object.entries(STEPS).flatMap(([type, message]): EventText[] => {
    if (isTrue(before, prefix + type) || !isTrue(after, prefix + type)) return [];
    const reason = REASONS[type] ?? `Placement${type}`;
    const completed = {
      type: "Normal",
      reason: "PlacementRolloutCompleted",
      message: "the placement is as it should be on all selected clusters",
    } as const;
    const isCompleted = LAST.has(type) && isTrue(after, `${prefix}Scheduled`);
    return [{ type: "Normal", reason, message }, ...(isCompleted ? [completed] : [])];
  });
  const [was, is] = [before, after].map((it) => currentCondition(it, `${prefix}Scheduled`));
  if (is?.status !== "False" || (was?.reason === is.reason && was.message === is.message)) return events;
  return [...events, { type: "Warning", reason: is.reason, message: is.message }];
}

/** Undefined while it is of an earlier generation. */
export function currentCondition({ metadata, status }: Watched, type: string): Condition | undefined {
  const found = findCondition(status?.conditions, type);
  return found?.observedGeneration === metadata.generation ? found : undefined;
}

function isTrue(of: Watched, type: string): boolean {
  return currentCondition(of, type)?.status === "True";
}
