import type { Container, Pod } from "#api/core/v1/types.ts";

/** Which containers of a pod are to be started now. Pure. */

/** One run of a container. */
export interface Run {
  readonly name: string;
  readonly attempt: number;
  /** Unit: milliseconds since the Unix epoch. */
  readonly startedAtMs: number;
  readonly exit: { readonly code: number; readonly atMs: number } | undefined;
}

export interface PlanInput {
  readonly pod: Pod;
  /** The newest run of each container that ever ran. */
  readonly latest: (name: string) => Run | undefined;
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
  /** How many init containers have still to succeed. */
  readonly initPending: number;
  /** An init container failed for good, and the pod with it. */
  readonly initFailed: boolean;
}

export function planContainers(input: PlanInput): PodPlan {
  const { initContainers = [], containers = [] } = input.pod.spec ?? {};
  const hasBegun = containers.some((it) => input.latest(it.name) !== undefined);
  // Init containers ran before the others did; what became of their records does not matter any more.
  const pending = hasBegun ? [] : initContainers.filter((it) => input.latest(it.name)?.exit?.code !== 0);
  const [current] = pending;
  const due = current === undefined ? containers : [current];
  const policy = restartPolicyOf(input.pod, current !== undefined);
  const start: { container: Container; attempt: number }[] = [];
  const backingOff = new Set<string>();
  let dueAtMs: number | undefined;
  let initFailed = false;
  for (const container of due) {
    const step = nextStep(input, container, policy);
    if (step.act === "start") start.push({ container, attempt: step.attempt });
    if (step.act === "fail") initFailed = current !== undefined;
    if (step.act !== "wait") continue;
    backingOff.add(container.name);
    dueAtMs = Math.min(dueAtMs ?? Infinity, step.untilMs);
  }
  return { start, backingOff, dueAtMs, initPending: pending.length, initFailed };
}

type Step =
  | { readonly act: "none" | "fail" }
  | { readonly act: "start"; readonly attempt: number }
  | { readonly act: "wait"; readonly untilMs: number };

function nextStep(input: PlanInput, container: Container, policy: RestartPolicy): Step {
  const run = input.latest(container.name);
  if (run === undefined) return { act: "start", attempt: 0 };
  if (run.exit === undefined) return { act: "none" };
  if (!restarts(policy, run.exit.code)) return { act: run.exit.code === 0 ? "none" : "fail" };
  const untilMs = input.restartAtMs(run);
  return untilMs <= input.nowMs ? { act: "start", attempt: run.attempt + 1 } : { act: "wait", untilMs };
}

export type RestartPolicy = "Always" | "OnFailure" | "Never";

/** An init container that fails is tried again unless the pod is never restarted; one that succeeds never is. */
export function restartPolicyOf(pod: Pod, isInit = false): RestartPolicy {
  const policy = pod.spec?.restartPolicy ?? "Always";
  return isInit && policy === "Always" ? "OnFailure" : policy;
}

export function restarts(policy: RestartPolicy, code: number): boolean {
  return policy === "Always" || (policy === "OnFailure" && code !== 0);
}

/** First delay, longest delay, and how long a run must have lasted for the count to begin anew. Source: kubelet. */
const BACKOFF = { initialMs: 10_000, maxMs: 300_000, resetMs: 600_000 };

/**
 * Restart delays of one pod's containers: none before the first restart, then 10 s, doubling up to 5 min.
 * A run of 10 min or more begins the count anew.
 */
export class RestartBackoff {
  readonly #steps = new Map<string, { readonly attempt: number; readonly step: number }>();

  /** Unit: milliseconds since the Unix epoch. */
  restartAtMs(run: Run): number {
    if (run.exit === undefined) return run.startedAtMs;
    return run.exit.atMs + delayOf(this.#step(run, run.exit.atMs));
  }

  /** The delay before the run's successor. Unit: milliseconds. */
  delayMs(run: Run): number {
    return run.exit === undefined ? 0 : delayOf(this.#step(run, run.exit.atMs));
  }

  #step({ name, attempt, startedAtMs }: Run, endedAtMs: number): number {
    const known = this.#steps.get(name);
    if (known?.attempt === attempt) return known.step;
    const before = known?.step ?? -1;
    const step = endedAtMs - startedAtMs >= BACKOFF.resetMs ? 0 : before + 1;
    this.#steps.set(name, { attempt, step });
    return step;
  }
}

function delayOf(step: number): number {
  return step === 0 ? 0 : Math.min(BACKOFF.maxMs, BACKOFF.initialMs * 2 ** (step - 1));
}
