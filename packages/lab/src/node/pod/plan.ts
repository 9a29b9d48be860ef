import type { Container, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { isSidecar, restartAllSince, type Run, shouldRestart } from "./restart.ts";

/** Which containers of a pod are to be started now, and whether the pod has come to its end. Pure. */

export interface PlanInput<T extends Run = Run> {
  readonly pod: Pod;
  /** The newest run of each container that ever ran. */
  readonly latest: (name: string) => T | undefined;
  /** Whether a sidecar's startup probe has succeeded, so that what comes after it may start. */
  readonly isStarted: (run: T) => boolean;
  /** When the container may be started again. Unit: milliseconds since the Unix epoch. */
  readonly restartAtMs: (run: Run) => number;
  readonly nowMs: number;
}

export interface PodPlan {
  readonly start: readonly { readonly container: Container; readonly attempt: number }[];
  /** Containers that wait for their back-off. */
  readonly backingOff: ReadonlySet<string>;
  /** When to look again. Unit: milliseconds since the Unix epoch. */
  readonly dueAtMs: number | undefined;
  /** Init containers have done their part: the others may run. */
  readonly isInitialized: boolean;
  /** The containers that still run must end: the pod's work is done, an init container failed for good, or all restart. */
  readonly isOver: boolean;
  /** All containers are to end, and then start from the first one. */
  readonly isRestartingAll: boolean;
}

type Step =
  | { readonly act: "none" | "over" }
  | { readonly act: "start"; readonly attempt: number }
  | { readonly act: "wait"; readonly untilMs: number };

interface Decided {
  readonly container: Container;
  readonly step: Step;
}

/** Source: computePodActions and computeInitContainerActions in pkg/kubelet/kuberuntime. */
export function planContainers<T extends Run>(input: PlanInput<T>): PodPlan {
  const since = restartAllSince(input.pod, input.latest);
  if (since === undefined) return planSince(input, () => true);
  const { initContainers = [], containers = [] } = input.pod.spec ?? {};
  const isOld = (run: T | undefined): run is T => run !== undefined && run.startedAtMs <= since;
  const isRunning = [...initContainers, ...containers].some(({ name }) => {
    const run = input.latest(name);
    return isOld(run) && run.exit === undefined;
  });
  if (isRunning) return { ...NOTHING, isOver: true, isRestartingAll: true };
  return { ...planSince(input, (run) => !isOld(run)), isRestartingAll: true };
}

const NOTHING: PodPlan = {
  start: [],
  backingOff: new Set(),
  dueAtMs: undefined,
  isInitialized: false,
  isOver: false,
  isRestartingAll: false,
};

function planSince<T extends Run>(input: PlanInput<T>, counts: (run: T) => boolean): PodPlan {
  const { containers = [] } = input.pod.spec ?? {};
  const init = planInit(input, counts);
  const main = init.isInitialized
    ? containers.map((container) => ({ container, step: nextStep(input, container, counts) }))
    : [];
  const isOver =
    init.isFailed || (init.isInitialized && main.every(({ step }) => step.act === "over") && main.length > 0);
  const decided = isOver ? [] : [...init.decided, ...main];
  const waits = decided.flatMap(({ step }) => (step.act === "wait" ? [step.untilMs] : []));
  return {
    start: decided.flatMap(({ container, step }) =>
      step.act === "start" ? [{ container, attempt: step.attempt }] : [],
    ),
    backingOff: new Set(decided.flatMap((it) => (it.step.act === "wait" ? [it.container.name] : []))),
    dueAtMs: waits.length === 0 ? undefined : Math.min(...waits),
    isInitialized: init.isInitialized,
    isOver,
    isRestartingAll: false,
  };
}

function planInit<T extends Run>(
  input: PlanInput<T>,
  counts: (run: T) => boolean,
): { readonly decided: readonly Decided[]; readonly isInitialized: boolean; readonly isFailed: boolean } {
  const { initContainers = [], containers = [] } = input.pod.spec ?? {};
  /** The newest run that counts. */
  const runOf = ({ name }: Container): T | undefined => {
    const run = input.latest(name);
    return run !== undefined && counts(run) ? run : undefined;
  };
  const isDone = (container: Container): boolean => {
    const run = runOf(container);
    if (run === undefined || !isSidecar(container)) return run?.exit?.code === 0;
    return run.exit === undefined && input.isStarted(run);
  };
  const decided: Decided[] = [];
  const order = [...initContainers, ...containers];
  for (const [at, container] of initContainers.entries()) {
    // What came after it has begun: whatever became of it since, its part is done. Sidecars are kept running.
    const isPassed = order.slice(at + 1).some((it) => runOf(it) !== undefined);
    if (isDone(container) || (isPassed && !isSidecar(container))) continue;
    const step = nextStep(input, container, counts);
    decided.push({ container, step });
    if (!isPassed) return { decided, isInitialized: false, isFailed: step.act === "over" };
  }
  return { decided, isInitialized: true, isFailed: false };
}

function nextStep<T extends Run>(
  input: PlanInput<T>,
  container: Container,
  counts: (run: T) => boolean,
): Step {
  const run = input.latest(container.name);
  if (run === undefined) return { act: "start", attempt: 0 };
  if (!counts(run)) return { act: "start", attempt: run.attempt + 1 };
  if (run.exit === undefined) return { act: "none" };
  if (!shouldRestart(input.pod, container, run.exit.code)) return { act: "over" };
  const untilMs = input.restartAtMs(run);
  return untilMs <= input.nowMs ? { act: "start", attempt: run.attempt + 1 } : { act: "wait", untilMs };
}
