import { SILENCE_LIMIT_MS } from "#placement/scheduling/eligibility.ts";

interface Entry {
  heartbeat: string;
  /** When `heartbeat` changed last, on the monotonic clock. */
  seenAtMs: number;
  /** Once true, until the heartbeat changes. */
  isSilent: boolean;
}

/**
 * How old the heartbeats of members are by the hub's own sight: it counts from when it saw one change. A hub that has just
 * started takes no member for dead, unless the one before it did.
 */
export class Heartbeats {
  readonly #entries = new Map<string, Entry>();

  /** @param wasLost - Whether the previous leader had given the member up. Read at the first sight. */
  observe(cluster: string, heartbeat: string, wasLost: boolean, nowMs: number): void {
    const entry = this.#entries.get(cluster);
    if (entry === undefined) this.#entries.set(cluster, { heartbeat, seenAtMs: nowMs, isSilent: wasLost });
    else if (entry.heartbeat !== heartbeat)
      this.#entries.set(cluster, { heartbeat, seenAtMs: nowMs, isSilent: false });
  }

  forget(cluster: string): void {
    this.#entries.delete(cluster);
  }

  /**
   * @param watchingSinceMs - Since when changes could have been seen; undefined while none can.
   * @returns Infinity for a member that has not reported for too long. Unit: milliseconds.
   */
  ageMs(cluster: string, nowMs: number, watchingSinceMs: number | undefined): number {
    const entry = this.#entries.get(cluster);
    if (entry === undefined) return 0;
    if (entry.isSilent) return Infinity;
    const ageMs = Math.max(0, nowMs - Math.max(entry.seenAtMs, watchingSinceMs ?? nowMs));
    entry.isSilent = ageMs > SILENCE_LIMIT_MS;
    return entry.isSilent ? Infinity : ageMs;
  }
}
