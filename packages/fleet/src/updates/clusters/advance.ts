import { cloneJson } from "@fairlead/base/json.ts";
import { defined } from "@fairlead/base/defined.ts";
import type {
  MemberUpdateStatus,
  RunOutcome,
  StateCounts,
  StrategySpec,
  UpdateRun,
  UpdateRunStatus,
  UpdateState,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { releasesIn } from "./fleet.ts";
import { consistentImages, familiesOf } from "./images.ts";
import { checkOf, collect } from "./members.ts";
import { planRun } from "./plan.ts";
import { advanceStage, countFailures, rollUpSkipped } from "./segments.ts";
import { endFuture, followClock } from "./set-back.ts";
import { applySkips } from "./skips.ts";
import { isFinal } from "./states.ts";
import { fail, type Facts, isKnown, setState, type Walk } from "./walk.ts";

export interface Advanced {
  readonly status: UpdateRunStatus;
  /** When something is due although nothing changes. */
  readonly againAtMs: number | undefined;
}

/**
 * The next status of a run, from its spec, its last status and what is known of the fleet. Pure, and the same if nothing
 * changed: what has to be done (upgrades of Running members, Gates) follows from the status alone.
 *
 * @param strategy - The UpdateStrategy that the run names; read before the run starts only.
 */
export function advance(run: UpdateRun, strategy: StrategySpec | undefined, facts: Facts): Advanced {
  const before = run.status;
  const isStarted = before?.status.startTime !== undefined;
  const status = isStarted ? cloneJson(before) : planned(run, strategy, facts);
  followClock(status, facts.jumpMs ?? 0);
  endFuture(status, facts.nowMs);
  let againAtMs: number | undefined;
  const walk: Walk = {
    run,
    status,
    attempt: attemptOf(run, status),
    isStopping: run.spec.state === "Stop",
    facts,
    again: (atMs) => (againAtMs = Math.min(againAtMs ?? atMs, atMs)),
  };
  if (run.metadata.generation !== undefined) status.observedGeneration = run.metadata.generation;
  if (!isStarted && run.spec.state === "Run" && status.status.error === undefined)
    setState(walk, status.status, "Running");
  if (status.status.startTime !== undefined) proceed(walk);
  status.failureCount = status.stages.reduce((sum, it) => sum + it.failureCount, 0);
  status.counts = countStates(status);
  const rolledBack = [...members(status)].filter((it) => it.rollback?.state === "Succeeded").length;
  if (rolledBack > 0) status.rolledBack = rolledBack;
  else delete status.rolledBack;
  return { status, againAtMs };
}

/** Only a request to run begins another attempt. */
function attemptOf({ spec }: UpdateRun, { attempt = 1 }: UpdateRunStatus): number {
  return spec.state === "Run" ? Math.max(spec.attempt ?? 1, attempt) : attempt;
}

/** The strategy of a run that names one is copied when it is seen first. */
function planned(
  { spec, status }: UpdateRun,
  named: StrategySpec | undefined,
  facts: Facts,
): UpdateRunStatus {
  const { updateStrategyName: strategyName } = spec;
  const copied = status?.strategyName === strategyName ? status?.strategy : undefined;
  const strategy = spec.strategy ?? (strategyName === undefined ? undefined : (copied ?? named));
  const isMissing = strategyName !== undefined && strategy === undefined;
  const { stages, membersInNoGroup, problems } = isMissing
    ? { stages: [], membersInNoGroup: [], problems: [`UpdateStrategy ${strategyName} does not exist`] }
    : planRun(strategy, [...facts.members.values()]);
  const error = { code: "StrategyInvalid", message: problems.join("; ") };
  return {
    status: { state: "NotStarted", ...(problems.length === 0 ? {} : { error }) },
    stages,
    failureCount: 0,
    ...defined({ strategy, strategyName: strategy === undefined ? undefined : strategyName }),
    ...(membersInNoGroup.length === 0 ? {} : { membersInNoGroup }),
  };
}

function proceed(walk: Walk): void {
  const { status, run } = walk;
  const { state } = status.status;
  const isNewAttempt = walk.attempt > (status.attempt ?? 0);
  if (isFinal(state) || (state === "Failed" && !isNewAttempt)) return;
  if (isNewAttempt) beginAttempt(walk);
  collectAll(walk);
  applySkips(walk);
  for (const it of status.stages) rollUpSkipped(walk, it);
  if (selectImages(walk)) advanceStages(walk);
  for (const it of status.stages) countFailures(walk, it);
  rollUp(walk);
  if (run.spec.state === "Run") status.attempt = walk.attempt;
}

function collectAll(walk: Walk): void {
  for (const stage of walk.status.stages) {
    const check = checkOf(walk, stage.name);
    for (const group of stage.groups) for (const it of group.members) collect(walk, it, check);
  }
}

/** One after another. */
function advanceStages(walk: Walk): void {
  for (const stage of walk.status.stages) {
    advanceStage(walk, stage);
    if (!isFinal(stage.status.state)) return;
  }
}

/** What failed is tried again. */
function beginAttempt(walk: Walk): void {
  delete walk.status.outcome;
  for (const stage of walk.status.stages)
    for (const it of [stage, ...stage.groups])
      if (it.status.state === "Failed") setState(walk, it.status, "Running");
}

/** Chooses the node images of a run with consistent ones. @returns Whether that is done. */
function selectImages({ run, status, facts, isStopping }: Walk): boolean {
  const { upgrade, nodeImageSelection } = run.spec.managedClusterUpdate;
  const isNeeded = nodeImageSelection?.type === "Consistent" && upgrade.type !== "ControlPlaneOnly";
  delete status.message;
  if (!isNeeded || status.nodeImageSelection !== undefined || isStopping) return true;
  const users = [...members(status)]
    .filter((it) => !isFinal(it.status.state))
    .flatMap(({ name, ...member }) => {
      const found = facts.members.get(name);
      if (found?.upgrader === undefined) return [];
      const observed = facts.observe(name);
      const families = isKnown(observed) ? familiesOf(observed.nodes) : undefined;
      return [{ member, families, releases: releasesIn(facts.catalogs, found.region) }];
    });
  const known = users.flatMap(({ families, releases }) =>
    families === undefined ? [] : [{ families, releases }],
  );
  if (known.length < users.length) {
    status.message = `the node images of ${users.length - known.length} members are not known yet`;
    status.status.state = "Pending";
    return false;
  }
  status.nodeImageSelection = {
    selectedNodeImageVersions: consistentImages(known).map((version) => ({ version })),
  };
  return true;
}

function rollUp(walk: Walk): void {
  const { status, isStopping } = walk;
  const states = status.stages.map((it) => it.status.state);
  const failed = status.stages.find((it) => it.status.state === "Failed");
  if (failed !== undefined) {
    fail(walk, status.status, "StageFailed", `stage ${failed.name}: ${failed.status.error?.message ?? ""}`);
    status.outcome = "Failed";
    return;
  }
  if (states.every(isFinal)) {
    const isSkipped = states.length > 0 && states.every((it) => it === "Skipped");
    setState(walk, status.status, isSkipped ? "Skipped" : "Completed");
    status.outcome = outcomeOf(status);
    return;
  }
  if (status.message !== undefined) return;
  const current = states.find((it) => !isFinal(it)) ?? "NotStarted";
  setState(walk, status.status, isStopping && current !== "Stopping" ? "Stopped" : stateOfRun(current));
}

function stateOfRun(stage: UpdateState): UpdateState {
  return stage === "NotStarted" ? "Running" : stage;
}

/** A run completes when no limit was passed, even if all its members failed. */
function outcomeOf(status: UpdateRunStatus): RunOutcome {
  const { Failed: failed = 0, Completed: completed = 0 } = countStates(status);
  if (failed === 0) return "Succeeded";
  return completed === 0 ? "Failed" : "CompletedWithFailures";
}

function countStates(status: UpdateRunStatus): StateCounts {
  const counts: StateCounts = {};
  for (const { status: own } of members(status)) counts[own.state] = (counts[own.state] ?? 0) + 1;
  return counts;
}

function* members({ stages }: UpdateRunStatus): Generator<MemberUpdateStatus> {
  for (const stage of stages) for (const group of stage.groups) yield* group.members;
}
