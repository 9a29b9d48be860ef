import type { FlowReport } from "#api/fairlead.dev/v1alpha1/updates.ts";

/** Results are counted together for so long. Unit: milliseconds. */
const BUCKET_MS = 5000;
/** What is reported: so many probes at least, but none older than this. Unit: milliseconds. */
const WINDOW = { probes: 200, ms: 60_000, longestMs: 300_000 };

interface Bucket {
  readonly atMs: number;
  tried: number;
  failed: number;
}

/** Counts the latest results of probes: those of the last minute, and older ones where that had few. */
export class FlowTally {
  readonly #buckets: Bucket[] = [];
  #message: string | undefined;

  /** @param problem - Undefined: the probe succeeded. */
  note(problem: string | undefined, nowMs: number): void {
    let last = this.#buckets.at(-1);
    if (last === undefined || nowMs - last.atMs >= BUCKET_MS) {
      last = { atMs: nowMs, tried: 0, failed: 0 };
      this.#buckets.push(last);
      while (nowMs - (this.#buckets[0]?.atMs ?? nowMs) > WINDOW.longestMs) this.#buckets.shift();
    }
    last.tried += 1;
    if (problem === undefined) return;
    last.failed += 1;
    this.#message = problem;
  }

  at(nowMs: number): Pick<FlowReport, "tried" | "failed" | "message"> {
    let [tried, failed] = [0, 0];
    for (const it of this.#buckets.toReversed()) {
      const ageMs = nowMs - it.atMs;
      if (ageMs > WINDOW.longestMs || (ageMs > WINDOW.ms && tried >= WINDOW.probes)) break;
      tried += it.tried;
      failed += it.failed;
    }
    return {
      tried,
      failed,
      ...(failed === 0 || this.#message === undefined ? {} : { message: this.#message }),
    };
  }
}
