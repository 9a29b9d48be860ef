import type { ApiObject } from "#values/object.ts";

/** Keeps an object while it is in use: a controller takes the finalizer away when it is not. */
export function protect(object: ApiObject, finalizer: string): void {
  const { finalizers = [] } = object.metadata;
  if (!finalizers.includes(finalizer)) object.metadata.finalizers = [...finalizers, finalizer];
}
