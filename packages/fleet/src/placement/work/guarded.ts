import { isObject } from "@fairlead/base/json.ts";
import { GLOBAL_NAMESPACE_ANNOTATION } from "#domain/global-namespace.ts";
import type { Manifest } from "./manifest.ts";

/**
 * Settings of a Namespace that decide more than its labels say: what pods in it may do on their nodes, and what it is to the fleet. A
 * member takes them from its hub only if the role that it applies with has this verb on namespaces, as cluster-admin has.
 */
export const GUARD = { verb: "administer", of: { group: "", plural: "namespaces" } } as const;

const PREFIXES = ["pod-security.kubernetes.io/", "fairlead.dev/"];

/** Returns the first guarded label or annotation, if the manifest has one. */
export function guardedSetting({
  group,
  kind,
  object: { metadata },
}: Pick<Manifest, "group" | "kind" | "object">): string | undefined {
  if (group !== "" || kind !== "Namespace") return undefined;
  return [metadata.labels, metadata.annotations]
    .flatMap((it) => (isObject(it) ? Object.keys(it) : []))
    .find((it) => it === GLOBAL_NAMESPACE_ANNOTATION || PREFIXES.some((prefix) => it.startsWith(prefix)));
}
