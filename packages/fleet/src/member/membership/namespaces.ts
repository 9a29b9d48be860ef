import type { Namespace } from "@fairlead/kube/api/core/v1/types.ts";
import { byText } from "@fairlead/base/text.ts";
import type { Collected } from "./property-provider.ts";

export const NAMESPACES_COLLECTED = "NamespaceCollectionSucceeded";
/** As many as KubeFleet tracks. */
export const MAX_TRACKED = 200;

/** The namespaces of the cluster with the Works that placed them; the first by name if there are too many to track. */
export function planNamespaces(
  namespaces: Iterable<Namespace>,
): Pick<Collected, "namespaces" | "conditions"> {
  const all = [...namespaces].toSorted((a, b) => byText(a.metadata.name, b.metadata.name));
  const tracked = all.slice(0, MAX_TRACKED);
  const isWhole = tracked.length === all.length;
  return {
    namespaces: new Map(
      tracked.map(({ metadata: { name, ownerReferences = [] } }) => [
        name,
        ownerReferences.find((it) => it.kind === "AppliedWork")?.name ?? "",
      ]),
    ),
    conditions: [
      {
        type: NAMESPACES_COLLECTED,
        status: isWhole ? "True" : "False",
        reason: isWhole ? "Succeeded" : "Degraded",
        message: `${tracked.length} of ${all.length} namespaces`,
      },
    ],
  };
}
