import type { Clock } from "./clock.ts";
import type { Metrics } from "./metrics.ts";
import { createTokenBucket, type TokenBucket } from "./token-bucket.ts";

/** client-go's `DefaultTypedControllerRateLimiter`: per key 5 ms doubling to 1000 s; all keys 10 a second, 100 at once. */
const RETRY_INITIAL_MS = 5;
const RETRY_MAX_MS = 1_000_000;
const RETRIES_PER_SECOND = 10;
const RETRY_BURST = 100;
/** Of so many keys that are taken one comes from those that can wait, so that these come to their turn at all. */
const FRESH_PER_BEHIND = 8;
/** controller-runtime's: 10 ns to 1000 s, in powers of ten. Unit: seconds. */
const DURATION_BUCKETS = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000];

export interface WorkQueueOptions {
  /** The label of its metrics. */
  readonly name: string;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/**
 * A queue of keys. A key that is added several times before it is taken is taken once; one that is added while it is being
 * processed is taken again afterwards, and never by two workers at a time. First come, first served: a key that is added
 * again goes to the end. Low-priority keys (`addBehind`: all that a program finds when it starts) let others pass, so
 * that a change is not delayed by thousands of unchanged keys.
 */
export class WorkQueue<Key extends string> {
  readonly #clock: Clock;
  readonly #bucket: TokenBucket;
  readonly #meters: ReturnType<typeof createMeters>;
  readonly #due = new Line<Key>();
  /** Due as well, but others go first. */
  readonly #behind = new Line<Key>();
  #takenFresh = 0;
  /** Worked on. Values: when the work began. */
  readonly #working = new Map<Key, number>();
  /** Added while worked on. */
  readonly #again = new Set<Key>();
  readonly #failures = new Map<Key, number>();
  readonly #retries = new Map<Key, Disposable>();
  readonly #later = new Map<Key, Disposable>();
  readonly #takers: ((key: Key | undefined) => void)[] = [];
  readonly #idlers = new Set<() => void>();
  #isShutDown = false;

