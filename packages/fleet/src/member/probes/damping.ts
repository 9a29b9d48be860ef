import { SUCCESSES_TO_RETURN } from "./tally.ts";

/** A path that is cut again within this time after it came back is less trusted. Unit: milliseconds. */
const MEMORY_MS = 300_000;
/** Rounds that a cluster has to answer before it is used again, at most: less than a minute. */
const MOST = 16 * SUCCESSES_TO_RETURN;

interface Past {
  readonly needed: number;
  /** When it is forgotten. Undefined while the path is cut. */
  readonly untilMs: number | undefined;
}

/**
 * How often a cluster has to answer before it is used again: after each cut that follows soon on another one twice as often. A link that
 * goes up and down would fail requests each time that it is trusted. Pure.
 */
export class Damping {
  readonly #past = new Map<string, Past>();

  /** The path was cut. @returns How many rounds it has to answer. */
  cut(cluster: string, nowMs: number): number {
    this.#forget(nowMs);
    const before = this.#past.get(cluster)?.needed;
    const needed = before === undefined ? SUCCESSES_TO_RETURN : Math.min(MOST, 2 * before);
    this.#past.set(cluster, { needed, untilMs: undefined });
    return needed;
  }

  /** The path is there again. */
  back(cluster: string, nowMs: number): void {
    const past = this.#past.get(cluster);
    if (past !== undefined) this.#past.set(cluster, { ...past, untilMs: nowMs + MEMORY_MS });
  }

  #forget(nowMs: number): void {
    for (const [cluster, { untilMs = Infinity }] of this.#past)
      if (untilMs <= nowMs) this.#past.delete(cluster);
  }
}
