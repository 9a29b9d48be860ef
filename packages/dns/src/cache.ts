import { RCODE, TYPE, typeCode } from "#wire/types.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import type { Answer } from "./answer.ts";

export interface CacheOptions {
  readonly clock: Clock;
  /** The limit of entries; the least recently used one is evicted. */
  readonly maxEntries: number;
  /** An answer is kept for its TTL but no longer than this. Unit: seconds. */
  readonly maxTtl: number;
  /** How long an expired answer may still be served if no server is reachable (RFC 8767). Unit: seconds. */
  readonly maxStale: number;
}

interface Entry {
  readonly answer: Answer;
  readonly storedAtMs: number;
  readonly freshUntilMs: number;
}

/** The TTL of an answer that is given after its time: short, so that a better one is asked for soon. Unit: seconds. */
const STALE_TTL = 1;

/** A cache of other servers' answers. */
export class AnswerCache {
  readonly #options: CacheOptions;
  /** In the order of their last use. */
  readonly #entries = new Map<string, Entry>();

  constructor(options: CacheOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** An answer that is still good, its TTLs reduced by its age. */
  fresh(key: string): Answer | undefined {
    const entry = this.#entries.get(key);
    const nowMs = this.#options.clock.monotonic();
    if (entry === undefined || nowMs >= entry.freshUntilMs) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    const age = Math.floor((nowMs - entry.storedAtMs) / 1000);
    return age === 0 ? entry.answer : withTtls(entry.answer, (ttl) => Math.max(0, ttl - age));
  }

  /** An answer that was good once, when there is nothing better. */
  stale(key: string): Answer | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    const staleUntilMs = entry.freshUntilMs + this.#options.maxStale * 1000;
    if (this.#options.clock.monotonic() < staleUntilMs)
      return { ...withTtls(entry.answer, () => STALE_TTL), authoritative: false };
    this.#entries.delete(key);
    return undefined;
  }

  /** Keeps what may be kept: answers and denials, never failures. */
  put(key: string, answer: Answer): void {
    if (answer.rcode !== RCODE.NOERROR && answer.rcode !== RCODE.NXDOMAIN) return;
    const { clock, maxTtl, maxEntries } = this.#options;
    const storedAtMs = clock.monotonic();
    const freshUntilMs = storedAtMs + Math.min(ttlOf(answer), maxTtl) * 1000;
    this.#entries.delete(key);
    this.#entries.set(key, { answer, storedAtMs, freshUntilMs });
    if (this.#entries.size <= maxEntries) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }
}

/** How long an answer may be kept: its shortest TTL; of a denial, what its SOA record says (RFC 2308, section 5). */
function ttlOf({ answers, authorities }: Answer): number {
  if (answers.length > 0) return Math.min(...answers.map((it) => it.ttl));
  const soa = authorities.find((it) => typeCode(it.data) === TYPE.SOA);
  return soa?.data.type === "SOA" ? Math.min(soa.ttl, soa.data.minimum) : 0;
}

function withTtls(answer: Answer, change: (ttl: number) => number): Answer {
  const all = (records: Answer["answers"]): Answer["answers"] =>
    records.map((record) => ({ ...record, ttl: change(record.ttl) }));
  return {
    ...answer,
    answers: all(answer.answers),
    authorities: all(answer.authorities),
    additionals: all(answer.additionals),
  };
}
