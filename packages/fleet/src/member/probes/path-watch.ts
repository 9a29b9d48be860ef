import { type Clock, delay } from "@fairlead/base/clock.ts";
import type { ProbeTarget } from "./targets.ts";

/** Gap between two rounds in which one endpoint of each cluster is asked. Unit: milliseconds. */
const ROUND_MS = 3000;

/**
 * A cluster that has not answered yet is asked more often, at first after this time and then each time after twice as long: only a cluster
 * that has answered can be seen to be cut. Unit: milliseconds.
 */
const FIRST_MS = 100;

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
  readonly cluster: string;
  turn: number;
  /** When it was asked last and is asked next, on the monotonic clock. */
  askedMs: number;
  dueMs: number;
  /** The gap before that. */
  gapMs: number;
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
  #noticed = Promise.withResolvers<void>();

  constructor(watched: Watched, clock: Clock) {
    this.#watched = watched;
    this.#clock = clock;
  }

  /**
   * Endpoints of a cluster came or went. A cluster that is not known yet, or of which nothing is left that has answered, is asked at once.
   *
   * @param gone - Addresses that one of its slices no longer has.
   */
  notice(cluster: string, gone: readonly string[]): void {
    const seen = this.#seen.get(cluster);
    if (seen !== undefined) {
      const had = seen.witnesses.size;
      for (const it of gone) seen.witnesses.delete(it);
      if (had === 0 || seen.witnesses.size > 0) return;
      seen.dueMs = seen.askedMs + FIRST_MS;
      seen.gapMs = FIRST_MS / 2;
    }
    this.#noticed.resolve();
  }

  /** Until `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#noticed = Promise.withResolvers();
      const clusters = this.#watched.clusters();
      const left = new Set(clusters);
      for (const it of this.#seen.keys()) if (!left.has(it)) this.#seen.delete(it);
      const roundMs = Math.max(ROUND_MS, (clusters.length * 1000) / MAX_PER_SECOND);
      const due = clusters.map((it) => this.#seenOf(it)).filter((it) => it.dueMs <= this.#clock.monotonic());
      await Promise.all(due.map((it) => this.#look(it, signal)));
      const nowMs = this.#clock.monotonic();
      for (const it of due) {
        it.askedMs = nowMs;
        it.gapMs = it.witnesses.size > 0 ? roundMs : Math.min(roundMs, 2 * it.gapMs);
        it.dueMs = nowMs + it.gapMs;
      }
      const nextMs = Math.min(nowMs + roundMs, ...clusters.map((it) => this.#seenOf(it).dueMs));
      const woken = new AbortController();
      const waited = delay(this.#clock, nextMs - nowMs, AbortSignal.any([signal, woken.signal])).catch(
        () => {},
      );
      await Promise.race([waited, this.#noticed.promise]);
      woken.abort();
    }
  }

  #seenOf(cluster: string): Seen {
    const seen = this.#seen.get(cluster) ?? {
      cluster,
      turn: 0,
      askedMs: Number.NEGATIVE_INFINITY,
      dueMs: 0,
      gapMs: FIRST_MS / 2,
      witnesses: new Set<string>(),
    };
    this.#seen.set(cluster, seen);
    return seen;
  }

  async #look(seen: Seen, signal: AbortSignal): Promise<void> {
    const { endpoint, all, ask, onCut } = this.#watched;
    const { cluster } = seen;
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
