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
  /** Oldest first; those before the head were cooled. */
  #entries: (Cooling | undefined)[] = [];
  #head = 0;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** @param entry - One that was just parsed. The newest is kept whatever its size. */
  keep(entry: Cooling): void {
    this.#entries.push(entry);
    this.#bytes += entry.size;
    while (this.#bytes > this.#maxBytes && this.#entries.length - this.#head > 1) this.#coolOldest();
    if (this.#head < 1024 || this.#head * 2 < this.#entries.length) return;
    this.#entries = this.#entries.slice(this.#head);
    this.#head = 0;
  }

  #coolOldest(): void {
    const oldest = this.#entries[this.#head];
    this.#entries[this.#head] = undefined;
    this.#head += 1;
    this.#bytes -= oldest?.size ?? 0;
    oldest?.cool();
  }
}
