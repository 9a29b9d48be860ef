import { byText } from "@fairlead/base/text.ts";
import type { PlacedOnLeave } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";

/** What became of placed objects in a cluster that has left its fleet, for people. */

/** As many as an Event holds in words; the others are in the total. */
const MOST_KINDS = 20;

/** "3 objects (ConfigMap 2, Namespace 1)". */
export function countKinds(kinds: Iterable<string>): string {
  const counts = new Map<string, number>();
  let total = 0;
  for (const kind of kinds) {
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
    total++;
  }
  const sorted = [...counts].toSorted(([a], [b]) => byText(a, b));
  const named = sorted.slice(0, MOST_KINDS).map(([kind, count]) => `${kind} ${count}`);
  const rest = sorted.length > MOST_KINDS ? ", …" : "";
  return `${total} ${total === 1 ? "object" : "objects"}${total === 0 ? "" : ` (${named.join(", ")}${rest})`}`;
}

const VERBS = { Keep: "kept", Delete: "deleted", Orphan: "orphaned" } as const;

/** What the member says of the Works in its mailbox when it has left. */
export function describePlaced(works: Iterable<Work>, placed: PlacedOnLeave): string {
  const kinds = [...works].flatMap(({ spec: { workload } }) =>
    (workload?.manifests ?? []).map((it) => kindOf(it)),
  );
  return `${VERBS[placed]} ${countKinds(kinds)}`;
}

/** Users write them. */
function kindOf(manifest: { readonly kind?: unknown }): string {
  return typeof manifest.kind === "string" ? manifest.kind.slice(0, 63) : "unknown";
}
