import { defined } from "@fairlead/base/defined.ts";
import { keyOf, type ObjectKey } from "#api/meta/key.ts";
import type { Resource } from "#api/meta/resource.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { backoffMs, type BackoffOptions } from "@fairlead/base/backoff.ts";
import { delay } from "@fairlead/base/clock.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import { statusError } from "#client/status-error.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { Backlog, type ObjectEvent } from "./backlog.ts";
import { watchRows } from "./rows.ts";
import type { ChangeColumn, KubeClient, ListOptions, WatchEvent, WatchOptions } from "#types.ts";

/** Where what was seen goes. */
export interface Sink<T extends KubeObject> {
  /** What is kept of an object. Asked as soon as it arrives: a state is never in memory as a whole. */
  trim(object: T): T;
  /** The whole state, of trimmed objects; what is not in it does not exist. */
  replace(objects: readonly T[]): void;
  /** @param object - A trimmed one. */
  set(object: T): void;
  delete(object: T): void;
  get(key: ObjectKey): T | undefined;
}

/** client-go's page size and bounds of a watch's life; the spread keeps watches from ending together. */
const PAGE_SIZE = 500;
const WATCH_SECONDS = { min: 300, max: 600 };
/** client-go's 30 s at most, but a quick start: a server that only restarts is back within a second. */
const BACKOFF = { initialMs: 50, maxMs: 30_000, factor: 2, jitter: 1 };
/** A stream that lived this long was a good one: the next failure is a first one. Unit: milliseconds. */
const GOOD_STREAM_MS = 5000;
/** A kind that is not served yet comes with its CustomResourceDefinition, at any time: it is asked for more often. */
const MISSING_BACKOFF = { ...BACKOFF, maxMs: 1000 };
/**
 * One that is optional may never come: the wait is this share of the time that it has been missing for, so that each request costs less the
 * longer none helped. Unit of `maxMs`: milliseconds.
 */
const MISSING_OPTIONAL = { share: 1 / 20, maxMs: 30_000 };
/** A role binding may be about to be created: a joining cluster must not wait long for it. */
const FORBIDDEN_BACKOFF = { ...BACKOFF, maxMs: 5000 };
/** A program that starts while a server is away has nothing to work with, and no other call that finds the server back. */
const START_BACKOFF = { ...BACKOFF, maxMs: 5000 };
/** Failures in a row before a warning is logged: about 3 s of absence. */
const WARN_AT = 5;
/** A stream that ends sooner without an event counts as a failure, as in client-go. Unit: milliseconds. */
const SHORT_STREAM_MS = 1000;

type Selected = Pick<ListOptions, "namespace" | "labelSelector" | "fieldSelector" | "returns">;
/** The objects to watch. */
type Selection<T extends KubeObject> = Selected & {
  readonly isOptional?: () => boolean;
  readonly onUnreadable?: (why: unknown) => void;
  readonly changes?: ChangeColumn<T>;
};

/** How a list and watch came to its end. */
type Outcome = "ended" | "again" | "missing" | "forbidden" | "failed";
const BACKOFFS = {
  ended: BACKOFF,
  failed: BACKOFF,
  missing: MISSING_BACKOFF,
  forbidden: FORBIDDEN_BACKOFF,
} as const;

const INITIAL_EVENTS_END = "k8s.io/initial-events-end";

/**
 * Keeps a sink equal to the state of the API server: the present state first, then its changes, for as long as it runs.
 * It resumes where a stream broke off, with what became of each object since, and lists again only when the server reports
 * that the revision has expired, or sends nothing for the whole time of a watch.
 * Source: client-go, tools/cache/reflector.go.
 */
export class Reflector<T extends KubeObject> {
  readonly #client: KubeClient;
  readonly #of: Resource<T>;
  readonly #select: Selected;
  readonly #sink: Sink<T>;
  readonly #deps: RuntimeDeps;
  /** The version up to which the sink has everything; undefined before the first state and when the past is gone. */
  #resumeFrom: string | undefined;
  #watchingSinceMs: number | undefined;
  readonly #isOptional: () => boolean;
  readonly #onUnreadable: (why: unknown) => void;
  #isUnreadable = false;
  /** Since when the server has answered that it does not serve the kind, on the monotonic clock. */
  #missingSinceMs: number | undefined;
  /** Whether the last watch failed: changes may have been missed. */
  #isBehind = false;
  /** Whether the last watch brought nothing. */
  #isSilent = false;
  /** Whether the sink was given a state. */
  #hasState = false;
  /** Whether the server streams the first state (WatchList, KEP-3157). */
  #canStreamList: boolean;
  readonly #changes: ChangeColumn<T> | undefined;

