import { abortable } from "@fairlead/base/abortable.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import type { Resource } from "#api/meta/resource.ts";
import type { KubeObject } from "#api/meta/types.ts";
import type { KubeClient } from "#types.ts";
import { createInformer } from "./informer.ts";

export interface FirstObject {
  /** Kinds that are watched until one of them has an object. */
  readonly awaited: readonly Resource[];
  /** Kinds whose objects come after those of the others, and may be left of them: they are looked at once. */
  readonly left: readonly Resource[];
}

/**
 * Resolves when one of the kinds has an object: what works on them needs no cache of its own before. Each kind costs one request: a watch
 * for metadata, or a list of at most one object. A kind that is not served, or may not be read, has no objects.
 */
export async function untilFirstObject(
  client: KubeClient,
  { awaited, left }: FirstObject,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const found = Promise.withResolvers<void>();
  for (const of of awaited) {
    const informer = stack.use(
      createInformer<KubeObject>(client, of, { returns: "metadata", isOptional: () => true }, deps),
    );
    stack.use(
      informer.subscribe(({ after }) => {
        if (after !== undefined) found.resolve();
      }),
    );
    informer.start(signal);
  }
  const looks = left.map(async (it) => {
    if (await hasObject(client, it, signal)) found.resolve();
  });
  Promise.all(looks).catch(found.reject);
  await abortable(found.promise, signal);
}

async function hasObject(client: KubeClient, of: Resource, signal: AbortSignal): Promise<boolean> {
  try {
    const { items } = await client.list(of, { limit: 1, returns: "metadata", signal });
    return items.length > 0;
  } catch (error) {
    if (hasCode(error, "API_NOT_FOUND", "API_FORBIDDEN")) return false;
    throw error;
  }
}
