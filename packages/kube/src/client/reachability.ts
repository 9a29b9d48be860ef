import { backoffMs } from "@fairlead/base/backoff.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import type { Rng } from "@fairlead/base/rng.ts";

/** Errors of undici and of the system that mean that nothing came back. */
const SILENCE: ReadonlySet<string> = new Set([
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ETIMEDOUT",
  "UND_ERR_BODY_TIMEOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_HEADERS_TIMEOUT",
]);
/** What was open at the other end, or on the way to it, is not known there any more: neither may be what else is open. */
const FORGOTTEN = "ECONNRESET";
/**
 * What is still not answered when something that was sent so much later is was swallowed. An admission webhook may take
 * 30 s; client-go gives a connection up 45 s after the last sign of life. Unit: milliseconds.
 */
const OVERTAKEN_MS = 40_000;
/**
 * After a silence that was longer, a response to an earlier request is one that TCP sent again, not the one of a slow server. TCP waits
 * twice as long each time (RFC 6298): other connections may stay silent as long again as they were. Unit: milliseconds.
 */
const SENT_AGAIN_MS = 5000;
/** Between two questions to a server that is away. A refusal costs nothing; one that restarts is back within seconds. */
const PROBE_BACKOFF = { initialMs: 200, maxMs: 500, factor: 2, jitter: 0.5 };
/** A server that takes longer to return its version is of no use to the callers that wait. Unit: milliseconds. */
const PROBE_MS = 5000;

interface Outage {
  /** On the monotonic clock. */
  readonly sinceMs: number;
  /** Whether connections may be dead without either end knowing. */
  readonly isSilent: boolean;
}

export interface ReachabilityParts {
  readonly clock: Clock;
  readonly rng: Rng;
  /** The connections that are open now may swallow what is sent on them. */
  readonly onSuspicion: () => void;
  /** Sends something that does no harm, and notes what becomes of it. Never rejects. */
  readonly probe: (signal: AbortSignal) => Promise<void>;
}

/**
 * Whether a server can be reached, and which calls in flight are lost after it could not be: when a network drops packets
 * or a load balancer forgets connections, neither end is notified.
 *
 * While callers wait for an unreachable server, one probe about every half second is sent for all of them. Each caller
 * alone would back off up to half a minute, and would notice the return of the server that much later.
 */
export class Reachability implements Disposable {
  readonly #clock: Clock;
  readonly #parts: ReachabilityParts;
  readonly #listeners = new Set<() => void>();
  readonly #underWay = new Set<Exchange>();
  readonly #closing = new AbortController();
  #isProbing = false;
  #outage: Outage | undefined;

  constructor(parts: ReachabilityParts) {
    this.#clock = parts.clock;
    this.#parts = parts;
  }

  get isAway(): boolean {
    return this.#outage !== undefined;
  }

  /** Calls back each time the server answers again after it could not be reached. */
  onReachable(listener: () => void): Disposable {
    // Wrapped, so that one function given twice is called twice.
    const own = (): void => listener();
    this.#listeners.add(own);
    this.#probeLater();
    return { [Symbol.dispose]: () => void this.#listeners.delete(own) };
  }

  /**
   * A request goes out.
   *
   * @param silentAfterMs - Where no response came for so long nothing is sent any more on connections that are open.
   */
  begin(signal: AbortSignal | undefined, silentAfterMs: number | undefined): Exchange {
    const exchange: Exchange = new Exchange(this.#clock, signal, () => {
      timer?.[Symbol.dispose]();
      this.#underWay.delete(exchange);
    });
    const timer =
      silentAfterMs === undefined
        ? undefined
        : this.#clock.after(silentAfterMs, () => exchange.isAnswered || this.noteSilence());
    this.#underWay.add(exchange);
    return exchange;
  }

  /** A request failed before its response came, or within. */
  noteFailure(cause: unknown): void {
    const code = Error.isError(cause) && "code" in cause ? cause.code : undefined;
    if (typeof code === "string" && (SILENCE.has(code) || code === FORGOTTEN)) this.noteSilence();
    else {
      this.#outage ??= { sinceMs: this.#clock.monotonic(), isSilent: false };
      this.#probeLater();
    }
  }

