import { abortError } from "./clock.ts";

/**
 * Waits for `promise`, but no longer than until `signal` aborts. The work behind the promise continues.
 *
 * @throws {FleetError} `ABORTED`
 */
export async function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) {
    // The caller no longer waits, so a failure must not become an unhandled rejection.
    promise.catch(() => {});
    throw abortError(signal);
  }
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(abortError(signal));
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/**
 * Aborts `controller` when `signal` does. In place of `AbortSignal.any` where a signal lives long and is asked often: a
 * joined signal looks at all its sources each time that `aborted` is read.
 */
export function abortWith(controller: AbortController, signal: AbortSignal): void {
  const onAbort = (): void => controller.abort(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true, signal: controller.signal });
}

/** Resolves when `signal` aborts: what a program waits for once everything runs. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
