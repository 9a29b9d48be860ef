import type { Clock } from "@fairlead/base/clock.ts";
import type { Store } from "#storage/store.ts";
import type { ApiObject, ObjectReader } from "#values/object.ts";
import type { WriteRequest } from "./write.ts";

/**
 * A namespace gets its default ServiceAccount from a controller, a moment after it was made. The real server looks ten times,
 * 100 to 200 ms apart, before it refuses a pod. Source: plugin/pkg/admission/serviceaccount. Unit: milliseconds.
 */
const MAX_WAIT_MS = 1500;

/** Lets a new object wait for what the cluster makes by itself. */
export class Prerequisites {
  readonly #reader: ObjectReader;
  readonly #clock: Clock;
  readonly #waiting = new Set<() => void>();

  constructor(store: Store, reader: ObjectReader, clock: Clock) {
    this.#reader = reader;
    this.#clock = clock;
    store.onCommit(() => {
      for (const check of this.#waiting) check();
    });
  }

  /** Resolves once what `object` needs exists, or after a timeout; the write then detects that it is missing. */
  wait({ definition, namespace }: WriteRequest, object: ApiObject): Promise<void> {
    const { lacksPrerequisite } = definition.strategy;
    const isLacking = (): boolean => lacksPrerequisite?.(object, namespace, this.#reader) === true;
    if (!isLacking()) return Promise.resolve();
    return new Promise((resolve) => {
      const settle = (): void => {
        timer[Symbol.dispose]();
        this.#waiting.delete(check);
        resolve();
      };
      const check = (): void => {
        if (!isLacking()) settle();
      };
      const timer = this.#clock.after(MAX_WAIT_MS, settle);
      this.#waiting.add(check);
    });
  }
}