  noteSilence(): void {
    this.#outage = { sinceMs: this.#outage?.sinceMs ?? this.#clock.monotonic(), isSilent: true };
    this.#parts.onSuspicion();
    this.#probeLater();
  }

  /** Stops probing. */
  [Symbol.dispose](): void {
    this.#closing.abort(new FleetError("ABORTED", "the client is closed"));
  }

  #probeLater(attempt = 0): void {
    if (this.#isProbing || !this.#isAwaited) return;
    this.#isProbing = true;
    this.#clock.after(backoffMs(PROBE_BACKOFF, attempt, this.#parts.rng), () => void this.#probe(attempt));
  }

  async #probe(attempt: number): Promise<void> {
    // Another call may have found out, or all who waited may have gone.
    if (this.#isAwaited) {
      const over = new AbortController();
      using _timer = this.#clock.after(PROBE_MS, () =>
        over.abort(new FleetError("TIMED_OUT", `no response for ${PROBE_MS} ms`)),
      );
      await this.#parts.probe(AbortSignal.any([over.signal, this.#closing.signal]));
    }
    this.#isProbing = false;
    this.#probeLater(attempt + 1);
  }

  /** A response to an earlier request shows, soon, that the server is slow, and that its connections are alive. */
  #isOver({ sinceMs }: Outage, { sentMs }: Exchange): boolean {
    return sentMs >= sinceMs || this.#clock.monotonic() - sinceMs > SENT_AGAIN_MS;
  }

  get #isAwaited(): boolean {
    return this.isAway && this.#listeners.size > 0 && !this.#closing.signal.aborted;
  }

  noteResponse(answered: Exchange): void {
    answered.isAnswered = true;
    answered.noteAnswer();
    const outage = this.#outage;
    this.#outage = undefined;
    if (outage !== undefined) for (const listener of this.#listeners) listener();
    const silence = outage?.isSilent === true && this.#isOver(outage, answered) ? outage : undefined;
    const sentBeforeMs =
      silence === undefined ? answered.sentMs - OVERTAKEN_MS : Math.max(answered.sentMs, silence.sinceMs);
    for (const it of this.#underWay) {
      const isLost = it.isAnswered
        ? silence !== undefined && it.seenMs < silence.sinceMs
        : it.sentMs < sentBeforeMs;
      if (isLost) it.lose();
    }
  }
}

/** A request that was sent and is not wholly answered yet. */
export class Exchange implements Disposable {
  /** On the monotonic clock. */
  readonly sentMs: number;
  isAnswered = false;
  readonly #clock: Clock;
  readonly #stop = new AbortController();
  readonly #asked: AbortSignal | undefined;
  readonly #onEnd: () => void;
  readonly #onAbort = (): void => this.#stop.abort(this.#asked?.reason);
  #seenMs: number;

  constructor(clock: Clock, asked: AbortSignal | undefined, onEnd: () => void) {
    this.#clock = clock;
    this.#asked = asked;
    this.#onEnd = onEnd;
    this.sentMs = clock.monotonic();
    this.#seenMs = this.sentMs;
    if (asked?.aborted === true) this.#onAbort();
    else asked?.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** Aborts with the caller's, and when the exchange is lost. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** When something of its response came last; at first, when it was sent. On the monotonic clock. */
  get seenMs(): number {
    return this.#seenMs;
  }

  noteAnswer(): void {
    this.#seenMs = this.#clock.monotonic();
  }

  lose(): void {
    this.#stop.abort(new FleetError("TIMED_OUT", "the connection predates an outage"));
  }

  /** The server answers, but nothing will ever come of this. */
  get isLost(): boolean {
    return this.#stop.signal.aborted && this.#asked?.aborted !== true;
  }

  [Symbol.dispose](): void {
    this.#asked?.removeEventListener("abort", this.#onAbort);
    this.#onEnd();
  }
}

/** The connection was open and ended before a response came, or was found to be dead. */
export function isCutOff(error: unknown): boolean {
  if (!hasCode(error, "API_UNAVAILABLE") || !Error.isError(error.cause)) return false;
  if (hasCode(error.cause, "TIMED_OUT")) return true;
  const code = "code" in error.cause ? error.cause.code : undefined;
  return code === "UND_ERR_SOCKET" || code === FORGOTTEN || code === "EPIPE";
}