  constructor(options: WorkQueueOptions) {
    this.#clock = options.clock;
    this.#bucket = createTokenBucket(options.clock, RETRIES_PER_SECOND, RETRY_BURST);
    this.#meters = createMeters(options.metrics, options.name, () => ({
      nowMs: this.#clock.monotonic(),
      depth: this.size,
      since: this.#working.values(),
    }));
  }

  /** How many keys wait to be taken. */
  get size(): number {
    return this.#due.size + this.#behind.size;
  }

  /** Makes a key due. */
  add(key: Key): void {
    if (this.#isShutDown || this.#due.has(key) || this.#again.has(key)) return;
    const behindSinceMs = this.#behind.get(key);
    if (behindSinceMs !== undefined) {
      this.#behind.delete(key);
      this.#due.set(key, behindSinceMs);
      return;
    }
    this.#meters.added();
    if (this.#working.has(key)) {
      this.#again.add(key);
      return;
    }
    this.#push(key, this.#due);
  }

  /** Makes a key due that can wait until others had their turn. Nothing, if it is due already. */
  addBehind(key: Key): void {
    const isDue = this.#due.has(key) || this.#behind.has(key) || this.#again.has(key);
    if (this.#isShutDown || isDue) return;
    if (this.#working.has(key)) {
      this.add(key);
      return;
    }
    this.#meters.added();
    this.#push(key, this.#behind);
  }

  /** Makes a key due after `delayMs` milliseconds. Takes the place of an earlier call for the same key. */
  addAfter(key: Key, delayMs: number): void {
    if (this.#isShutDown) return;
    this.cancelAfter(key);
    this.#later.set(key, this.#timer(this.#later, key, delayMs));
  }

  /** Forgets an earlier `addAfter`. */
  cancelAfter(key: Key): void {
    this.#later.get(key)?.[Symbol.dispose]();
    this.#later.delete(key);
  }

  /**
   * Makes a key due after a delay that doubles with every call since the last `forget`, up to `maxMs`. Returns that
   * delay.
   */
  addRateLimited(key: Key, maxMs = RETRY_MAX_MS): number {
    const failures = this.#failures.get(key) ?? 0;
    this.#failures.set(key, failures + 1);
    this.#meters.retried();
    // 2 ** 1024 is Infinity, which Math.min still bounds.
    const delayMs = Math.max(this.#bucket.take(), Math.min(maxMs, RETRY_INITIAL_MS * 2 ** failures));
    if (this.#isShutDown) return delayMs;
    this.#retries.get(key)?.[Symbol.dispose]();
    this.#retries.set(key, this.#timer(this.#retries, key, delayMs));
    return delayMs;
  }

  /** The key's last pass went well: its next failure is its first, and a retry that still waits is moot. */
  forget(key: Key): void {
    this.#failures.delete(key);
    this.#retries.get(key)?.[Symbol.dispose]();
    this.#retries.delete(key);
    this.#checkIdle();
  }

  /** How often a key failed since it was last forgotten. */
  failures(key: Key): number {
    return this.#failures.get(key) ?? 0;
  }

  /** The next key, once there is one; undefined after `shutDown`. Call `done` when the work on it ends. */
  take(): Promise<Key | undefined> {
    const next = this.#next();
    if (next !== undefined) {
      this.#begin(next[0], next[1]);
      return Promise.resolve(next[0]);
    }
    if (this.#isShutDown) return Promise.resolve(undefined);
    return new Promise((resolve) => this.#takers.push(resolve));
  }

  #next(): readonly [Key, number] | undefined {
    const fresh = this.#due.first();
    const behind = this.#behind.first();
    if (fresh === undefined || (behind !== undefined && this.#takenFresh >= FRESH_PER_BEHIND)) {
      this.#takenFresh = 0;
      return behind ?? fresh;
    }
    this.#takenFresh += 1;
    return fresh;
  }

  done(key: Key): void {
    const sinceMs = this.#working.get(key);
    if (sinceMs === undefined) return;
    this.#working.delete(key);
    this.#meters.worked(this.#clock.monotonic() - sinceMs);
    if (this.#again.delete(key)) this.#push(key, this.#due);
    this.#checkIdle();
  }

  /** Drops what waits; those who wait in `take` get undefined. */
  shutDown(): void {
    this.#isShutDown = true;
    for (const timer of [...this.#retries.values(), ...this.#later.values()]) timer[Symbol.dispose]();
    this.#due.clear();
    this.#behind.clear();
    this.#again.clear();
    this.#retries.clear();
    this.#later.clear();
    for (const taker of this.#takers.splice(0)) taker(undefined);
    this.#meters[Symbol.dispose]();
    this.#checkIdle();
  }

  /** Resolves as soon as no key is due, worked on or waiting for a retry. Keys of `addAfter` do not count. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#idlers.add(resolve);
      this.#checkIdle();
    });
  }

  #push(key: Key, waiting: Line<Key>): void {
    if (this.#isShutDown) return;
    const nowMs = this.#clock.monotonic();
    const taker = this.#takers.shift();
    if (taker === undefined) {
      waiting.set(key, nowMs);
      return;
    }
    this.#begin(key, nowMs);
    taker(key);
  }

  #begin(key: Key, dueSinceMs: number): void {
    const nowMs = this.#clock.monotonic();
    this.#due.delete(key);
    this.#behind.delete(key);
    this.#working.set(key, nowMs);
    this.#meters.taken(nowMs - dueSinceMs);
  }

  #timer(timers: Map<Key, Disposable>, key: Key, delayMs: number): Disposable {
    return this.#clock.after(delayMs, () => {
      timers.delete(key);
      this.add(key);
    });
  }

  #checkIdle(): void {
    if (this.size + this.#working.size + this.#again.size + this.#retries.size > 0) return;
    for (const resolve of this.#idlers) resolve();
    this.#idlers.clear();
  }
}

/** Keys in the order in which they became due, each once, and when that was. */
class Line<Key> extends Map<Key, number> {
  #entries = this.entries();
  #first: readonly [Key, number] | undefined;

  /**
   * The entry that has waited longest. A Map keeps the slots of deleted entries for a while, and a new iterator visits all
   * of them, so a new iterator for every key would become slower and slower.
   */
  first(): readonly [Key, number] | undefined {
    while (this.#first === undefined && this.size > 0) {
      const next = this.#entries.next();
      this.#first = next.value;
      // At its end an iterator stays there, whatever is added.
      if (next.done === true) this.#entries = this.entries();
    }
    return this.#first;
  }

  override delete(key: Key): boolean {
    if (this.#first?.[0] === key) this.#first = undefined;
    return super.delete(key);
  }

  override clear(): void {
    this.#first = undefined;
    super.clear();
  }
}

interface QueueState {
  readonly nowMs: number;
  readonly depth: number;
  /** When the work on each key began. Unit: milliseconds. */
  readonly since: Iterable<number>;
}

/** Names and labels are controller-runtime's, so that existing dashboards show them. */
function createMeters(metrics: Metrics, name: string, state: () => QueueState) {
  const labels = { name, controller: name };
  const named = (suffix: string, help: string) => ({
    name: `workqueue_${suffix}`,
    help,
    labels: ["name", "controller"],
  });
  const seconds = (suffix: string, help: string) => ({ ...named(suffix, help), buckets: DURATION_BUCKETS });
  const depth = metrics.gauge(named("depth", "Keys that wait to be processed."));
  const adds = metrics.counter(named("adds_total", "Keys added."));
  const retries = metrics.counter(named("retries_total", "Retries of keys after a failure."));
  const queued = metrics.histogram(seconds("queue_duration_seconds", "How long a key waits."));
  const worked = metrics.histogram(seconds("work_duration_seconds", "How long the work on a key takes."));
  const unfinished = metrics.gauge(
    named("unfinished_work_seconds", "How long the work that is not finished has taken so far, summed."),
  );
  const longest = metrics.gauge(
    named("longest_running_processor_seconds", "How long the oldest unfinished work has taken so far."),
  );
  const hook = metrics.onRender(() => {
    const now = state();
    const ages = [...now.since].map((sinceMs) => (now.nowMs - sinceMs) / 1000);
    depth.set(labels, now.depth);
    unfinished.set(
      labels,
      ages.reduce((sum, age) => sum + age, 0),
    );
    longest.set(labels, Math.max(0, ...ages));
  });
  return {
    added: () => adds.add(labels),
    retried: () => retries.add(labels),
    taken: (waitedMs: number) => queued.observe(labels, waitedMs / 1000),
    worked: (tookMs: number) => worked.observe(labels, tookMs / 1000),
    [Symbol.dispose]: () => hook[Symbol.dispose](),
  };
}
