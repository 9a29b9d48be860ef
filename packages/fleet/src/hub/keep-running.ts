import { delay } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";

/** Between two attempts, growing. Unit: milliseconds. */
const RETRY_MS = { min: 1000, max: 60_000 };

/**
 * Runs a part of the hub that no other waits for, until it is disposed or `signal` aborts; again when it fails.
 *
 * @param what - The part, for the log.
 */
export function keepRunning(
  what: string,
  run: (signal: AbortSignal) => Promise<void>,
  deps: RuntimeDeps,
  signal: AbortSignal,
): AsyncDisposable {
  const stop = new AbortController();
  const running = repeat(what, run, deps, AbortSignal.any([signal, stop.signal]));
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
    },
  };
}

async function repeat(
  what: string,
  run: (signal: AbortSignal) => Promise<void>,
  { clock, log }: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  for (let retryMs = RETRY_MS.min; !signal.aborted; retryMs = Math.min(RETRY_MS.max, retryMs * 2))
    try {
      await run(signal);
    } catch (error) {
      if (signal.aborted) return;
      log.error(`${what} failed, retrying`, { error: messageOf(error) });
      await delay(clock, retryMs, signal).catch(() => {});
    }
}
