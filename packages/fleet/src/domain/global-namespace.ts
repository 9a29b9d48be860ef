import type { ObjectMeta } from "@fairlead/kube/api/meta/types.ts";

/** Annotation of a Namespace: whether its Services and pods may be known to other clusters. */
export const GLOBAL_NAMESPACE_ANNOTATION = "clustermesh.cilium.io/global";

/**
 * Returns true if other clusters may use the services of a namespace, and know its pods. The annotation decides where it is
 * present: "true" in any case means global, every other value means local.
 *
 * @param namespace - Undefined: it does not exist, or cannot be read; the default counts.
 * @param isGlobalByDefault - `spec.defaultGlobalNamespace` of the network; true without one.
 */
export function isGlobalNamespace(
  namespace: { readonly metadata: Pick<ObjectMeta, "annotations"> } | undefined,
  isGlobalByDefault = true,
): boolean {
  const value = namespace?.metadata.annotations?.[GLOBAL_NAMESPACE_ANNOTATION];
  return value === undefined ? isGlobalByDefault : value.toLowerCase() === "true";
}
