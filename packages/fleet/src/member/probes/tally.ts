/**
 * What probes of one suspect cluster found. An endpoint that does not answer is dropped after the first failure, because
 * the hub has lost the cluster too; it comes back after it answered several times in a row, so that one that comes and
 * goes does not make connections fail again and again.
 */
export const SUCCESSES_TO_RETURN = 3;

interface Entry {
  isAlive: boolean;
  successes: number;
}

export class ProbeTally {
  readonly #entries = new Map<string, Entry>();
  readonly #needed: number;

  /** @param needed - Answers in a row until an endpoint counts as alive again. */
  constructor(needed = SUCCESSES_TO_RETURN) {
    this.#needed = needed;
  }

  /** @returns Whether the endpoint changed sides. */
  note(address: string, answered: boolean): boolean {
    const entry = this.#entries.get(address);
    if (entry === undefined) {
      this.#entries.set(address, { isAlive: answered, successes: 0 });
      return !answered;
    }
    entry.successes = answered ? entry.successes + 1 : 0;
    const isAlive = answered && (entry.isAlive || entry.successes >= this.#needed);
    const changed = entry.isAlive !== isAlive;
    entry.isAlive = isAlive;
    return changed;
  }

  /** Whether an endpoint has been probed. */
  has(address: string): boolean {
    return this.#entries.has(address);
  }

  /** An endpoint that has not been probed yet counts as alive. */
  isAlive(address: string): boolean {
    return this.#entries.get(address)?.isAlive ?? true;
  }

  get areAllAlive(): boolean {
    return [...this.#entries.values()].every((it) => it.isAlive);
  }

  /** Whether an endpoint answers; undefined: none was asked. */
  get hasAnswer(): boolean | undefined {
    return this.#entries.size === 0 ? undefined : [...this.#entries.values()].some((it) => it.isAlive);
  }

  /** Forgets endpoints that no longer exist. */
  keep(addresses: ReadonlySet<string>): void {
    for (const address of this.#entries.keys()) if (!addresses.has(address)) this.#entries.delete(address);
  }
}
