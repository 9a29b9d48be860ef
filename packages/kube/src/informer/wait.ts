import { defined } from "@fairlead/base/defined.ts";
import type { ObjectKey } from "#api/meta/key.ts";
import { splitKey } from "#api/meta/key.ts";
import type { Resource } from "#api/meta/resource.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "./informer.ts";
import type { KubeClient } from "#types.ts";

export interface WaitOptions<T extends KubeObject> {
  readonly of: Resource<T>;
  readonly key: ObjectKey;
  /** Unit: milliseconds. */
  readonly timeoutMs: number;
  /** Whether the object (undefined if it does not exist) is in the awaited state. */
  readonly until: (object: T | undefined) => boolean;
  /** The error message on timeout. */
  readonly message: (object: T | undefined) => string;
}

/**
 * Watches one object until it is as it has to be.
 *
 * @throws {FleetError} `TIMED_OUT` with `message`.
 */
export async function waitFor<T extends KubeObject>(
  client: KubeClient,
  options: WaitOptions<T>,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<T | undefined> {
  const { of, key, timeoutMs, until, message } = options;
  const { namespace, name } = splitKey(key);
  await using informer = createInformer(
    client,
    of,
    { fieldSelector: `metadata.name=${name}`, ...defined({ namespace }) },
    deps,
  );
  const done = Promise.withResolvers<T | undefined>();
  const look = (): void => {
    const object = informer.store.get(key);
    if (informer.hasSynced && until(object)) done.resolve(object);
  };
  const onAbort = (): void => done.reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  using _timer = deps.clock.after(timeoutMs, () =>
    done.reject(new FleetError("TIMED_OUT", message(informer.store.get(key)))),
  );
  using _watch = informer.subscribe(look);
  informer.start(signal);
  informer.synced(signal).then(look, () => {});
  try {
    return await done.promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
