import type { KubeObject } from "#api/meta/types.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import type { WatchEvent } from "#types.ts";

export type ObjectEvent<T extends KubeObject> = Exclude<WatchEvent<T>, { readonly type: "ERROR" }>;

/** Between two looks whether more came. Unit: milliseconds. */
const LOOK_MS = 50;
/** This many looks in a row that find nothing new: a busy process reads what has arrived between two of them. */
const QUIET_LOOKS = 2;
/** A server whose objects change all the time is never quiet. Unit: milliseconds. */
const LONGEST_MS = 500;

/**
 * What a watch brings first when it resumes after a failure: each change of the time in which it was away. Only the last
 * one of each object is passed on, when no more come: what an object was in between, long ago, must not be acted on.
 */
export class Backlog<T extends KubeObject> implements Disposable {
  readonly #clock: Clock;
  readonly #pass: (event: ObjectEvent<T>) => void;
  /** By the object's identity: another one of its name is not what became of it. */
  readonly #events = new Map<string, ObjectEvent<T>>();
  readonly #untilMs: number;
  #quietLooks = 0;
  #timer: Disposable | undefined;

  constructor(clock: Clock, pass: (event: ObjectEvent<T>) => void) {
    this.#clock = clock;
    this.#pass = pass;
    this.#untilMs = clock.monotonic() + LONGEST_MS;
    this.#lookLater();
  }

  add(event: ObjectEvent<T>): void {
    if (this.#timer === undefined) {
      this.#pass(event);
      return;
    }
    this.#quietLooks = 0;
    const uid = event.object.metadata.uid ?? "";
    // In the order of the last ones, which ends with the version up to which all is known.
    this.#events.delete(uid);
    this.#events.set(uid, event);
  }

  #lookLater(): void {
    this.#timer = this.#clock.after(LOOK_MS, () => {
      this.#quietLooks += 1;
      const isOver = this.#quietLooks >= QUIET_LOOKS || this.#clock.monotonic() >= this.#untilMs;
      if (isOver) this[Symbol.dispose]();
      else this.#lookLater();
    });
  }

  /** Passes on what came so far: a watch that keeps breaking must not hold changes back. */
  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    for (const event of this.#events.values()) this.#pass(event);
    this.#events.clear();
  }
}
