import type { Clock } from "@fairlead/base/clock.ts";
import { StatusError } from "#status.ts";

/**
 * Thrown by synchronous work that needs an external answer. The caller awaits `settle`, which stores the answer where the
 * work finds it, and then runs the work again on the current state.
 */
export class Pending extends Error {
  /** Rejects with the error of the request if it cannot continue without the answer. */
  readonly settle: (signal: AbortSignal) => Promise<void>;

  constructor(settle: (signal: AbortSignal) => Promise<void>) {
    super("waits for an answer from outside");
    this.settle = settle;
  }
}

/** How long all attempts of one request may take, as the real server has it. Unit: milliseconds. */
const REQUEST_TIMEOUT_MS = 34_000;

export interface Patience {
  readonly clock: Clock;
  /** Aborts when no request waits for the answer any more. */
  readonly signal?: (() => AbortSignal) | undefined;
}

/** Runs `attempt` until it needs no answers that it does not have. Costs nothing where it needs none. */
export async function untilSettled<T>(
  attempt: () => T | Promise<T>,
  { clock, signal }: Patience,
): Promise<T> {
  let waiting: Deadline | undefined;
  try {
    for (;;) {
      const result = await pendingOr(attempt);
      if (!(result instanceof Pending)) return result;
      waiting ??= startDeadline(clock, signal?.());
      await result.settle(waiting.signal);
      if (waiting.signal.aborted) throw requestTimeout();
    }
  } finally {
    waiting?.[Symbol.dispose]();
  }
}

async function pendingOr<T>(attempt: () => T | Promise<T>): Promise<T | Pending> {
  try {
    return await attempt();
  } catch (error) {
    if (error instanceof Pending) return error;
    throw error;
  }
}

interface Deadline extends Disposable {
  readonly signal: AbortSignal;
}

function startDeadline(clock: Clock, client: AbortSignal | undefined): Deadline {
  const controller = new AbortController();
  const timer = clock.after(REQUEST_TIMEOUT_MS, () => controller.abort());
  const signal = client === undefined ? controller.signal : AbortSignal.any([client, controller.signal]);
  return { signal, [Symbol.dispose]: () => timer[Symbol.dispose]() };
}

function requestTimeout(): StatusError {
  const message = "Timeout: request did not complete within requested timeout - context deadline exceeded";
  return new StatusError({ code: 504, reason: "Timeout", message, details: {} });
}
