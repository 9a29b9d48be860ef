/**
 * Which members have stopped renewing their leases. Times are the hub's own: it counts from when it saw a Lease change,
 * and never compares its clock with a member's.
 */

export type Liveness = "unknown" | "alive" | "suspect";

export interface Verdict {
  readonly liveness: Liveness;
  /** When to ask again though nothing happens. Unit: milliseconds from now. Undefined: only a renewal changes it. */
  readonly againInMs: number | undefined;
}

interface Entry {
  renewTime: string;
  /** When `renewTime` changed last, on the monotonic clock. */
  seenAtMs: number;
  leaseMs: number;
  isSuspect: boolean;
  /** Whether an absence of the API server has been taken into account since the last renewal. */
  isForgiven: boolean;
  /** First of the renewals that came without a gap since it became suspect. */
  aliveSinceMs: number | undefined;
}

export class LeaseTracker {
  readonly #entries = new Map<string, Entry>();
  /** Members that were suspect when this hub began: they have to prove themselves, or a restart would clear them. */
  readonly #inherited = new Set<string>();

  inherit(cluster: string): void {
    this.#inherited.add(cluster);
  }

  forget(cluster: string): void {
    this.#entries.delete(cluster);
    this.#inherited.delete(cluster);
  }

  observe(
    cluster: string,
    lease: { readonly renewTime: string; readonly leaseMs: number },
    nowMs: number,
  ): void {
    const entry = this.#entries.get(cluster);
    if (entry === undefined) {
      const isSuspect = this.#inherited.delete(cluster);
      // The first sight of a lease proves nothing about a suspect, and gives everyone else one full lease of time.
      this.#entries.set(cluster, {
        ...lease,
        seenAtMs: nowMs,
        isSuspect,
        isForgiven: false,
        aliveSinceMs: undefined,
      });
      return;
    }
    entry.leaseMs = lease.leaseMs;
    if (entry.renewTime === lease.renewTime) return;
    // Of one that is not suspect a late renewal counts: the hub may have been busy, and sees several at once.
    if (nowMs - entry.seenAtMs >= entry.leaseMs) entry.aliveSinceMs = undefined;
    entry.renewTime = lease.renewTime;
    entry.seenAtMs = nowMs;
    entry.isForgiven = false;
    if (entry.isSuspect) entry.aliveSinceMs ??= nowMs;
  }

  /** Whether a verdict would make the member suspect. What this hub has seen may be old: the Lease is to be read first. */
  isOverdue(cluster: string, nowMs: number): boolean {
    const entry = this.#entries.get(cluster);
    return entry !== undefined && !entry.isSuspect && nowMs - entry.seenAtMs >= entry.leaseMs;
  }

  /**
   * The API server was away: no member could renew its lease, and each gets one full lease of time. Once until it renews: connections that
   * break all the time must not keep a member alive.
   */
  forgive(nowMs: number): void {
    for (const entry of this.#entries.values()) {
      if (entry.isSuspect || entry.isForgiven) continue;
      entry.seenAtMs = nowMs;
      entry.isForgiven = true;
    }
  }

  /** How long ago its Lease was seen to change. Undefined: it never was seen. Unit: milliseconds. */
  silenceMs(cluster: string, nowMs: number): number | undefined {
    const entry = this.#entries.get(cluster);
    return entry === undefined ? undefined : nowMs - entry.seenAtMs;
  }

  /**
   * A member is suspect one lease after its last renewal. It is trusted again after it renewed for the length of one
   * lease without a gap, so that one that comes and goes does not make its endpoints come and go.
   */
  verdict(cluster: string, nowMs: number): Verdict {
    const entry = this.#entries.get(cluster);
    if (entry === undefined)
      return { liveness: this.#inherited.has(cluster) ? "suspect" : "unknown", againInMs: undefined };
    const leftMs = entry.seenAtMs + entry.leaseMs - nowMs;
    if (leftMs <= 0) {
      entry.isSuspect = true;
      entry.aliveSinceMs = undefined;
      return { liveness: "suspect", againInMs: undefined };
    }
    if (!entry.isSuspect) return { liveness: "alive", againInMs: leftMs };
    if (entry.aliveSinceMs === undefined) return { liveness: "suspect", againInMs: undefined };
    const provenInMs = entry.aliveSinceMs + entry.leaseMs - nowMs;
    if (provenInMs > 0) return { liveness: "suspect", againInMs: Math.min(leftMs, provenInMs) };
    entry.isSuspect = false;
    entry.aliveSinceMs = undefined;
    return { liveness: "alive", againInMs: leftMs };
  }
}
