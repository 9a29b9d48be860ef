/** Waits of tests. Each fails with what was there last; where `expect.poll` shows enough of that, it does as well. */

import { type ObjectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { defined } from "@fairlead/base/defined.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import type { KubeClient, ListOptions } from "@fairlead/kube/types.ts";
import { IS_REAL } from "../../packages/apiserver/test/real-server.ts";

/** The garbage collector of a real cluster reads every 30 s which kinds there are. Unit: milliseconds. */
const EVENTUALLY_MS = IS_REAL ? 60_000 : 20_000;

export interface Patience {
  /** Longest wait: for anything that a busy machine may delay. Unit: milliseconds. Default: 30 s. */
  readonly timeoutMs?: number;
  /** Between two looks. Unit: milliseconds. Default: 100. */
  readonly everyMs?: number;
}

/**
 * Asks until the answer satisfies, for state outside the API that has no watch. The last answer, or the last error,
 * is in the message when the time is over.
 */
export async function until<T>(
  what: string,
  read: () => Promise<T>,
  isEnough: (value: T) => boolean,
  { timeoutMs = 30_000, everyMs = 100 }: Patience = {},
): Promise<T> {
  const deadlineMs = systemClock.monotonic() + timeoutMs;
  let last: unknown;
  for (;;) {
    try {
      const value = await read();
      if (isEnough(value)) return value;
      last = value;
    } catch (error) {
      last = error;
    }
    if (systemClock.monotonic() > deadlineMs)
      throw new Error(`${what}: not so within ${timeoutMs / 1000} s; last: ${show(last)}`);
    await delay(systemClock, everyMs, new AbortController().signal);
  }
}

function show(value: unknown): string {
  return Error.isError(value) ? value.message : JSON.stringify(value)?.slice(0, 2000);
}

type Selected = Pick<ListOptions, "namespace" | "labelSelector" | "fieldSelector">;
type Watched = Selected & Pick<Patience, "timeoutMs">;

/** Resolves with the objects of a kind once there is enough of them; fails showing how they are. */
export async function eventually<T extends KubeObject>(
  client: KubeClient,
  of: Resource<T>,
  isEnough: (objects: readonly T[]) => boolean,
  options: Watched = {},
): Promise<readonly T[]> {
  const { timeoutMs = EVENTUALLY_MS, ...watched } = options;
  await using informer = createInformer(client, of, watched, systemDeps(silentLogger));
  const stop = new AbortController();
  const done = Promise.withResolvers<readonly T[]>();
  const look = (): void => {
    const objects = [...informer.store.list()];
    if (informer.hasSynced && isEnough(objects)) done.resolve(objects);
  };
  using _watch = informer.subscribe(look);
  const timer = setTimeout(() => {
    const shown = JSON.stringify([...informer.store.list()], undefined, 1).slice(0, 6000);
    done.reject(new Error(`${of.plural} did not become as expected:\n${shown}`));
  }, timeoutMs);
  informer.start(stop.signal);
  void informer.synced(stop.signal).then(look, () => {});
  try {
    return await done.promise;
  } finally {
    clearTimeout(timer);
    stop.abort();
  }
}

/** One object, once it is as wanted. */
export async function eventuallyOne<T extends KubeObject>(
  client: KubeClient,
  of: Resource<T>,
  key: ObjectKey,
  isSo: (object: T) => boolean = () => true,
): Promise<T> {
  const { namespace, name } = splitKey(key);
  const [found] = await eventually(client, of, (objects) => objects.some(isSo), {
    ...defined({ namespace }),
    fieldSelector: `metadata.name=${name}`,
  });
  if (found === undefined) throw new Error("unreachable");
  return found;
}
