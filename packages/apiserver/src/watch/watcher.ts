import type { Entry } from "#storage/entry.ts";
import type { EventType, StoreEvent } from "#storage/event-log.ts";
import { Pending } from "#registry/pending.ts";
import type { Table } from "#storage/table.ts";

/** Where a watcher's bytes go. */
export interface WatchSink {
  /** Takes the pieces as one. False: no more until `drained` is called. */
  write(pieces: readonly Buffer[]): boolean;
  onDrain(drained: () => void): void;
  /** Ends the stream cleanly. */
  end(): void;
}

/** How events become bytes. Implementations keep what can be shared between watchers on the event or the entry. */
export interface EventEncoder {
  /** A change as the store made it: the same bytes for every watcher of this encoder. */
  shared(event: StoreEvent): Buffer;
  /** Any other event: initial state, or a type that a selector changed. */
  single(type: EventType, entry: Entry): Buffer;
  bookmark(revision: number, isInitialEnd: boolean): Buffer;
  /** An `ERROR` event with the Status of `error`. */
  error(error: Error): Buffer;
}

export interface WatchSpec {
  readonly table: Table;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  /** Absent: every object of the scope. */
  readonly matches: ((entry: Entry) => boolean) | undefined;
  readonly encoder: EventEncoder;
  /** Changes after this revision are sent. */
  readonly revision: number;
  /** The state at `revision`, to be sent first. */
  readonly initial: readonly Entry[] | undefined;
  /** Whether a bookmark ends the initial state. */
  readonly marksInitialEnd: boolean;
}

/** Bytes gathered before they are handed on. */
const CHUNK_BYTES = 64 * 1024;

/**
 * One client's position in the log of a table. While the client keeps up it is handed each commit; when its socket is
 * full it stops, and later reads on from the log, which all watchers share. So a slow client costs no memory; one that
 * is so slow that the log left it behind is cut off and has to list again.
 */
export class Watcher {
  readonly spec: WatchSpec;
  readonly #sink: WatchSink;
  readonly #onEnd: () => void;
  #position: number;
  #nextInitial = 0;
  #isLive = false;
  #isEnded = false;
  #pieces: Buffer[] = [];
  #gatheredBytes = 0;
  /** Made when there is something to wait for. */
  #gone: AbortController | undefined;

  constructor(spec: WatchSpec, sink: WatchSink, onEnd: () => void) {
    this.spec = spec;
    this.#sink = sink;
    this.#onEnd = onEnd;
    this.#position = spec.revision;
  }

  /** Sends what is due already; from then on `offer` and `flush` feed it. */
  start(): void {
    this.#sink.onDrain(() => this.#guard(() => this.#pump()));
    this.#guard(() => this.#pump());
  }

  /** A change of the table, within the scope. Sent by `flush`. */
  offer(event: StoreEvent): void {
    if (!this.#isLive || event.revision <= this.#position) return;
    this.#guard(() => {
      const bytes = this.#encode(event);
      this.#position = event.revision;
      if (bytes !== undefined) this.#gather(bytes);
      // What a commit has more is read from the log once this was taken.
      if (this.#gatheredBytes >= CHUNK_BYTES) this.flush();
    });
  }

  /** An event that cannot be shown ends this watch, not the commit that it belongs to. */
  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (error instanceof Pending) this.#await(error);
      else this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    this.end(this.spec.encoder.error(Error.isError(error) ? error : new Error(String(error))));
  }

  get #ended(): AbortController {
    this.#gone ??= new AbortController();
    return this.#gone;
  }

  /** Pauses, as with a full socket, until an object can be shown that a webhook has to convert first. */
  #await(pending: Pending): void {
    this.#isLive = false;
    this.flush();
    pending.settle(this.#ended.signal).then(
      () => this.#guard(() => this.#pump()),
      (error: unknown) => this.#fail(error),
    );
  }

  flush(): void {
    if (this.#isEnded || this.#gatheredBytes === 0) return;
    const pieces = this.#pieces;
    this.#pieces = [];
    this.#gatheredBytes = 0;
    if (!this.#sink.write(pieces)) this.#isLive = false;
  }

  /** Says that the client has seen everything up to `revision`; not while it lags. */
  bookmark(revision: number): void {
    if (!this.#isLive || this.#isEnded) return;
    this.#position = Math.max(this.#position, revision);
    this.#gather(this.spec.encoder.bookmark(this.#position, false));
    this.flush();
  }

  end(last?: Buffer): void {
    if (this.#isEnded) return;
    if (last !== undefined) this.#gather(last);
    this.flush();
    this.#isEnded = true;
    this.#isLive = false;
    this.#gone?.abort();
    this.#onEnd();
    this.#sink.end();
  }

  #gather(bytes: Buffer): void {
    this.#pieces.push(bytes);
    this.#gatheredBytes += bytes.length;
  }

  /** Sends initial state and log until the client is up to date or its socket is full. */
  #pump(): void {
    if (this.#isEnded || this.#isLive) return;
    this.#isLive = true;
    while (this.#isLive && this.#gatherInitial()) this.flush();
    while (this.#isLive && this.#gatherLog()) this.flush();
    if (this.#isLive) this.flush();
  }

  /** Gathers a chunk of the initial state. False when all of it was gathered. */
  #gatherInitial(): boolean {
    const { initial, encoder, marksInitialEnd, revision } = this.spec;
    if (initial === undefined || this.#nextInitial > initial.length) return false;
    while (this.#nextInitial < initial.length && this.#gatheredBytes < CHUNK_BYTES) {
      const entry = initial[this.#nextInitial];
      if (entry !== undefined) this.#gather(encoder.single("ADDED", entry));
      this.#nextInitial += 1;
    }
    if (this.#nextInitial < initial.length) return true;
    this.#nextInitial = initial.length + 1;
    if (marksInitialEnd) this.#gather(encoder.bookmark(revision, true));
    return true;
  }

  /** Gathers a chunk of the log. False when its end is reached, or the watcher was cut off. */
  #gatherLog(): boolean {
    const { log } = this.spec.table;
    const needed = this.spec.matches === undefined ? log.floor : log.completeFrom;
    if (this.#position < needed) {
      this.end();
      return false;
    }
    for (const event of log.after(this.#position)) {
      const bytes = inScope(this.spec, event.key) ? this.#encode(event) : undefined;
      this.#position = event.revision;
      if (bytes !== undefined) this.#gather(bytes);
      if (this.#gatheredBytes >= CHUNK_BYTES) return true;
    }
    return false;
  }

  /** The frame of `event` for this client: a selector turns changes into additions and deletions. */
  #encode(event: StoreEvent): Buffer | undefined {
    const { matches, encoder } = this.spec;
    if (matches === undefined) return encoder.shared(event);
    const was = event.before !== undefined && matches(event.before);
    const is = event.type !== "DELETED" && matches(event.entry);
    if (is && was) return encoder.shared(event);
    if (is) return event.type === "ADDED" ? encoder.shared(event) : encoder.single("ADDED", event.entry);
    if (!was) return undefined;
    if (event.type === "DELETED") return encoder.shared(event);
    // The state the client knows, under the revision at which it stopped matching (cacher, convertToWatchEvent).
    return encoder.single("DELETED", (event.before ?? event.entry).at(event.revision));
  }
}

/** Whether the object under `key` is one the watcher asked for by namespace and name. */
function inScope(spec: WatchSpec, key: string): boolean {
  if (spec.namespace !== undefined && !key.startsWith(`${spec.namespace}/`)) return false;
  return spec.name === undefined || key.slice(key.indexOf("/") + 1) === spec.name;
}
