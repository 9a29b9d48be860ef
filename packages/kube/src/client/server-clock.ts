import type { Clock } from "@fairlead/base/clock.ts";

/** The time of a server's clock, estimated from its responses. */
export interface ServerTime {
  /** Unit: milliseconds since the Unix epoch. */
  readonly nowMs: number;
  /** The true value is at most this far off. Unit: milliseconds. */
  readonly errorMs: number;
}

/** How much two clocks may drift apart: NTP's bound of 500 ppm for the machines' own. */
const DRIFT = 5e-4;

/**
 * Learns a server's clock from the Date of its responses (RFC 9110, section 6.6.1), which has whole seconds: it was read
 * between the sending of the request and the coming of the response, so each response bounds the difference of the clocks from
 * both sides, and what all bounds have in common soon is as narrow as a round trip. Our own side is the monotonic clock:
 * setting the machine's clock changes nothing.
 */
export class ServerClock {
  readonly #clock: Clock;
  /** Bounds of the server's time minus our monotonic time, as of `atMs`. */
  #bounds: { readonly lowMs: number; readonly highMs: number; readonly atMs: number } | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param sentMs - Both on the monotonic clock. */
  observe(date: string, sentMs: number, receivedMs: number): void {
    const dateMs = Date.parse(date);
    if (Number.isNaN(dateMs)) return;
    const seen = { lowMs: dateMs - receivedMs, highMs: dateMs + 1000 - sentMs, atMs: receivedMs };
    const before = this.#bounds;
    if (before === undefined) {
      this.#bounds = seen;
      return;
    }
    const driftMs = Math.max(0, receivedMs - before.atMs) * DRIFT;
    const lowMs = Math.max(seen.lowMs, before.lowMs - driftMs);
    const highMs = Math.min(seen.highMs, before.highMs + driftMs);
    // Bounds that have nothing in common: the server's clock was set, or another server answers.
    this.#bounds = lowMs <= highMs ? { lowMs, highMs, atMs: receivedMs } : seen;
  }

  /** Undefined before the first response. */
  get time(): ServerTime | undefined {
    if (this.#bounds === undefined) return undefined;
    const { lowMs, highMs, atMs } = this.#bounds;
    const nowMs = this.#clock.monotonic();
    const errorMs = (highMs - lowMs) / 2 + Math.max(0, nowMs - atMs) * DRIFT;
    return { nowMs: nowMs + (lowMs + highMs) / 2, errorMs };
  }
}

/** The time of the server behind `client`, as far as it is known: for what that server wrote, or will judge by. */
export function clockOfServer(client: { readonly serverTime: ServerTime | undefined }, clock: Clock): Clock {
  return {
    now: () => client.serverTime?.nowMs ?? clock.now(),
    monotonic: () => clock.monotonic(),
    after: (delayMs, callback) => clock.after(delayMs, callback),
  };
}
