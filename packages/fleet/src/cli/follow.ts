import { abortable } from "@fairlead/base/abortable.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { type ObjectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/** Calls back with an object each time that it changes, until `isOver` says so or the object is deleted. */
export async function followObject<T extends KubeObject>(
  hub: KubeClient,
  { of, key }: { readonly of: Resource<T>; readonly key: ObjectKey },
  isOver: (object: T) => boolean,
  { deps, signal }: { readonly deps: RuntimeDeps; readonly signal: AbortSignal },
): Promise<void> {
  const { namespace, name } = splitKey(key);
  const options = { ...defined({ namespace }), fieldSelector: `metadata.name=${name}` };
  const done = Promise.withResolvers<void>();
  await using informer = createInformer(hub, of, options, deps);
  let seen: T | undefined;
  const look = (): void => {
    const object = informer.store.get(key);
    if (object !== undefined && object === seen) return;
    seen = object;
    if (object === undefined ? informer.hasSynced : isOver(object)) done.resolve();
  };
  using _changes = informer.subscribe(look);
  informer.start(signal);
  await informer.synced(signal);
  look();
  await abortable(done.promise, signal);
}
