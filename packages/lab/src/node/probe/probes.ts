import type { Probe } from "@fairlead/kube/api/core/v1/types.ts";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import type { ContainerView } from "../container/runtime.ts";
import type { Attempt, ProbeOutcome, ProbeTarget } from "./attempt.ts";

/** The probes of one pod's containers. */

export type ProbeKind = "startup" | "readiness" | "liveness";

export interface ProbesOptions {
  readonly attempt: Attempt;
  readonly clock: Clock;
  /** A result changed: what the pod reports may change too. */
  readonly onChange: () => void;
  /** One attempt failed; `isFinal` once it counts, which for startup and liveness means that the container must end. */
  readonly onFailure: (
    run: ContainerView,
    kind: ProbeKind,
    failure: { readonly message: string; readonly isFinal: boolean },
  ) => void;
}

/** Is the container taken for ready and started before the first attempt? After a restart of the kubelet: as it was. */
export interface Known {
  readonly ready: boolean;
  readonly started: boolean;
}

interface RunProbes {
  ready: boolean;
  started: boolean;
  readonly stop: AbortController;
}

export class PodProbes implements Disposable {
  readonly #options: ProbesOptions;
  readonly #runs = new Map<string, RunProbes>();

  constructor(options: ProbesOptions) {
    this.#options = options;
  }

  [Symbol.dispose](): void {
    for (const run of this.#runs.values()) run.stop.abort();
    this.#runs.clear();
  }

  isReady(run: ContainerView): boolean {
    const known = this.#runs.get(run.folder);
    return known !== undefined && known.started && known.ready;
  }

  isStarted(run: ContainerView): boolean {
    return this.#runs.get(run.folder)?.started ?? false;
  }

  /** Begins the probes of a run; does nothing where they have begun. */
  begin(target: ProbeTarget, known: Known | undefined): void {
    const { container, run } = target;
    if (this.#runs.has(run.folder)) return;
    const state: RunProbes = {
      started: container.startupProbe === undefined || known?.started === true,
      ready: container.readinessProbe === undefined || known?.ready === true,
      stop: new AbortController(),
    };
    this.#runs.set(run.folder, state);
    void this.#probe(target, state);
  }

  /** The run has ended. */
  end(folder: string): void {
    this.#runs.get(folder)?.stop.abort();
    this.#runs.delete(folder);
  }

  /** Startup first; the two others begin when it has succeeded. */
  async #probe(target: ProbeTarget, state: RunProbes): Promise<void> {
    const { startupProbe, readinessProbe, livenessProbe } = target.container;
    const { signal } = state.stop;
    const setStarted = (ok: boolean): boolean => {
      state.started = ok;
      if (ok) this.#options.onChange();
      return false;
    };
    const setReady = (ok: boolean): boolean => {
      if (state.ready !== ok) {
        state.ready = ok;
        this.#options.onChange();
      }
      return true;
    };
    if (startupProbe !== undefined && !state.started)
      await this.#loop("startup", startupProbe, target, { signal, onResult: setStarted });
    if (!state.started) return;
    await Promise.all([
      readinessProbe &&
        this.#loop("readiness", readinessProbe, target, {
          signal,
          onResult: setReady,
          ...(state.ready ? {} : { eagerMs: EAGER_MS }),
        }),
      livenessProbe && this.#loop("liveness", livenessProbe, target, { signal, onResult: (ok) => ok }),
    ]);
  }

  /** A result counts once as many attempts in a row agree as its threshold says. Source: pkg/kubelet/prober/worker.go. */
  async #loop(kind: ProbeKind, probe: Probe, target: ProbeTarget, loop: Loop): Promise<void> {
    const timing = timingOf(probe);
    let last: boolean | undefined;
    let count = 0;
    let gapMs = loop.eagerMs ?? timing.periodMs;
    let dueAtMs = target.run.startedAtMs + timing.initialDelayMs;
    for (;;) {
      const outcome = await this.#attemptAt(
        dueAtMs,
        () => this.#options.attempt(probe, target, timing.timeoutMs),
        loop.signal,
      );
      if (outcome === undefined) return;
      const { ok, message } = outcome;
      if (ok) gapMs = timing.periodMs;
      dueAtMs = this.#options.clock.now() + Math.min(gapMs, timing.periodMs);
      gapMs *= 2;
      // Too early to judge.
      if (!ok && gapMs < timing.periodMs) continue;
      count = ok === last ? count + 1 : 1;
      last = ok;
      const isFinal = count >= (ok ? timing.successThreshold : timing.failureThreshold);
      if (!ok) this.#options.onFailure(target.run, kind, { message, isFinal });
      if (isFinal && !loop.onResult(ok)) return;
    }
  }

  /** Undefined if the container has ended in the meantime. */
  async #attemptAt(
    dueAtMs: number,
    attempt: () => Promise<ProbeOutcome>,
    signal: AbortSignal,
  ): Promise<ProbeOutcome | undefined> {
    const { clock } = this.#options;
    await delay(clock, Math.max(0, dueAtMs - clock.now()), signal).catch(() => {});
    if (signal.aborted) return undefined;
    const outcome = await attempt();
    return signal.aborted ? undefined : outcome;
  }
}

interface Loop {
  readonly signal: AbortSignal;
  /** Ask more often than the period says until the first success. Unit: milliseconds. */
  readonly eagerMs?: number;
  /** Whether to keep probing. */
  readonly onResult: (ok: boolean) => boolean;
}

/**
 * A program that just started is seldom ready at the first attempt. Its readiness is asked for again after this long,
 * then twice as long, until the gap reaches the period; only from then on do failures count. Unit: milliseconds.
 */
const EAGER_MS = 40;

interface Timing {
  readonly initialDelayMs: number;
  readonly periodMs: number;
  readonly timeoutMs: number;
  readonly successThreshold: number;
  readonly failureThreshold: number;
}

function timingOf(probe: Probe): Timing {
  return {
    initialDelayMs: (probe.initialDelaySeconds ?? 0) * 1000,
    periodMs: (probe.periodSeconds ?? 10) * 1000,
    timeoutMs: (probe.timeoutSeconds ?? 1) * 1000,
    successThreshold: probe.successThreshold ?? 1,
    failureThreshold: probe.failureThreshold ?? 3,
  };
}
