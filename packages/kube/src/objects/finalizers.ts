import { ignoreNotFound } from "./not-found.ts";
import { keyOf } from "#api/meta/key.ts";
import type { Resource } from "#api/meta/resource.ts";
import type { KubeObject } from "#api/meta/types.ts";
import type { CallOptions, KubeClient } from "#types.ts";

export function isDeleting(object: KubeObject): boolean {
  return object.metadata.deletionTimestamp !== undefined;
}

function hasFinalizer(object: KubeObject, finalizer: string): boolean {
  return object.metadata.finalizers?.includes(finalizer) === true;
}

/**
 * Adds a finalizer where it is not there yet; no request otherwise. An object that is being deleted takes no new ones
 * (API Concepts, "Finalizers"), and gets none.
 *
 * @returns The object as it is now.
 * @throws {FleetError} `API_CONFLICT` if the object was modified concurrently: try again with the newer one.
 */
export function addFinalizer<T extends KubeObject>(
  client: KubeClient,
  of: Resource<T>,
  object: T,
  { finalizer, ...options }: { readonly finalizer: string } & CallOptions,
): Promise<T> {
  return addFinalizers(client, of, object, { finalizers: [finalizer], ...options });
}

/** Adds several finalizers as `addFinalizer` does one, with at most one request. */
export async function addFinalizers<T extends KubeObject>(
  client: KubeClient,
  of: Resource<T>,
  object: T,
  parts: { readonly finalizers: readonly string[] } & CallOptions,
): Promise<T> {
  const missing = parts.finalizers.filter((it) => !hasFinalizer(object, it));
  if (missing.length === 0 || isDeleting(object)) return object;
  return patchFinalizers({ client, of, object }, [...(object.metadata.finalizers ?? []), ...missing], parts);
}

/** Removes a finalizer if present; otherwise sends no request. A concurrent deletion of the object is not an error. */
export async function removeFinalizer<T extends KubeObject>(
  client: KubeClient,
  of: Resource<T>,
  object: T,
  parts: { readonly finalizer: string } & CallOptions,
): Promise<void> {
  if (!hasFinalizer(object, parts.finalizer)) return;
  const rest = (object.metadata.finalizers ?? []).filter((it) => it !== parts.finalizer);
  await patchFinalizers({ client, of, object }, rest, parts).catch(ignoreNotFound);
}

/** The list is replaced as a whole, so it must be the list we saw: the patch carries its version. */
function patchFinalizers<T extends KubeObject>(
  at: { readonly client: KubeClient; readonly of: Resource<T>; readonly object: T },
  finalizers: readonly string[],
  options: CallOptions,
): Promise<T> {
  const { resourceVersion, uid } = at.object.metadata;
  const metadata = { finalizers, resourceVersion, uid };
  const signal = options.signal === undefined ? {} : { signal: options.signal };
  return at.client.mergePatch(at.of, keyOf(at.object), { metadata }, signal);
}
