import type { Container, ContainerRestartRule, Pod } from "@fairlead/kube/api/core/v1/types.ts";

/** Whether and when a container that ended starts again. Pure. */

/** One run of a container. */
export interface Run {
  readonly name: string;
  readonly attempt: number;
  /** Unit: milliseconds since the Unix epoch. */
  readonly startedAtMs: number;
  readonly exit: { readonly code: number; readonly atMs: number } | undefined;
}

/** A native sidecar (KEP-753): an init container that keeps running alongside the main containers. */
export function isSidecar(container: Container): boolean {
  return container.restartPolicy === "Always";
}

export function sidecarsOf(pod: Pod): readonly Container[] {
  return (pod.spec?.initContainers ?? []).filter(isSidecar);
}

/** The first of the container's rules that its exit code meets (KEP-5307). */
function matchingRule(container: Container, code: number): ContainerRestartRule | undefined {
  return container.restartPolicyRules?.find(({ exitCodes }) => {
    if (exitCodes === undefined) return false;
    return (exitCodes.values ?? []).includes(code) === (exitCodes.operator === "In");
  });
}

/**
 * Rules come first, then the container's own policy, then its pod's. An init container that succeeded never starts again.
 * Source: ContainerShouldRestart in pkg/api/v1/pod.
 */
export function shouldRestart(pod: Pod, container: Container, code: number): boolean {
  if (container.restartPolicy !== undefined && matchingRule(container, code) !== undefined) return true;
  const policy = container.restartPolicy ?? pod.spec?.restartPolicy ?? "Always";
  return policy === "Always" || (policy === "OnFailure" && code !== 0);
}

/**
 * When the last container ended whose rules ask for a new start of all containers (KEP-5532): what ran before has to run
 * again. Undefined where none asks for it. Unit: milliseconds since the Unix epoch.
 */
export function restartAllSince(pod: Pod, latest: (name: string) => Run | undefined): number | undefined {
  const times = [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])].flatMap(
    (container) => {
      const exit = latest(container.name)?.exit;
      if (exit === undefined) return [];
      return matchingRule(container, exit.code)?.action === "RestartAllContainers" ? [exit.atMs] : [];
    },
  );
  return times.length === 0 ? undefined : Math.max(...times);
}

/** First delay, longest delay, and the length of a run that resets the count. Source: kubelet. */
const BACKOFF = { initialMs: 10_000, maxMs: 300_000, resetMs: 600_000 };

/**
 * Restart delays of one pod's containers: none before the first restart, then 10 s, doubling up to 5 min.
 * A run of 10 min or more resets the count.
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

/** As Go prints a duration of whole seconds: "10s", "1m20s", "5m0s". */
export function renderSeconds(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}
