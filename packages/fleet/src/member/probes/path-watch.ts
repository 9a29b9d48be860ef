import { type Clock, delay } from "@fairlead/base/clock.ts";
import type { ProbeTarget } from "./targets.ts";

/** Gap between two rounds in which one endpoint of each cluster is asked. Unit: milliseconds. */
const ROUND_MS = 3000;

/** In a large fleet the rounds are longer: so many connections are opened in a second at most. */
const MAX_PER_SECOND = 50;

/** So many endpoints that have answered are remembered of a cluster, and have to be silent. */
const MAX_WITNESSES = 32;

export interface Watched {
  /** Those that have endpoints, and are not probed for another reason. */
  readonly clusters: () => readonly string[];
  /** The endpoint whose turn it is; undefined: there is none, or it has no port that can be asked. */
  readonly endpoint: (cluster: string, turn: number) => ProbeTarget | undefined;
  readonly all: (cluster: string) => readonly ProbeTarget[];
  /** Whether one answers. */
  readonly ask: (targets: readonly ProbeTarget[], signal: AbortSignal) => Promise<boolean>;
  /** The data path to a cluster is cut: of the endpoints that have answered none does. */
  readonly onCut: (cluster: string) => void;
}

interface Seen {
  turn: number;
  /** Addresses that have answered, the latest last. */
  readonly witnesses: Set<string>;
}

/**
 * Asks one endpoint of each cluster in a round, each in its turn. Only endpoints that have answered can show that a path is cut: those that
 * never did may be behind a NetworkPolicy that admits certain clients only. One of them that answers is enough to trust the path.
 */
export class PathWatch {
  readonly #watched: Watched;
  readonly #clock: Clock;
  readonly #seen = new Map<string, Seen>();

  constructor(watched: Watched, clock: Clock) {
    this.#watched = watched;
    this.#clock = clock;
  }

  /** Until `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const clusters = this.#watched.clusters();
      const left = new Set(clusters);
      for (const it of this.#seen.keys()) if (!left.has(it)) this.#seen.delete(it);
      await Promise.all(clusters.map((it) => this.#look(it, signal)));
      const gapMs = Math.max(ROUND_MS, (clusters.length * 1000) / MAX_PER_SECOND);
      await delay(this.#clock, gapMs, signal).catch(() => {});
    }
  }

  async #look(cluster: string, signal: AbortSignal): Promise<void> {
    const { endpoint, all, ask, onCut } = this.#watched;
    const seen = this.#seen.get(cluster) ?? { turn: 0, witnesses: new Set<string>() };
    this.#seen.set(cluster, seen);
    const target = endpoint(cluster, seen.turn++);
    if (target === undefined) return;
    if (await ask([target], signal)) {
      note(seen.witnesses, target.address);
      return;
    }
    if (seen.witnesses.size === 0 || signal.aborted) return;
    // Another pod may have the address of one that is gone.
    const witnesses = all(cluster).filter((it) => seen.witnesses.has(it.address));
    seen.witnesses.clear();
    for (const it of witnesses) seen.witnesses.add(it.address);
    const isCut = witnesses.length > 0 && !(await ask(witnesses, signal));
    if (isCut && !signal.aborted) onCut(cluster);
  }
}

function note(witnesses: Set<string>, address: string): void {
  witnesses.delete(address);
  witnesses.add(address);
  const [oldest] = witnesses;
  if (witnesses.size > MAX_WITNESSES && oldest !== undefined) witnesses.delete(oldest);
}
