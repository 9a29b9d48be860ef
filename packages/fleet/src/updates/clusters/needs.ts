import type { MemberUpdateStatus, UpdateRun } from "#api/fairlead.dev/v1alpha1/updates.ts";
import type { UpgradeOperation } from "../engines/upgrader.ts";
import { isFinal } from "./states.ts";

/** What a run needs to be known or done, from its status alone. */

/** Whether nothing more happens until a user changes the run. */
export function hasEnded({ spec, status }: UpdateRun): boolean {
  const state = status?.status.state ?? "NotStarted";
  const isNewAttempt = (spec.attempt ?? 1) > (status?.attempt ?? 0) && spec.state === "Run";
  return isFinal(state) || (state === "Failed" && !isNewAttempt);
}

/** The upgrades that are to be in progress, by member. */
export function operationsOf({ status }: UpdateRun): ReadonlyMap<string, UpgradeOperation> {
  const members = status?.stages.flatMap((stage) => stage.groups.flatMap((it) => it.members)) ?? [];
  return new Map(
    members.flatMap(({ name, status: { state }, operationId: id, target }) =>
      state === "Running" && id !== undefined && target !== undefined
        ? [[name, { id, target }] as const]
        : [],
    ),
  );
}

/** Whether the members of the current stages are judged by measurements. */
export function measures({ status }: UpdateRun): boolean {
  return status?.strategy?.stages.some((it) => it.health !== undefined) === true;
}

/** The members whose clusters the next step depends on: those of the current stage, or all before images are chosen for all. */
export function membersToObserve(run: UpdateRun): string[] {
  const { spec, status } = run;
  if (spec.state === undefined || spec.state === "Initialize" || status === undefined || hasEnded(run))
    return [];
  const { type } = spec.managedClusterUpdate.nodeImageSelection ?? {};
  const isForAll = type === "Consistent" && status.nodeImageSelection === undefined;
  const stages = status.stages.filter((it) => !isFinal(it.status.state));
  const needed: MemberUpdateStatus[] = stages
    .slice(0, isForAll ? stages.length : 1)
    .flatMap((stage) => stage.groups.flatMap((it) => it.members));
  return needed.filter((it) => !isFinal(it.status.state)).map((it) => it.name);
}
