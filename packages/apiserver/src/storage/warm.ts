/** What can give up the memory that it does not need to keep. */
export interface Cooling {
  /** What it keeps, as a measure of what it gives up, which is about twice as much. Unit: bytes. */
  readonly size: number;
  cool(): void;
}

/**
 * The entries that are kept parsed: those that were made or read last. Of all others there are the bytes alone, which are what readers
 * get, a third of the memory, and nothing for a garbage collection to walk through. Writes come in bursts: those of one
 * object follow each other within seconds.
 */
export class Warm {
  readonly #maxBytes: number;
  /** Oldest first. */
  readonly #entries = new Set<Cooling>();
  /** Continues where it stopped: a new iterator walks over everything that was removed at the front before. */
  readonly #oldestFirst = this.#entries.values();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** @param entry - One that was just parsed. The newest is kept whatever its size. */
  keep(entry: Cooling): void {
    if (this.#entries.has(entry)) return;
    this.#entries.add(entry);
    this.#bytes += entry.size;
    while (this.#bytes > this.#maxBytes && this.#entries.size > 1) this.#coolOldest();
  }

  /** @param entry - One that nothing reads any more: it takes no room from those that are read. */
  forget(entry: Cooling): void {
    if (this.#entries.delete(entry)) this.#bytes -= entry.size;
  }

  #coolOldest(): void {
    const { value } = this.#oldestFirst.next();
    if (value === undefined) return;
    this.forget(value);
    value.cool();
  }
}
