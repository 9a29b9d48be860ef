import { byText } from "@fairlead/base/text.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  PARENT_PLACEMENT_LABEL,
  PLACEMENT_GENERATION_ANNOTATION,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import {
  CLUSTER_RESOURCE_PLACEMENTS,
  RESOURCE_PLACEMENTS,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type Collection, type Item, itemKey } from "./collect.ts";

/** Definitions and members need nothing; namespaces may be owned by members; all others need their namespaces. */
const FIRST: readonly (readonly [{ readonly group: string; readonly kind: string }, number])[] = [
  [CUSTOM_RESOURCE_DEFINITIONS, 0],
  [MEMBER_CLUSTERS, 0],
  [NAMESPACES, 1],
];
const OTHERS = 2;

/** The placement that a snapshot is of, whose generation it names. */
export function placementOf(collection: Collection, { object }: Item): Item | undefined {
  const { namespace, labels, annotations } = object.metadata;
  const name = labels?.[PARENT_PLACEMENT_LABEL];
  if (name === undefined || annotations?.[PLACEMENT_GENERATION_ANNOTATION] === undefined) return undefined;
  const of = namespace === undefined ? CLUSTER_RESOURCE_PLACEMENTS : RESOURCE_PLACEMENTS;
  return collection.get(itemKey(of, objectKey(namespace, name)));
}

/** In the order in which they can be created: owners before what they own, and in each step the oldest first. */
export function inOrder(collection: Collection): readonly (readonly Item[])[] {
  const byUid = new Map([...collection.values()].map((it) => [it.object.metadata.uid ?? "", it]));
  const known = new Map<Item, number>();
  const depthOf = (item: Item): number => {
    const before = known.get(item);
    if (before !== undefined) return before;
    const [, first = OTHERS] =
      FIRST.find(([of]) => of.group === item.of.group && of.kind === item.of.kind) ?? [];
    // An object cannot own itself, but what a hub says is not proof of it.
    known.set(item, first);
    const owners = (item.object.metadata.ownerReferences ?? []).flatMap((it) => byUid.get(it.uid) ?? []);
    const placement = placementOf(collection, item);
    const needed = placement === undefined ? owners : [...owners, placement];
    const depth = Math.max(first, ...needed.map((it) => depthOf(it) + 1));
    known.set(item, depth);
    return depth;
  };
  const steps = Map.groupBy(collection.values(), depthOf);
  return [...steps].toSorted(([a], [b]) => a - b).map(([, items]) => items.toSorted(byAge));
}

function byAge(a: Item, b: Item): number {
  const age = ({ object }: Item): string => object.metadata.creationTimestamp ?? "";
  return byText(age(a), age(b)) || byText(a.key, b.key);
}
