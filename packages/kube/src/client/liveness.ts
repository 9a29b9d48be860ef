import type { Clock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";

export interface LivenessGuard extends Disposable {
  /** Aborts with the caller's signal, or when the stream stays silent for too long. */
  readonly signal: AbortSignal;
  readonly isDead: boolean;
  /** Passes `chunks` on and notes that they came. */
  watchOver(chunks: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>;
}

/**
 * Ends a stream on which nothing came for `limitMs`: a deadline on silence, not on length. One timer, moved on when it
 * fires, not with every chunk.
 *
 * @param limitMs - undefined means no limit.
 */
export function livenessGuard(clock: Clock, limitMs: number | undefined, signal: AbortSignal): LivenessGuard {
  const dead = new AbortController();
  let lastMs = clock.monotonic();
  let timer: Disposable | undefined;
  function arm(silenceLimitMs: number): void {
    timer = clock.after(lastMs + silenceLimitMs - clock.monotonic(), () => {
      if (clock.monotonic() - lastMs < silenceLimitMs) arm(silenceLimitMs);
      else dead.abort(new FleetError("TIMED_OUT", `no data received for ${silenceLimitMs} ms`));
    });
  }
  if (limitMs !== undefined) arm(limitMs);
  return {
    signal: limitMs === undefined ? signal : AbortSignal.any([signal, dead.signal]),
    get isDead() {
      return dead.signal.aborted;
    },
    async *watchOver(chunks) {
      for await (const chunk of chunks) {
        lastMs = clock.monotonic();
        yield chunk;
      }
    },
    [Symbol.dispose]: () => timer?.[Symbol.dispose](),
  };
}
