import type { MemberUpdateStatus, UpdateRun } from "#api/fairlead.dev/v1alpha1/updates.ts";
import type { UpgradeOperation } from "../engines/upgrader.ts";
import { rollbackOf, UNHEALTHY } from "./failure.ts";
import { isFinal } from "./states.ts";

/** What a run needs to be known or done, from its status alone. */

/** Whether nothing more happens until a user changes the run. */
export function hasEnded({ spec, status }: UpdateRun): boolean {
  const state = status?.status.state ?? "NotStarted";
  const isNewAttempt = (spec.attempt ?? 1) > (status?.attempt ?? 0) && spec.state === "Run";
  return isFinal(state) || (state === "Failed" && !isNewAttempt);
}

/** What engines are to do, by member: upgrades and rollbacks, and the end of upgrades whose members have failed. */
export function operationsOf({ status }: UpdateRun): ReadonlyMap<string, UpgradeOperation> {
  const members = status?.stages.flatMap((stage) => stage.groups.flatMap((it) => it.members)) ?? [];
  return new Map(
    members.flatMap((it) => {
      const operation = operationOf(it, status?.attempt);
      return operation === undefined ? [] : [[it.name, operation] as const];
    }),
  );
}

function operationOf(member: MemberUpdateStatus, attempt: number | undefined): UpgradeOperation | undefined {
  const { status, operationId: id, target } = member;
  if (id === undefined || target === undefined) return undefined;
  if (status.state === "Running") return rollbackOf(member) ?? { id, target };
  // Engines of members that failed otherwise have ended. Our own programs have none, and are installed on and on.
  const isToStop =
    status.state === "Failed" &&
    (status.error?.code === UNHEALTHY || target.type === "Components") &&
    member.engineEndTime === undefined &&
    member.rollback === undefined &&
    member.attempt === attempt;
  return isToStop ? { id, target, stop: true } : undefined;
}

/** Whether a run has an operation in progress in a member. */
export function carriesOut(run: UpdateRun, member: string, operation: string): boolean {
  return isUnderWay(operationsOf(run).get(member), operation);
}

function isUnderWay(operation: UpgradeOperation | undefined, id: string): boolean {
  return operation?.id === id && operation.stop !== true;
}

/** The members in which upgrades that a run had in progress are no longer: they have ended, or the run is gone. */
export function endedOperations(before: UpdateRun | undefined, after: UpdateRun | undefined): string[] {
  if (before === undefined) return [];
  const now = after === undefined ? undefined : operationsOf(after);
  return [...operationsOf(before)]
    .filter(([member, { id }]) => !isUnderWay(now?.get(member), id))
    .map(([member]) => member);
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
