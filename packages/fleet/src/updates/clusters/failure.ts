import { defined } from "@fairlead/base/defined.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import type {
  ClusterUpgradeStatus,
  HealthCheck,
  MemberUpdateStatus,
  UpgradeTarget,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { EXTERNAL_ENGINE, type UpgradeOperation } from "../engines/upgrader.ts";
import { rollbackProblem } from "../engines/rollback.ts";
import { parseImage } from "./versions.ts";
import { missingOf } from "./target.ts";
import { bounded, fail, type Walk } from "./walk.ts";

/** Members whose upgrade failed: what their engines are to do then. */

/** The code of the error of a member that broke a rule of its health check. */
export const UNHEALTHY = "Unhealthy";

/** A rollback that takes longer has failed. Unit: milliseconds. */
const ROLLBACK_MS = 3_600_000;

/** A member reads its versions twice in that time. Unit: milliseconds. */
const REPORT_MS = 60_000;

interface Reason {
  readonly code: string;
  readonly message: string;
}

/** What a cluster has of what an upgrade changes. Versions have a build where that of the upgrade has one. */
export function previousOf(
  { kubernetesVersion: version, nodes = [] }: ClusterUpgradeStatus,
  { type, kubernetesVersion: wanted = "", nodeImages = [] }: UpgradeTarget,
): UpgradeTarget {
  const kubernetesVersion = wanted.includes("+") ? version : version?.split("+", 1)[0];
  const families = new Map(nodeImages.map((it) => [parseImage(it).family, new Set<string>()]));
  for (const { image } of nodes) if (image !== undefined) families.get(parseImage(image).family)?.add(image);
  // Of a family with several the first: nodes get one version each.
  const images = [...families.values()].flatMap((it) => [...it].toSorted().slice(0, 1));
  return {
    type,
    ...(type === "NodeImageOnly" ? {} : defined({ kubernetesVersion })),
    ...(images.length === 0 ? {} : { nodeImages: images }),
  };
}

/** Ends the upgrade of a member, or leads it back first. */
export function failMember(
  walk: Walk,
  member: MemberUpdateStatus,
  check: HealthCheck | undefined,
  { code, message }: Reason,
): void {
  const { previous } = member;
  if (check?.onFailure !== "Rollback" || previous === undefined)
    return fail(walk, member.status, code, message);
  const startTime = timestamp(walk.facts.nowMs);
  const reason = { code, message: bounded(message) };
  const problem = backProblem(walk, member.name, previous.type);
  member.rollback = { state: "Running", startTime, reason };
  delete member.engineEndTime;
  delete member.unhealthySince;
  if (problem !== undefined) return end(walk, member, "Failed", problem);
  member.message = bounded(`is rolled back: ${message}`);
}

/** Why an upgrade of this type cannot be led back, as far as is known before; undefined: it may. Our own programs need no engine. */
export function backProblem({ facts }: Walk, name: string, type: UpgradeTarget["type"]): string | undefined {
  return type === "Components" ? undefined : rollbackProblem(facts.members.get(name)?.upgrader ?? "");
}

/**
 * Whether a member may not have reported yet what its engine says it has done: an external one reports for itself, and the member
 * looks afterwards.
 */
export function isReportAwaited(walk: Walk, member: MemberUpdateStatus): boolean {
  const { members, nowMs } = walk.facts;
  if (members.get(member.name)?.upgrader !== EXTERNAL_ENGINE) return false;
  member.engineEndTime ??= timestamp(nowMs);
  const untilMs = Date.parse(member.engineEndTime) + REPORT_MS;
  if (nowMs >= untilMs) return false;
  walk.again(untilMs);
  return true;
}

/** What became of the rollback of a member. */
export function collectRollback(
  walk: Walk,
  member: MemberUpdateStatus,
  observed: ClusterUpgradeStatus,
): void {
  const { rollback, previous } = member;
  const operation = rollbackOf(member);
  if (rollback === undefined || previous === undefined || operation === undefined) return;
  member.message = bounded(`is rolled back: ${rollback.reason.message}`);
  const { id, state = "Running", message } = observed.operation ?? {};
  if (id !== operation.id || state === "Running") return awaitRollback(walk, member, rollback.startTime);
  if (state === "Failed" && isReportOld(walk, member)) return;
  if (state === "Failed") return end(walk, member, "Failed", message ?? "the engine reports no reason");
  endRollback(walk, member, missingOf(observed, previous));
}

function awaitRollback(walk: Walk, member: MemberUpdateStatus, startTime: string): void {
  const untilMs = Date.parse(startTime) + ROLLBACK_MS;
  if (walk.facts.nowMs >= untilMs) end(walk, member, "Failed", "it did not end within an hour");
  else walk.again(untilMs);
}

/** Members report on their programs by version, not by operation: what they said of the version that failed may be there still. */
function isReportOld(walk: Walk, { previous, rollback }: MemberUpdateStatus): boolean {
  if (previous?.type !== "Components") return false;
  const untilMs = Date.parse(rollback?.startTime ?? "") + REPORT_MS;
  if (walk.facts.nowMs >= untilMs) return false;
  walk.again(untilMs);
  return true;
}

function endRollback(walk: Walk, member: MemberUpdateStatus, missing: string | undefined): void {
  if (missing === undefined) end(walk, member, "Succeeded", undefined);
  else if (!isReportAwaited(walk, member)) end(walk, member, "Failed", missing);
}

function end(
  walk: Walk,
  member: MemberUpdateStatus,
  state: "Succeeded" | "Failed",
  message: string | undefined,
): void {
  const { rollback } = member;
  if (rollback === undefined) return;
  member.rollback = { ...rollback, state, ...(message === undefined ? {} : { message: bounded(message) }) };
  delete member.message;
  fail(walk, member.status, rollback.reason.code, rollback.reason.message);
}

/** The operation by which a member is led back; undefined if it is not. */
export function rollbackOf({
  operationId,
  previous,
  rollback,
}: MemberUpdateStatus): UpgradeOperation | undefined {
  if (rollback === undefined || operationId === undefined || previous === undefined) return undefined;
  return { id: rollbackIdOf(operationId), target: previous, rollback: true };
}

export function rollbackIdOf(operationId: string): string {
  return `${operationId}-rollback`;
}
