import type { Clock } from "@fairlead/base/clock.ts";
import type { ContainerRuntime, ContainerView } from "../container/runtime.ts";

/** How a container is to end. */
export interface StopOrder {
  /** When its time is over. Unit: milliseconds since the Unix epoch. */
  readonly deadlineMs: number;
  /** Awaited before SIGTERM, for no longer than the deadline allows. */
  readonly preStop: ((signal: AbortSignal) => Promise<void>) | undefined;
  /** False for a sidecar that others may still need: it gets SIGTERM once a later call says true, or at the deadline. */
  readonly isTurn: boolean;
}

interface Stop {
  deadlineMs: number;
  timer: Disposable;
  isReported: boolean;
  readonly over: AbortController;
  readonly turn: PromiseWithResolvers<void>;
}

/** Between SIGTERM and SIGKILL there is always this much. Source: kuberuntime, minimumGracePeriodInSeconds. */
const MIN_WINDOW_MS = 2000;

/** Ends containers: preStop hook, SIGTERM, and SIGKILL when the grace period is over. */
export class ContainerStops implements Disposable {
  readonly #runtime: Pick<ContainerRuntime, "signal">;
  readonly #clock: Clock;
  readonly #running = new Map<string, Stop>();

  constructor(runtime: Pick<ContainerRuntime, "signal">, clock: Clock) {
    this.#runtime = runtime;
    this.#clock = clock;
  }

  [Symbol.dispose](): void {
    for (const folder of this.#running.keys()) this.ended(folder);
  }

  isStopping(folder: string): boolean {
    return this.#running.has(folder);
  }

  /** Begins to end a container; the runtime tells when it has ended. Called again, it can only bring the end nearer. */
  stop(run: ContainerView, { deadlineMs, preStop, isTurn }: StopOrder): void {
    let stop = this.#running.get(run.folder);
    if (stop === undefined) {
      const timer = this.#expireAt(run, deadlineMs);
      const turn = Promise.withResolvers<void>();
      stop = { deadlineMs, timer, isReported: false, over: new AbortController(), turn };
      this.#running.set(run.folder, stop);
      void this.#prepare(run, stop, preStop);
    } else if (deadlineMs < stop.deadlineMs) {
      stop.timer[Symbol.dispose]();
      stop.deadlineMs = deadlineMs;
      stop.timer = this.#expireAt(run, deadlineMs);
    }
    if (isTurn) stop.turn.resolve();
  }

  /** The container has ended, or is no longer ours to end. */
  ended(folder: string): void {
    const known = this.#running.get(folder);
    known?.timer[Symbol.dispose]();
    known?.over.abort();
    this.#running.delete(folder);
  }

  async #prepare(run: ContainerView, stop: Stop, preStop: StopOrder["preStop"]): Promise<void> {
    const over = untilOver(stop.over.signal);
    // The hook's failure is an event of the pod, not a reason to keep it.
    if (preStop !== undefined) await Promise.race([preStop(stop.over.signal), over]).catch(() => {});
    await Promise.race([stop.turn.promise, over]);
    if (!stop.over.signal.aborted && !stop.isReported) this.#report(run, stop);
  }

  #report(run: ContainerView, stop: Stop): void {
    stop.isReported = true;
    stop.timer[Symbol.dispose]();
    stop.timer = this.#expireAt(run, Math.max(stop.deadlineMs, this.#clock.now() + MIN_WINDOW_MS));
    this.#runtime.signal(run, "SIGTERM");
  }

  #expireAt(run: ContainerView, atMs: number): Disposable {
    return this.#clock.after(Math.max(0, atMs - this.#clock.now()), () => {
      const stop = this.#running.get(run.folder);
      if (stop === undefined) return;
      if (stop.isReported) this.#runtime.signal(run, "SIGKILL");
      else this.#report(run, stop);
    });
  }
}

function untilOver(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
