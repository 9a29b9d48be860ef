import type { Entry } from "./entry.ts";

export const EVENT_TYPES = ["ADDED", "MODIFIED", "DELETED"] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** One change of one object. The same event serves every watcher. */
export interface StoreEvent {
  readonly revision: number;
  readonly type: EventType;
  readonly key: string;
  /** The state after the change; for DELETED the last state under the revision of the deletion. */
  readonly entry: Entry;
  /** The state before. Absent for ADDED, and for a restored MODIFIED whose predecessor the journal no longer had. */
  readonly before: Entry | undefined;
  /** Unit: milliseconds since the epoch. */
  readonly atMs: number;
}

export interface Retention {
  /** This many of the newest events are kept whatever their age. */
  readonly minEvents: number;
  /** Events younger than this are kept, up to `maxEvents`. Unit: milliseconds. */
  readonly minAgeMs: number;
  readonly maxEvents: number;
  /** The newest event is kept whatever its size. */
  readonly maxBytes: number;
}

/**
 * A client that lost its watch comes back within its own back-off, or after minutes when a program was restarted. Real
 * servers keep at least 75 s in the watch cache; a quiet resource keeps its last thousands of events for as long as it takes.
 */
export const DEFAULT_RETENTION: Retention = {
  minEvents: 4096,
  minAgeMs: 75_000,
  maxEvents: 32_768,
  maxBytes: 64 * 1024 * 1024,
};

/** The recent events of one resource, oldest first. */
export class EventLog {
  /** Those before the head were dropped. */
  #events: (StoreEvent | undefined)[] = [];
  #head = 0;
  #bytes = 0;
  #floor: number;
  #completeFrom: number;
  readonly #retention: Retention;
  readonly #onDrop: (event: StoreEvent) => void;

  /**
   * @param floor - Revisions up to this one are not covered.
   * @param onDrop - Receives each event that leaves the log because it is old.
   */
  constructor(floor: number, retention: Retention, onDrop: (event: StoreEvent) => void = () => undefined) {
    this.#floor = floor;
    this.#completeFrom = floor;
    this.#retention = retention;
    this.#onDrop = onDrop;
  }

  /** A watch can resume from this revision or a later one; earlier events were dropped. */
  get floor(): number {
    return this.#floor;
  }

  /** From here on every event has its predecessor: needed to rebuild a past state, or to follow a selector. */
  get completeFrom(): number {
    return this.#completeFrom;
  }

  get size(): number {
    return this.#events.length - this.#head;
  }

  append(event: StoreEvent): void {
    this.#events.push(event);
    this.#bytes += event.entry.json.length;
    if (event.type === "MODIFIED" && event.before === undefined) this.#completeFrom = event.revision;
  }

  /** Removes the newest event, which no watcher has received. */
  dropNewest(): void {
    this.#bytes -= this.#events.pop()?.entry.json.length ?? 0;
  }

  trim(nowMs: number): void {
    while (this.#isExcess(nowMs)) this.#floor = this.#dropOldest() ?? this.#floor;
    this.#completeFrom = Math.max(this.#completeFrom, this.#floor);
    if (this.#head < 1024 || this.#head * 2 < this.#events.length) return;
    this.#events = this.#events.slice(this.#head);
    this.#head = 0;
  }

  /** @returns The revision of what was dropped. */
  #dropOldest(): number | undefined {
    const oldest = this.#events[this.#head];
    this.#events[this.#head] = undefined;
    this.#head += 1;
    if (oldest === undefined) return undefined;
    this.#bytes -= oldest.entry.json.length;
    this.#onDrop(oldest);
    return oldest.revision;
  }

  #isExcess(nowMs: number): boolean {
    const { size } = this;
    if (size > 1 && this.#bytes > this.#retention.maxBytes) return true;
    if (size <= this.#retention.minEvents) return false;
    if (size > this.#retention.maxEvents) return true;
    const oldest = this.#events[this.#head];
    return oldest !== undefined && nowMs - oldest.atMs > this.#retention.minAgeMs;
  }

  /** Forgets everything up to `revision`: tests bring about 410 with it. */
  compact(revision: number): void {
    while (this.size > 0 && (this.#events[this.#head]?.revision ?? Infinity) <= revision) this.#dropOldest();
    this.#floor = Math.max(this.#floor, revision);
    this.#completeFrom = Math.max(this.#completeFrom, this.#floor);
  }

  /** Events after `revision`, oldest first. Holds while nothing is appended in between. */
  *after(revision: number): Iterable<StoreEvent> {
    for (let at = this.#firstAfter(revision); at < this.#events.length; at += 1) {
      const event = this.#events[at];
      if (event !== undefined) yield event;
    }
  }

  /** Events after `revision`, newest first. */
  *newestDownTo(revision: number): Iterable<StoreEvent> {
    for (let at = this.#events.length - 1; at >= this.#head; at -= 1) {
      const event = this.#events[at];
      if (event === undefined || event.revision <= revision) return;
      yield event;
    }
  }

  #firstAfter(revision: number): number {
    let low = this.#head;
    let high = this.#events.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#events[middle]?.revision ?? Infinity) <= revision) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
