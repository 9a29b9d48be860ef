import type { Clock } from "#base/clock.ts";
import type { ContainerRuntime, ContainerView } from "../container/runtime.ts";

/** Ends containers: preStop hook, SIGTERM, and SIGKILL when the grace period is over. */
export class ContainerStops implements Disposable {
  readonly #runtime: ContainerRuntime;
  readonly #clock: Clock;
  readonly #running = new Map<
    string,
    { deadlineMs: number; readonly over: AbortController; timer: Disposable }
  >();

  constructor(runtime: ContainerRuntime, clock: Clock) {
    this.#runtime = runtime;
    this.#clock = clock;
  }

  [Symbol.dispose](): void {
    for (const folder of this.#running.keys()) this.ended(folder);
  }

  isStopping(folder: string): boolean {
    return this.#running.has(folder);
  }

  /**
   * Begins to end a container; the runtime tells when it has ended. Called again, it can only bring the end nearer.
   *
   * @param deadlineMs - When it is killed. Unit: milliseconds since the Unix epoch.
   * @param preStop - Awaited before SIGTERM, for no longer than the deadline allows.
   */
  stop(
    run: ContainerView,
    deadlineMs: number,
    preStop: ((signal: AbortSignal) => Promise<void>) | undefined,
  ): void {
    const kill = (): void => this.#runtime.signal(run, "SIGKILL");
    const after = (atMs: number): Disposable =>
      this.#clock.after(Math.max(0, atMs - this.#clock.now()), kill);
    const known = this.#running.get(run.folder);
    if (known !== undefined) {
      if (deadlineMs >= known.deadlineMs) return;
      known.timer[Symbol.dispose]();
      known.deadlineMs = deadlineMs;
      known.timer = after(deadlineMs);
      return;
    }
    const over = new AbortController();
    this.#running.set(run.folder, { deadlineMs, over, timer: after(deadlineMs) });
    void this.#terminate(run, preStop, over.signal);
  }

  /** The container has ended, or is no longer ours to end. */
  ended(folder: string): void {
    const known = this.#running.get(folder);
    known?.timer[Symbol.dispose]();
    known?.over.abort();
    this.#running.delete(folder);
  }

  async #terminate(
    run: ContainerView,
    preStop: ((signal: AbortSignal) => Promise<void>) | undefined,
    over: AbortSignal,
  ): Promise<void> {
    // The hook's failure is an event of the pod, not a reason to keep it.
    if (preStop !== undefined) await Promise.race([preStop(over), untilOver(over)]).catch(() => {});
    if (!over.aborted) this.#runtime.signal(run, "SIGTERM");
  }
}

function untilOver(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
