import type { ObjectKey } from "#api/meta/key.ts";
import { abortable, abortWith } from "@fairlead/base/abortable.ts";
import { abortError } from "@fairlead/base/clock.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import { Turns } from "@fairlead/base/turn.ts";
import { WorkQueue } from "@fairlead/base/workqueue.ts";
import { type ControllerMeters, createControllerMeters } from "./controller-meters.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { withFlow } from "#client/flow.ts";
import type { Controller, ControllerOptions, ReconcileResult } from "#types.ts";

const DEFAULT_CONCURRENCY = 4;
/**
 * Longest wait after a failure that says nothing of the key: a server that was away. controller-runtime lets these grow
 * to 1000 s as well, and then a key may wait for minutes after the server is back. Unit: milliseconds.
 */
const MAX_OUTAGE_RETRY_MS = 10_000;
/** How long passes that write nothing run back to back before pending input is read. Unit: milliseconds. */
const TURN_MS = 5;

/**
 * A controller with controller-runtime's rules: an error is retried with back-off, `requeueAfterMs` runs again later, and
 * both handle the key's count of failures as there. Two passes for one key never run at the same time.
 */
export function createController<K extends ObjectKey = ObjectKey>(
  options: ControllerOptions<K>,
  deps: RuntimeDeps,
): Controller<K> {
  return new QueueController(options, deps);
}

class QueueController<K extends ObjectKey> implements Controller<K> {
  readonly name: string;
  readonly #options: ControllerOptions<K>;
  readonly #deps: RuntimeDeps;
  readonly #queue: WorkQueue<K>;
  readonly #meters: ControllerMeters;
  readonly #turns: Turns;
  /** When a change that no pass has acted on yet made a key due, on the monotonic clock. */
  readonly #seenMs = new Map<ObjectKey, number>();
  /** Keys whose last pass found no API server. */
  readonly #waiting = new Set<K>();
  readonly #stop = new AbortController();
  #subscriptions: Disposable[] = [];
  #workers: Promise<void>[] = [];
  #active = 0;

  constructor(options: ControllerOptions<K>, deps: RuntimeDeps) {
    this.name = options.name;
    this.#options = options;
    this.#deps = { ...deps, log: deps.log.child({ controller: options.name }) };
    this.#queue = new WorkQueue({ name: options.name, clock: deps.clock, metrics: deps.metrics });
    this.#meters = createControllerMeters(deps.metrics, options.name);
    this.#turns = new Turns(() => deps.clock.monotonic(), TURN_MS);
  }

  async start(signal: AbortSignal): Promise<void> {
    const { sources } = this.#options;
    const concurrency =
      this.#deps.concurrency?.(this.name) ?? this.#options.concurrency ?? DEFAULT_CONCURRENCY;
    abortWith(this.#stop, signal);
    const running = this.#stop.signal;
    if (running.aborted) throw abortError(running);
    running.addEventListener("abort", () => this.#queue.shutDown(), { once: true });
    let isStarting = true;
    for (const source of sources) {
      // What is there at the start is looked at once, and mostly found as it should be: changes go first.
      const enqueue = (key: K): void => (isStarting ? this.#queue.addBehind(key) : this.#onChange(key));
      this.#subscriptions.push(source.subscribe(enqueue));
      source.informer.start(signal);
    }
    await Promise.all(sources.map((source) => source.informer.synced(running)));
    isStarting = false;
    this.#meters.limit(concurrency);
    this.#workers = Array.from({ length: concurrency }, () => this.#work(running));
  }

  enqueue(key: K): void {
    this.#queue.add(key);
  }

  #onChange(key: K): void {
    if (!this.#seenMs.has(key)) this.#seenMs.set(key, this.#deps.clock.monotonic());
    this.#queue.add(key);
  }

  idle(signal: AbortSignal): Promise<void> {
    return abortable(this.#queue.idle(), signal);
  }

  /** Lets passes that run come to their end, with an aborted signal. Informers are not ours to stop. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const subscription of this.#subscriptions) subscription[Symbol.dispose]();
    this.#subscriptions = [];
    this.#stop.abort();
    this.#queue.shutDown();
    await Promise.all(this.#workers);
  }

  async #work(signal: AbortSignal): Promise<void> {
    for (;;) {
      const key = await this.#queue.take();
      if (key === undefined) return;
      this.#meters.active(++this.#active);
      const startedMs = this.#deps.clock.monotonic();
      await this.#pass(key, signal);
      this.#meters.took((this.#deps.clock.monotonic() - startedMs) / 1000);
      this.#meters.active(--this.#active);
      this.#queue.done(key);
      await this.#turns.breathe();
    }
  }

  async #pass(key: K, signal: AbortSignal): Promise<void> {
    // A change that comes while the pass runs is the next one's.
    const seenMs = this.#seenMs.get(key);
    this.#seenMs.delete(key);
    try {
      const result = (await withFlow(this.name, () => this.#options.reconcile(key, signal))) ?? {};
      if (seenMs !== undefined) this.#meters.acted((this.#deps.clock.monotonic() - seenMs) / 1000);
      this.#onSuccess(key, result);
    } catch (error) {
      if (signal.aborted) return;
      if (seenMs !== undefined) this.#seenMs.set(key, seenMs);
      this.#onFailure(key, error);
    }
  }

  #onSuccess(key: K, result: ReconcileResult): void {
    this.#queue.forget(key);
    this.#noteEndOfOutage(key);
    // This pass saw all there is: a deadline of an earlier one no longer counts.
    if (result.requeueAfterMs === undefined) this.#queue.cancelAfter(key);
    else this.#queue.addAfter(key, result.requeueAfterMs);
    this.#meters.result(result.requeueAfterMs === undefined ? "success" : "requeue_after");
  }

  #onFailure(key: K, error: unknown): void {
    const isOutage = hasCode(error, "API_UNAVAILABLE", "API_TIMEOUT", "API_TOO_MANY_REQUESTS");
    const delayMs = this.#queue.addRateLimited(
      key,
      isOutage ? MAX_OUTAGE_RETRY_MS : this.#options.maxRetryMs,
    );
    const retryInMs = Math.round(delayMs);
    this.#meters.result("error");
    this.#meters.failed();
    if (!isOutage) this.#noteEndOfOutage(key);
    const fields = { key, retryInMs, failures: this.#queue.failures(key), error: messageOf(error) };
    // Someone else wrote first: the next pass sees it. No operator needs to know.
    if (hasCode(error, "API_CONFLICT")) this.#deps.log.debug("reconcile conflict", fields);
    else if (isOutage) this.#noteOutage(key, fields);
    else this.#deps.log.error("reconcile failed", fields);
  }

  /** All keys fail repeatedly for one reason: it is logged once as an error. */
  #noteOutage(key: K, fields: object): void {
    const isReported = this.#waiting.size > 0;
    this.#waiting.add(key);
    if (isReported) this.#deps.log.debug("reconcile failed", { ...fields });
    else this.#deps.log.error("reconciles fail until an API server answers", { ...fields });
  }

  #noteEndOfOutage(key: K): void {
    if (this.#waiting.delete(key) && this.#waiting.size === 0)
      this.#deps.log.info("no reconcile waits for an API server any more");
  }
}
