import { abortable } from "@fairlead/base/abortable.ts";
import { type Clock } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import type { ResourceUsage } from "#domain/resource-usage.ts";

/** What a provider found. Names are free. */
export interface Collected {
  readonly properties: ReadonlyMap<string, string>;
  readonly resourceUsage?: ResourceUsage;
  /** Namespaces of the cluster, and the Work that each is of; empty: none. */
  readonly namespaces?: ReadonlyMap<string, string>;
  /** In addition to those of the collection itself. */
  readonly conditions?: readonly NewCondition[];
}

/** Collects what placements select clusters by. */
export interface PropertyProvider {
  /** Called once before `collect`, and again if it failed. */
  readonly start?: (signal: AbortSignal) => Promise<void>;
  readonly collect: (signal: AbortSignal) => Promise<Collected>;
}

/** Longest time for a start, and for a collection. Unit: milliseconds. */
const DEADLINE_MS = 10_000;
/** Collections that have not returned, at which no other one begins. */
const MAX_QUEUED = 3;

const STARTED = "ClusterPropertyProviderStarted";
const COLLECTED = "ClusterPropertyCollectionSucceeded";

/** Calls a provider, which may be slow, hang or fail: the report of the member waits for no longer than a deadline. */
export class PropertyCollector {
  readonly #provider: PropertyProvider;
  readonly #clock: Clock;
  #isStarted = false;
  #queued = 0;

  constructor(provider: PropertyProvider, clock: Clock) {
    this.#provider = provider;
    this.#clock = clock;
  }

  /** Without properties if the collection failed; the conditions say why. */
  async collect(
    signal: AbortSignal,
  ): Promise<{ readonly found: Collected | undefined; readonly conditions: readonly NewCondition[] }> {
    const started = await this.#start(signal);
    if (started.status !== "True") return { found: undefined, conditions: [started] };
    if (this.#queued >= MAX_QUEUED) {
      const message = `${this.#queued} earlier collections have not returned`;
      return { found: undefined, conditions: [started, failed(COLLECTED, "TooManyCalls", message)] };
    }
    const outcome = await this.#within((running) => this.#counted(running), signal);
    if (outcome.kind !== "done")
      return { found: undefined, conditions: [started, failed(COLLECTED, "TimedOut", outcome.message)] };
    const message = `${outcome.value.properties.size} properties`;
    return {
      found: outcome.value,
      conditions: [
        started,
        { type: COLLECTED, status: "True", reason: "PropertiesCollected", message },
        ...(outcome.value.conditions ?? []),
      ],
    };
  }

  async #start(signal: AbortSignal): Promise<NewCondition> {
    const { start } = this.#provider;
    if (!this.#isStarted && start !== undefined) {
      const outcome = await this.#within(start, signal);
      if (outcome.kind === "late") return failed(STARTED, "TimedOut", outcome.message);
      if (outcome.kind === "failed") return failed(STARTED, "FailedToStart", outcome.message);
    }
    this.#isStarted = true;
    return { type: STARTED, status: "True", reason: "Started", message: "" };
  }

  async #counted(signal: AbortSignal): Promise<Collected> {
    this.#queued++;
    try {
      return await this.#provider.collect(signal);
    } finally {
      this.#queued--;
    }
  }

  async #within<T>(
    call: (signal: AbortSignal) => Promise<T>,
    signal: AbortSignal,
  ): Promise<
    | { readonly kind: "done"; readonly value: T }
    | { readonly kind: "late" | "failed"; readonly message: string }
  > {
    const late = new AbortController();
    using _timer = this.#clock.after(DEADLINE_MS, () => late.abort());
    const running = AbortSignal.any([signal, late.signal]);
    try {
      return { kind: "done", value: await abortable(call(running), running) };
    } catch (error) {
      if (signal.aborted) throw error;
      return late.signal.aborted
        ? { kind: "late", message: `no answer after ${DEADLINE_MS / 1000} s` }
        : { kind: "failed", message: messageOf(error) };
    }
  }
}

function failed(type: string, reason: string, message: string): NewCondition {
  return { type, status: "False", reason, message };
}
