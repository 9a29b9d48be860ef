import { hasCode } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { apiVersionOf } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { cleaned } from "#placement/selection/cleaning.ts";
import { kindKey } from "#placement/selection/kinds.ts";
import { HubObjects, type ListObjects, listing } from "../placement/selected.ts";
import { type Collection, type Item, itemKey, placementsIn } from "./collect.ts";
import type { Move } from "./members.ts";

/** Objects of others on the hub that gets the fleet. */
export interface Conflicts {
  /** Those by the names of what placements select, with other contents. */
  readonly different: readonly Item[];
  /** Those that placements would select in addition. */
  readonly added: readonly Item[];
}

/** @returns What placements would place from the hub that gets the fleet, but not as it is on the one that has it. */
export async function conflicts(
  { from, to, signal }: Move,
  there: Collection,
  here: Collection,
): Promise<Conflicts> {
  const isOfOthers = (name: string): boolean => here.get(name)?.isSelected !== true;
  const present = new Map<string, KubeObject>();
  const objectsOfTo = listing(to.client, signal);
  const asCopied: ListObjects = async (of, namespace) => {
    const items = [...(await whereServed(objectsOfTo(of, namespace)))];
    for (const it of items) present.set(itemKey(of, keyOf(it)), it);
    const coming = [...there.values()].filter((it) => kindKey(it.of) === kindKey(of));
    return new Map([...items, ...coming.map((it) => it.object)].map((it) => [keyOf(it), it])).values();
  };
  const hub = await HubObjects.of(from.client, signal, asCopied);
  const added = new Map<string, Item>();
  for (const placement of placementsIn(there)) {
    for (const { of, object } of (await hub.select(placement)).objects) {
      const [key, name] = [keyOf(object), itemKey(of, keyOf(object))];
      if (!there.has(name) && isOfOthers(name)) added.set(name, { of, key, object, isSelected: true });
    }
  }
  const different = [...there.entries()].flatMap(([name, item]) => {
    const { of, content } = item;
    const it = present.get(name);
    if (content === undefined || it === undefined || !isOfOthers(name)) return [];
    const placed = cleaned({ ...it, apiVersion: apiVersionOf(of), kind: of.kind });
    return sameJson(placed, content) ? [] : [item];
  });
  return { different, added: [...added.values()] };
}

/** Nothing, of a kind whose definition is copied yet. */
async function whereServed(listed: Promise<Iterable<KubeObject>>): Promise<Iterable<KubeObject>> {
  try {
    return await listed;
  } catch (error) {
    if (hasCode(error, "API_NOT_FOUND")) return [];
    throw error;
  }
}
