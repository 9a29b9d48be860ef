import type { ApiObject } from "#values/object.ts";

/** Keeps an object while it is in use: a controller removes the finalizer when it is unused. */
export function protect(object: ApiObject, finalizer: string): void {
  const { finalizers = [] } = object.metadata;
  if (!finalizers.includes(finalizer)) object.metadata.finalizers = [...finalizers, finalizer];
}