  constructor(
    client: KubeClient,
    of: Resource<T>,
    select: Selection<T>,
    parts: { readonly sink: Sink<T>; readonly deps: RuntimeDeps },
  ) {
    this.#client = client;
    this.#of = of;
    const { namespace, labelSelector, fieldSelector, returns } = select;
    this.#select = {
      ...defined({ namespace, labelSelector, fieldSelector, returns }),
    };
    this.#changes = select.changes;
    // Whole objects would follow in the same stream.
    this.#canStreamList = select.changes === undefined;
    this.#isOptional = select.isOptional ?? (() => false);
    this.#onUnreadable = select.onUnreadable ?? (() => {});
    this.#sink = parts.sink;
    this.#deps = parts.deps;
  }

  /** When the present watch was opened, on the monotonic clock; undefined if no watch is open. */
  get watchingSinceMs(): number | undefined {
    return this.#watchingSinceMs;
  }

  /** Up to which the sink has everything. */
  get version(): string | undefined {
    return this.#resumeFrom;
  }

  /** Runs until `signal` aborts. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      const startedMs = this.#deps.clock.monotonic();
      const outcome = await this.#round(signal, failures);
      this.#isBehind ||= outcome === "failed";
      this.#watchingSinceMs = undefined;
      const livedMs = this.#deps.clock.monotonic() - startedMs;
      // Without even a bookmark: the version is one that the server has not reached, because it was restored from a backup.
      if (this.#isSilent && livedMs >= WATCH_SECONDS.min * 1000) this.#resumeFrom = undefined;
      if (outcome === "again" || (outcome === "ended" && livedMs >= SHORT_STREAM_MS)) {
        failures = 0;
        continue;
      }
      if (livedMs >= GOOD_STREAM_MS) failures = 0;
      if (outcome === "missing") this.#missingSinceMs ??= startedMs;
      else this.#missingSinceMs = undefined;
      const backoff = this.#backoffAfter(outcome);
      const waitMs = backoffMs(backoff, failures, this.#deps.rng);
      failures++;
      await this.#pause(waitMs, signal);
    }
  }

  #backoffAfter(outcome: Exclude<Outcome, "again">): BackoffOptions {
    if (outcome === "failed" && !this.#hasState) return START_BACKOFF;
    if (outcome !== "missing" || !this.#isOptional()) return BACKOFFS[outcome];
    const missingMs = this.#deps.clock.monotonic() - (this.#missingSinceMs ?? 0);
    const maxMs = Math.min(MISSING_OPTIONAL.maxMs, missingMs * MISSING_OPTIONAL.share);
    return { ...MISSING_BACKOFF, maxMs: Math.max(MISSING_BACKOFF.maxMs, maxMs) };
  }

  /** Waits, but no longer than until the server is known to answer again: another call may find that out first. */
  async #pause(waitMs: number, signal: AbortSignal): Promise<void> {
    const { clock, rng } = this.#deps;
    const reachable = new AbortController();
    using _listener = this.#client.onReachable(() => reachable.abort());
    await delay(clock, waitMs, AbortSignal.any([signal, reachable.signal])).catch(() => {});
    // All who waited are woken at once: they must not all come in the same millisecond.
    if (reachable.signal.aborted)
      await delay(clock, BACKOFF.initialMs * rng.random(), signal).catch(() => {});
  }

  async #round(signal: AbortSignal, failures: number): Promise<Outcome> {
    const isFirst = this.#resumeFrom === undefined;
    const isStreamedList = isFirst && this.#canStreamList;
    try {
      if (isFirst && !isStreamedList) await this.#list(signal);
      this.#watchingSinceMs = this.#deps.clock.monotonic();
      await this.#watch(signal);
      if (isStreamedList && this.#resumeFrom === undefined) {
        // The server took the request and knows nothing of what was asked for.
        this.#canStreamList = false;
        return "again";
      }
      return "ended";
    } catch (error) {
      return this.#onError(error, { isStreamedList, signal, failures });
    }
  }

  #onError(error: unknown, at: { isStreamedList: boolean; signal: AbortSignal; failures: number }): Outcome {
    if (at.signal.aborted) return "failed";
    if (at.isStreamedList && hasCode(error, "API_INVALID", "API_BAD_REQUEST")) {
      this.#canStreamList = false;
      return "again";
    }
    if (at.failures >= WARN_AT && hasCode(error, "API_NOT_FOUND", "API_FORBIDDEN")) this.#makeDo(error);
    // Only a server that could not be reached, or had no time, surely still has what comes after our version.
    const canResume = hasCode(error, "API_UNAVAILABLE", "API_TOO_MANY_REQUESTS");
    if (!canResume) this.#resumeFrom = undefined;
    const fields = { resource: this.#of.plural, group: this.#of.group, error: messageOf(error) };
    const note = { ...fields, resumes: this.#resumeFrom !== undefined, failures: at.failures };
    // A server that restarts breaks every watch for a moment; only one that stays away is worth a line, and one is enough.
    const isExpected = this.#isOptional() && hasCode(error, "API_NOT_FOUND", "API_FORBIDDEN");
    if (at.failures === WARN_AT && !isExpected) this.#deps.log.warn("watch failed, retrying", note);
    else this.#deps.log.debug("watch ended with an error", note);
    if (hasCode(error, "API_NOT_FOUND")) return "missing";
    return hasCode(error, "API_FORBIDDEN") ? "forbidden" : "failed";
  }

  /** A server that has only begun refuses for a moment, too: one refusal does not mean that there is nothing. */
  #makeDo(error: unknown): void {
    this.#isUnreadable = true;
    this.#onUnreadable(error);
    if (this.#hasState || !this.#isOptional()) return;
    // An optional kind that is not installed is as it should be.
    const level = hasCode(error, "API_NOT_FOUND") ? "debug" : "info";
    this.#deps.log[level]("continuing without an unreadable resource", {
      resource: this.#of.plural,
      group: this.#of.group,
      error: messageOf(error),
    });
    this.#replace([]);
  }

  #read(): void {
    if (!this.#isUnreadable) return;
    this.#isUnreadable = false;
    this.#onUnreadable(undefined);
  }

  #replace(objects: readonly T[]): void {
    this.#hasState = true;
    this.#sink.replace(objects);
  }

  /** The state as of one version, page by page. */
  async #list(signal: AbortSignal): Promise<void> {
    const items: T[] = [];
    let next: string | undefined;
    do {
      const paging = next === undefined ? { limit: PAGE_SIZE } : { limit: PAGE_SIZE, continue: next };
      let page = await this.#client
        .list(this.#of, { ...this.#select, ...paging, signal })
        .catch((error: unknown) => {
          if (next !== undefined && hasCode(error, "API_GONE")) return undefined;
          throw error;
        });
      if (page === undefined) {
        // The pages' version was compacted away under our hands: take all at once.
        items.length = 0;
        page = await this.#client.list(this.#of, { ...this.#select, signal });
      }
      for (const item of page.items) items.push(this.#sink.trim(item));
      next = page.metadata.continue === "" ? undefined : page.metadata.continue;
      this.#resumeFrom = next === undefined ? page.metadata.resourceVersion : undefined;
    } while (next !== undefined);
    this.#read();
    this.#replace(items);
  }

  /** One stream, to its end. Without a version to resume from it brings the present state first. */
  async #watch(signal: AbortSignal): Promise<void> {
    const { min, max } = WATCH_SECONDS;
    const timeoutSeconds = Math.round(min + (max - min) * this.#deps.rng.random());
    const from =
      this.#resumeFrom === undefined ? { sendInitialEvents: true } : { resourceVersion: this.#resumeFrom };
    const options = { ...this.#select, ...from, timeoutSeconds, allowWatchBookmarks: true };
    // Collects the first state; undefined once the sink has it.
    let initial = this.#resumeFrom === undefined ? new Map<ObjectKey, T>() : undefined;
    const isBehind = this.#isBehind && initial === undefined;
    this.#isBehind = false;
    this.#isSilent = true;
    const follow = (event: ObjectEvent<T>): void => {
      if (!signal.aborted) this.#follow(event);
    };
    using backlog = isBehind ? new Backlog(this.#deps.clock, follow) : undefined;
    for await (const event of this.#events(options, signal)) {
      if (event.type === "ERROR") throw statusError(`watch ${this.#of.plural}`, event.object);
      if (signal.aborted) return;
      this.#isSilent = false;
      this.#read();
      if (backlog !== undefined) backlog.add(event);
      else if (initial === undefined) follow(event);
      else if (isInitialEnd(event)) {
        this.#replace([...initial.values()]);
        this.#resumeFrom = event.object.metadata.resourceVersion;
        initial = undefined;
      } else this.#collect(initial, event);
    }
  }

  #events(options: WatchOptions, signal: AbortSignal): AsyncIterable<WatchEvent<T>> {
    const { namespace } = options;
    const changes = this.#changes;
    if (changes === undefined || namespace === undefined)
      return this.#client.watch(this.#of, options, signal);
    const known = (key: ObjectKey): T | undefined => this.#sink.get(key);
    return watchRows(this.#client, this.#of, { options: { ...options, namespace }, changes, known }, signal);
  }

  #follow(event: ObjectEvent<T>): void {
    if (event.type === "DELETED") this.#sink.delete(event.object);
    else if (event.type !== "BOOKMARK") this.#sink.set(this.#sink.trim(event.object));
    this.#resumeFrom = event.object.metadata.resourceVersion ?? this.#resumeFrom;
  }

  #collect(initial: Map<ObjectKey, T>, { type, object }: ObjectEvent<T>): void {
    if (type === "DELETED") initial.delete(keyOf(object));
    else if (type !== "BOOKMARK") initial.set(keyOf(object), this.#sink.trim(object));
  }
}

function isInitialEnd(event: ObjectEvent<KubeObject>): boolean {
  return event.type === "BOOKMARK" && event.object.metadata.annotations?.[INITIAL_EVENTS_END] === "true";
}
