import type { EventType } from "./event-log.ts";

/** One change, as the journal keeps it. */
export interface JournalRecord {
  readonly revision: number;
  readonly table: string;
  readonly key: string;
  readonly type: EventType;
  /** The object after the change; for DELETED its last state. JSON. */
  readonly value: Buffer;
  /** Unit: milliseconds since the epoch. */
  readonly atMs: number;
}

export interface JournalState {
  /** The last revision that was given out. */
  readonly revision: number;
  /** Events up to this revision are no longer in the log. */
  readonly floor: number;
  readonly objects: Iterable<{ table: string; key: string; revision: number; value: Buffer }>;
  /** Oldest first. */
  readonly events: Iterable<JournalRecord>;
}

/** Changes are written here before any reader can see them. */
export interface Journal extends Disposable {
  load(): JournalState;
  /** All or nothing: when it throws, none of the records is kept. */
  commit(records: readonly JournalRecord[]): void;
  /** Writes something that stands for nothing, as a commit does; throws where that fails. */
  probe(): void;
}

/** Stores nothing: for tests, and for servers without persistence. */
export const noJournal: Journal = {
  load: () => ({ revision: 0, floor: 0, objects: [], events: [] }),
  commit() {},
  probe() {},
  [Symbol.dispose]() {},
};
