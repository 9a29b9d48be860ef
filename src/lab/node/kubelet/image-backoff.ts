import type { Clock } from "#base/clock.ts";
import type { ImageProgram, ImageResult } from "../../images/catalogue.ts";
import type { Waiting } from "../pod/status.ts";

/** First and longest time between two looks for an image that was not there. Source: kubelet. Unit: milliseconds. */
const INITIAL_MS = 10_000;
const MAX_MS = 300_000;

export type ImageAttempt =
  | { readonly found: true; readonly program: ImageProgram }
  | { readonly found: false; readonly waiting: Waiting; readonly isNew: boolean };

/** Looks for images again, less and less often, as pulls that fail are tried again. */
export class ImageBackoff {
  readonly #clock: Clock;
  readonly #failures = new Map<
    string,
    { readonly untilMs: number; readonly delayMs: number; readonly message: string }
  >();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param container - Each container has a back-off of its own. */
  resolve(container: string, look: () => ImageResult): ImageAttempt {
    const failure = this.#failures.get(container);
    if (failure !== undefined && failure.untilMs > this.#clock.now()) {
      const waiting = { reason: "ImagePullBackOff", message: `Back-off pulling image: ${failure.message}` };
      return { found: false, waiting, isNew: false };
    }
    const result = look();
    if (result.found) {
      this.#failures.delete(container);
      return result;
    }
    const delayMs = failure === undefined ? INITIAL_MS : Math.min(MAX_MS, failure.delayMs * 2);
    const { reason, message } = result;
    this.#failures.set(container, { untilMs: this.#clock.now() + delayMs, delayMs, message });
    return { found: false, waiting: { reason, message }, isNew: true };
  }

  /** When the next look is due. Unit: milliseconds since the Unix epoch. */
  get dueAtMs(): number | undefined {
    const times = [...this.#failures.values()].map((it) => it.untilMs);
    return times.length === 0 ? undefined : Math.min(...times);
  }
}
