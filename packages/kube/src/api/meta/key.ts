import type { KubeObject } from "./types.ts";

/** "namespace/name", or "name" when cluster-scoped: what a work queue holds. */
export type ObjectKey = string & { readonly __brand: "ObjectKey" };

export function objectKey(namespace: string | undefined, name: string): ObjectKey {
  return (namespace === undefined || namespace === "" ? name : `${namespace}/${name}`) as ObjectKey;
}

export function keyOf(object: KubeObject): ObjectKey {
  return objectKey(object.metadata.namespace, object.metadata.name);
}

/** The two halves of a key. `namespace` is undefined for a cluster-scoped object. */
export function splitKey(key: ObjectKey): { readonly namespace: string | undefined; readonly name: string } {
  const slash = key.indexOf("/");
  if (slash < 0) return { namespace: undefined, name: key };
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}
