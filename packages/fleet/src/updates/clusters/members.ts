import { firstUid } from "#domain/first-uid.ts";
import { defined } from "@fairlead/base/defined.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import type {
  ClusterUpgradeStatus,
  HealthCheck,
  MemberUpdateStatus,
  UpdateRun,
  UpgradeTarget,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { decideComponents, isStuck, missingComponents, previousComponents } from "./components.ts";
import { collectRollback, failMember, isReportAwaited, previousOf } from "./failure.ts";
import { judge, measurementsOf } from "./judge.ts";
import { releasesIn, type UpdateMember } from "./fleet.ts";
import { chooseImages, familiesOf } from "./images.ts";
import { windowAt, type WindowState } from "./schedule.ts";
import { checkPrograms } from "./support-rules.ts";
import { isAtTarget, missingOf } from "./target.ts";
import { checkVersion, isNewer } from "./version-rules.ts";
import { bounded, type ClusterState, fail, isKnown, type Observed, setState, type Walk } from "./walk.ts";

/** Decisions about one member: whether its upgrade begins, and how it ended. */

export type Decision =
  | { readonly is: "begin"; readonly target: UpgradeTarget }
  | { readonly is: "skip"; readonly message: string }
  | { readonly is: "wait"; readonly message: string; readonly untilMs?: number }
  | { readonly is: "fail"; readonly code: string; readonly message: string };

export function operationIdOf(run: UpdateRun, attempt: number): string {
  return `${firstUid(run) ?? run.metadata.name}-${attempt}`;
}

export function windowOf(walk: Walk, member: UpdateMember | undefined): WindowState {
  const { type } = walk.run.spec.managedClusterUpdate.upgrade;
  const schedules = member?.schedules;
  return windowAt(type === "NodeImageOnly" ? schedules?.nodeOS : schedules?.kubernetes, walk.facts.nowMs);
}

export function checkOf({ status }: Pick<Walk, "status">, stage: string): HealthCheck | undefined {
  return status.strategy?.stages.find((it) => it.name === stage)?.health;
}

/** Whether a stage judges its members by measurements that one does not report yet. */
export function lacksMeasurements(walk: Walk, stage: string, observed: Observed): boolean {
  const isJudged = checkOf(walk, stage) !== undefined;
  return isJudged && isKnown(observed) && observed.measurements === undefined;
}

/** Whether a member whose turn it is can begin. */
export function decide(walk: Walk, name: string, stage: string): Decision {
  const member = walk.facts.members.get(name);
  if (member === undefined) return { is: "skip", message: "the member has left the fleet" };
  if (!hasEngine(walk, member))
    return {
      is: "fail",
      code: "NoUpgrader",
      message: "no engine is configured: set annotation fairlead.dev/upgrader of the MemberCluster",
    };
  const observed = walk.facts.observe(name);
  if (observed === undefined) return { is: "wait", message: "the state of the cluster is not known yet" };
  if (!isKnown(observed)) return { is: "wait", message: observed.problem };
  const { type, componentsVersion: wanted } = walk.run.spec.managedClusterUpdate.upgrade;
  const decision =
    wanted === undefined
      ? (decideVersion(walk, member, observed) ?? decideUpgrade(walk, member, observed))
      : (decideComponents(walk, member, observed, wanted) ??
        decideTurn(walk, member, observed, { type, componentsVersion: wanted }));
  if (decision.is !== "begin" || !lacksMeasurements(walk, stage, observed)) return decision;
  return { is: "wait", message: "the member reports no measurements yet" };
}

/** Our own programs need none. */
export function hasEngine({ run }: Walk, member: UpdateMember | undefined): boolean {
  return member?.upgrader !== undefined || run.spec.managedClusterUpdate.upgrade.type === "Components";
}

/** Of a member whose version permits the upgrade. */
function decideUpgrade(walk: Walk, member: UpdateMember, observed: ClusterState): Decision {
  const { type, kubernetesVersion } = walk.run.spec.managedClusterUpdate.upgrade;
  const images = decideImages(walk, member, observed);
  if (images.is !== "images") return images;
  const target: UpgradeTarget = {
    type,
    ...defined({ kubernetesVersion }),
    ...(images.images.length === 0 ? {} : { nodeImages: [...images.images] }),
  };
  if (isAtTarget(observed, target) || isNewer(observed.kubernetesVersion, kubernetesVersion))
    return { is: "skip", message: "the cluster is already at the target version and images" };
  return decideSupport(walk, member, observed) ?? decideTurn(walk, member, observed, target);
}

/** Whether the upgrade can begin now. */
function decideTurn(
  walk: Walk,
  member: UpdateMember,
  { operation }: ClusterUpgradeStatus,
  target: UpgradeTarget,
): Decision {
  const isOther = operation?.state === "Running" && operation.id !== operationIdOf(walk.run, walk.attempt);
  if (isOther)
    return { is: "wait", message: `another upgrade of the cluster is in progress: ${operation.id}` };
  return decideWindow(walk, member) ?? { is: "begin", target };
}

/** @returns Undefined if the version permits the upgrade. */
function decideVersion(
  walk: Walk,
  member: UpdateMember,
  { kubernetesVersion: from }: ClusterUpgradeStatus,
): Decision | undefined {
  const { kubernetesVersion: wanted } = walk.run.spec.managedClusterUpdate.upgrade;
  if (wanted === undefined) return undefined;
  const { hasLongTermSupport } = member;
  const { kubernetes: releases } = releasesIn(walk.facts.catalogs, member.region);
  return checkVersion({ from, wanted, releases, hasLongTermSupport, region: regionOf(member) });
}

