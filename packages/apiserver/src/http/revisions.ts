import type { Clock } from "@fairlead/base/clock.ts";
import { StatusError } from "#status.ts";
import type { Store } from "#storage/store.ts";
import type { AwaitRevision } from "./list.ts";

/** As the real server's watch cache. Unit: milliseconds. */
const MAX_WAIT_MS = 3000;

/** Waits for revisions that a client knows from elsewhere and this store has not reached yet. */
export function revisionAwaiter(store: Store, clock: Clock): AwaitRevision {
  const waiting = new Set<() => void>();
  store.onCommit(() => {
    for (const check of waiting) check();
  });
  return (revision) =>
    new Promise((resolve, reject) => {
      const settle = (): void => {
        timer[Symbol.dispose]();
        waiting.delete(check);
      };
      const check = (): void => {
        if (store.revision < revision) return;
        settle();
        resolve();
      };
      const timer = clock.after(MAX_WAIT_MS, () => {
        settle();
        reject(tooLargeRevision(revision, store.revision));
      });
      waiting.add(check);
      check();
    });
}

/** Source: apiserver, pkg/storage/errors.go, NewTooLargeResourceVersionError. */
function tooLargeRevision(revision: number, current: number): StatusError {
  const message = `Too large resource version: ${revision}, current: ${current}`;
  return new StatusError({
    code: 504,
    reason: "Timeout",
    message: `Timeout: ${message}`,
    details: {
      retryAfterSeconds: 1,
      causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }],
    },
  });
}
