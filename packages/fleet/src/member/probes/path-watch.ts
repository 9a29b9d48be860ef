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

/**
 * An answer that is not later than this came without a lost packet: Linux sends the second SYN after 1 s (RFC 6298). Unit: milliseconds.
 */
export const PROMPT_MS = 800;
/** An endpoint that takes longer to answer is not waited for alone. Unit: milliseconds. */
const HEDGE_MS = 300;
/** Times at which nothing answered promptly, within so many milliseconds, are a path that comes and goes. */
const MAX_LATE = 2;
const LATE_MS = 60_000;
/** After such a time the cluster is asked again soon, and then each time after twice as long. Unit: milliseconds. */
const SOON_MS = 250;
/** If this program is later than that, answers may be, too, and prove nothing. Unit: milliseconds. */
const BUSY_MS = 250;
/** Questions are at other places of this part of a round, or a link could come and go in time with them. */
const SPREAD = 2 / 3;

/** So many endpoints that have answered are remembered of a cluster, and have to be silent. */
const MAX_WITNESSES = 32;

export interface Watched {
  /** Those that have endpoints, and are not probed for another reason. */
  readonly clusters: () => readonly string[];
  /** The endpoint whose turn it is; undefined: there is none, or it has no port that can be asked. */
  readonly endpoint: (cluster: string, turn: number) => ProbeTarget | undefined;
  readonly all: (cluster: string) => readonly ProbeTarget[];
  /** By how much the first answer is later than the fastest one of the cluster; undefined: none answers. Unit: milliseconds. */
  readonly ask: (
    cluster: string,
    targets: readonly ProbeTarget[],
    signal: AbortSignal,
  ) => Promise<number | undefined>;
  /** The data path to a cluster is cut: of the endpoints that have answered none does, or again and again none does promptly. */
  readonly onCut: (cluster: string) => void;
}

/** Spread evenly from 0 to 1: multiples of the golden ratio. */
function phaseOf(turn: number): number {
  return (turn * ((Math.sqrt(5) - 1) / 2)) % 1;
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
  /** When none of them answered promptly. */
  late: readonly number[];
  /** Whether an endpoint did not answer promptly a moment ago. */
  isDoubtful: boolean;
}

/**
 * Asks one endpoint of each cluster in a round, each in its turn. Only endpoints that have answered can show that a path is cut: those that
 * never did may be behind a NetworkPolicy that admits certain clients only. One of them that answers promptly is enough to trust the path.
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
        it.gapMs = it.witnesses.size > 0 && !it.isDoubtful ? roundMs : Math.min(roundMs, 2 * it.gapMs);
        it.isDoubtful &&= it.gapMs < roundMs;
        it.dueMs = nowMs + it.gapMs * (1 + SPREAD * (phaseOf(it.turn) - phaseOf(it.turn - 1)));
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
      late: [],
      isDoubtful: false,
    };
    this.#seen.set(cluster, seen);
    return seen;
  }

  async #look(seen: Seen, signal: AbortSignal): Promise<void> {
    const { endpoint, onCut } = this.#watched;
    const { cluster } = seen;
    const target = endpoint(cluster, seen.turn++);
    const nowMs = this.#clock.monotonic();
    seen.late = seen.late.filter((it) => nowMs - it < LATE_MS);
    if (target === undefined) return;
    const received = await this.#ask(seen, target, signal);
    if (received === "prompt" || received === "unknown" || signal.aborted) return;
    seen.late = [...seen.late, nowMs];
    doubt(seen);
    if (received === "late" && seen.late.length < MAX_LATE) return;
    seen.late = [];
    onCut(cluster);
  }

  /** Asks an endpoint and, if it does not answer at once, all witnesses. "unknown": nothing is to be expected of those. */
  async #ask(seen: Seen, target: ProbeTarget, signal: AbortSignal): Promise<LastSeen> {
    const { ask } = this.#watched;
    const beganMs = this.#clock.monotonic();
    const first = ask(seen.cluster, [target], signal);
    const waited = await this.#shortly(first, signal);
    const isBusy = this.#clock.monotonic() - beganMs > HEDGE_MS + BUSY_MS;
    if (isPrompt(waited)) {
      note(seen.witnesses, target.address);
      return "prompt";
    }
    if (seen.witnesses.has(target.address)) doubt(seen);
    const witnesses = this.#witnessesOf(seen);
    const [own, others] = await Promise.all([
      first,
      witnesses.length === 0 ? undefined : ask(seen.cluster, witnesses, signal),
    ]);
    if (own !== undefined) note(seen.witnesses, target.address);
    if (isPrompt(own) || isPrompt(others)) {
      // The others vouch for the path: only once is it a reason for doubt that this one is silent.
      if (own === undefined) seen.witnesses.delete(target.address);
      return "prompt";
    }
    if (witnesses.length === 0) return "unknown";
    const isSilent = own === undefined && others === undefined;
    return isSilent ? "silent" : isBusy ? "unknown" : "late";
  }

  /** Those that still exist: another pod may have the address of one that is gone. */
  #witnessesOf(seen: Seen): readonly ProbeTarget[] {
    const witnesses = this.#watched.all(seen.cluster).filter((it) => seen.witnesses.has(it.address));
    seen.witnesses.clear();
    for (const it of witnesses) seen.witnesses.add(it.address);
    return witnesses;
  }

  async #shortly<T>(of: Promise<T>, signal: AbortSignal): Promise<T | "hedge"> {
    const over = new AbortController();
    const hedge = delay(this.#clock, HEDGE_MS, AbortSignal.any([signal, over.signal])).then(
      () => "hedge" as const,
      () => "hedge" as const,
    );
    try {
      return await Promise.race([of, hedge]);
    } finally {
      over.abort();
    }
  }
}

type LastSeen = "prompt" | "late" | "silent" | "unknown";

function isPrompt(lateMs: number | "hedge" | undefined): boolean {
  return typeof lateMs === "number" && lateMs < PROMPT_MS;
}

function doubt(seen: Seen): void {
  seen.gapMs = SOON_MS / 2;
  seen.isDoubtful = true;
}

function note(witnesses: Set<string>, address: string): void {
  witnesses.delete(address);
  witnesses.add(address);
  const [oldest] = witnesses;
  if (witnesses.size > MAX_WITNESSES && oldest !== undefined) witnesses.delete(oldest);
}