/** @returns Undefined if our own programs support the version. */
function decideSupport(
  { run, facts }: Walk,
  member: UpdateMember,
  { components: installed = member.profile?.version }: ClusterState,
): Decision | undefined {
  const { kubernetesVersion: wanted } = run.spec.managedClusterUpdate.upgrade;
  if (wanted === undefined) return undefined;
  const { components } = releasesIn(facts.catalogs, member.region);
  return checkPrograms(wanted, member, { hub: facts.hub, components, installed });
}

function regionOf({ region }: UpdateMember): string {
  return region === undefined ? "the member's region" : `region ${region}`;
}

function decideImages(walk: Walk, member: UpdateMember, observed: ClusterUpgradeStatus) {
  const { managedClusterUpdate: update } = walk.run.spec;
  if (update.upgrade.type === "ControlPlaneOnly") return { is: "images", images: [] } as const;
  return chooseImages({
    update,
    selected: walk.status.nodeImageSelection?.selectedNodeImageVersions.map((it) => it.version) ?? [],
    families: familiesOf(observed.nodes),
    releases: releasesIn(walk.facts.catalogs, member.region),
    region: regionOf(member),
  });
}

function decideWindow(walk: Walk, member: UpdateMember): Decision | undefined {
  const window = windowOf(walk, member);
  if (window.is === "unreadable")
    return {
      is: "wait",
      message: "the annotation with the maintenance windows of the MemberCluster cannot be read",
    };
  if (window.is !== "closed") return undefined;
  const opens = timestamp(window.opensAtMs);
  return {
    is: "wait",
    message: `the maintenance window is closed; it opens at ${opens}`,
    untilMs: window.opensAtMs,
  };
}

/** Carries out a decision, for a member that is not being upgraded. */
export function follow(
  walk: Walk,
  member: MemberUpdateStatus,
  decision: Decision,
  check: HealthCheck | undefined,
): void {
  delete member.message;
  if (decision.is === "begin") {
    delete member.status.startTime;
    setState(walk, member.status, "Running");
    Object.assign(member, {
      target: decision.target,
      attempt: walk.attempt,
      operationId: operationIdOf(walk.run, walk.attempt),
    });
    delete member.engineEndTime;
    delete member.unhealthySince;
    delete member.rollback;
    const observed = walk.facts.observe(member.name);
    if (!isKnown(observed)) return;
    if (check?.onFailure === "Rollback") member.previous = previousIn(walk, member, observed);
    if (observed.measurements !== undefined)
      member.before = measurementsOf(
        observed.measurements,
        check === undefined ? undefined : walk.facts.flows?.(member.name, check.flows),
      );
    return;
  }
  delete member.probedSince;
  if (decision.is === "fail") {
    fail(walk, member.status, decision.code, decision.message);
    member.attempt = walk.attempt;
  } else {
    setState(walk, member.status, decision.is === "skip" ? "Skipped" : "Pending");
    member.message = bounded(decision.message);
    if (decision.is === "wait" && decision.untilMs !== undefined) walk.again(decision.untilMs);
  }
}

/** Of a member whose upgrade begins. */
function previousIn(walk: Walk, member: MemberUpdateStatus, observed: ClusterState): UpgradeTarget {
  const { target = { type: "Full" } } = member;
  return previousComponents(walk, member, observed) ?? previousOf(observed, target);
}

/** What became of a member that is being upgraded. */
export function collect(walk: Walk, member: MemberUpdateStatus, check: HealthCheck | undefined): void {
  if (member.status.state !== "Running") return;
  const observed = walk.facts.observe(member.name);
  delete member.message;
  const left = leftDuring(walk, member);
  if (left !== undefined) return fail(walk, member.status, "MemberLeft", left);
  if (observed === undefined) return;
  if (!isKnown(observed)) return void (member.message = bounded(observed.problem));
  const { operation } = observed;
  if (member.rollback !== undefined) collectRollback(walk, member, observed);
  else if (operation !== undefined && operation.id === member.operationId)
    conclude(walk, member, { ...observed, operation }, check);
  if (member.status.state !== "Running") delete member.probedSince;
}

function leftDuring({ facts }: Walk, { name, target }: MemberUpdateStatus): string | undefined {
  const found = facts.members.get(name);
  if (found === undefined) return "the member left the fleet during its upgrade";
  return target?.type === "Components" && found.profile === undefined
    ? "the member left its ClusterMeshProfile during its upgrade"
    : undefined;
}

function conclude(
  walk: Walk,
  member: MemberUpdateStatus,
  observed: ClusterUpgradeStatus & Required<Pick<ClusterUpgradeStatus, "operation">>,
  check: HealthCheck | undefined,
): void {
  const { state, message } = observed.operation;
  const failed = (code: string, why: string): void => failMember(walk, member, check, { code, message: why });
  if (state === "Failed") return failed("UpgradeFailed", message ?? "the engine reports no reason");
  if (state === "Running") {
    if (message !== undefined) member.message = bounded(message);
    if (isStuck(walk, member)) return failed("NodesNotReady", message ?? "");
    if (check !== undefined) judge(walk, member, check, { observed, phase: "during" });
    return;
  }
  concludeSuccess(walk, member, observed, check);
}

/** Of an engine that reports success. */
function concludeSuccess(
  walk: Walk,
  member: MemberUpdateStatus,
  observed: ClusterUpgradeStatus,
  check: HealthCheck | undefined,
): void {
  const missing = missingOf(observed, member.target ?? { type: "Full" }) ?? missingComponents(walk, member);
  if (missing !== undefined) {
    if (isReportAwaited(walk, member)) return;
    const message = `the engine reports success, but ${missing}`;
    return failMember(walk, member, check, { code: "TargetNotReached", message });
  }
  if (check === undefined) setState(walk, member.status, "Completed");
  else judge(walk, member, check, { observed, phase: "after" });
}
