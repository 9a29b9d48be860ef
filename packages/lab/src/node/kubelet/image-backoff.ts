import type { Clock } from "@fairlead/base/clock.ts";
import type { ImageProgram, ImageResult } from "#images/catalogue.ts";
import type { Waiting } from "../pod/status.ts";
import type { PodEvent } from "./context.ts";

/** First and longest time between two looks for an image that was not there. Source: kubelet. Unit: milliseconds. */
const INITIAL_MS = 10_000;
const MAX_MS = 300_000;

export type ImageAttempt =
  | { readonly found: true; readonly program: ImageProgram; readonly events: readonly PodEvent[] }
  | { readonly found: false; readonly waiting: Waiting; readonly events: readonly PodEvent[] };

export interface ImageWish {
  /** Each container has its own back-off. */
  readonly container: string;
  readonly image: string;
  readonly pullPolicy: string;
}

interface Failure {
  readonly untilMs: number;
  readonly delayMs: number;
  readonly reason: string;
  readonly message: string;
}

/** Looks for images again, less and less often, as pulls that fail are tried again. Source: pkg/kubelet/images. */
export class ImageBackoff {
  readonly #clock: Clock;
  readonly #failures = new Map<string, Failure>();
  /** Containers whose image back-off has been reported. */
  readonly #reportedOf = new Set<string>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  resolve(wish: ImageWish, look: () => ImageResult): ImageAttempt {
    const { container, image, pullPolicy } = wish;
    const failure = this.#failures.get(container);
    if (failure !== undefined && failure.untilMs > this.#clock.now()) return this.#backOff(wish, failure);
    const result = look();
    this.#reportedOf.delete(container);
    if (result.found) {
      this.#failures.delete(container);
      return { ...result, events: foundEvents(image, pullPolicy) };
    }
    const delayMs = failure === undefined ? INITIAL_MS : Math.min(MAX_MS, failure.delayMs * 2);
    const isNever = result.reason === "ErrImagePull" && pullPolicy === "Never";
    const reason = isNever ? "ErrImageNeverPull" : result.reason;
    const message = isNever
      ? `Container image "${image}" is not present with pull policy of Never`
      : result.message;
    this.#failures.set(container, { untilMs: this.#clock.now() + delayMs, delayMs, reason, message });
    return { found: false, waiting: { reason, message }, events: failureEvents(image, reason, message) };
  }

  /** When the next look is due. Unit: milliseconds since the Unix epoch. */
  get dueAtMs(): number | undefined {
    const times = [...this.#failures.values()].map((it) => it.untilMs);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  #backOff({ container, image }: ImageWish, { reason, message }: Failure): ImageAttempt {
    // Nothing was pulled that could be pulled again: it is only looked at again.
    if (reason !== "ErrImagePull") return { found: false, waiting: { reason, message }, events: [] };
    const waiting = {
      reason: "ImagePullBackOff",
      message: `Back-off pulling image "${image}": ErrImagePull: ${message}`,
    };
    const isReported = this.#reportedOf.has(container);
    this.#reportedOf.add(container);
    const events: readonly PodEvent[] = isReported
      ? []
      : [
          { type: "Normal", reason: "BackOff", message: `Back-off pulling image "${image}"` },
          { type: "Warning", reason: "Failed", message: "Error: ImagePullBackOff" },
        ];
    return { found: false, waiting, events };
  }
}

function foundEvents(image: string, pullPolicy: string): readonly PodEvent[] {
  if (pullPolicy !== "Always") {
    const message = `Container image "${image}" already present on machine and can be accessed by the pod`;
    return [{ type: "Normal", reason: "Pulled", message }];
  }
  const message = `Successfully pulled image "${image}" in 0s (0s including waiting). Image size: 0 bytes.`;
  return [
    { type: "Normal", reason: "Pulling", message: `Pulling image "${image}"` },
    { type: "Normal", reason: "Pulled", message },
  ];
}

function failureEvents(image: string, reason: string, message: string): readonly PodEvent[] {
  const error: PodEvent = { type: "Warning", reason: "Failed", message: `Error: ${reason}` };
  switch (reason) {
    case "InvalidImageName":
      return [{ type: "Warning", reason: "InspectFailed", message }, error];
    case "ErrImageNeverPull":
      return [{ type: "Warning", reason, message }, error];
    default:
      return [
        { type: "Normal", reason: "Pulling", message: `Pulling image "${image}"` },
        { type: "Warning", reason: "Failed", message: `Failed to pull image "${image}": ${message}` },
        error,
      ];
  }
}
