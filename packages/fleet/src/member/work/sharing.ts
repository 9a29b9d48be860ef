import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { Change, Informer } from "@fairlead/kube/types.ts";
import type { Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { idOf } from "#placement/work/manifest.ts";
import type { WorkPass } from "./parts.ts";

/** Works that have the same objects. */

/** Index of Works by the objects in them. */
export const OF_OBJECT = "object";

/** The other Works that have an object and share it, with their priorities. */
export function prioritiesOf({ session, work, strategy }: WorkPass, id: string): [string, number][] {
  if (strategy.sharedPriority === undefined) return [];
  return [...session.works.store.byIndex(OF_OBJECT, id)].flatMap((it): [string, number][] => {
    const priority = it.spec.applyStrategy?.sharedPriority;
    return priority === undefined || it.metadata.name === work.metadata.name
      ? []
      : [[it.metadata.name, priority]];
  });
}

/** The Works for whose objects the priority of another one changed. */
export function sharingChanged({ store }: Informer<Work>, { before, after }: Change<Work>): ObjectKey[] {
  const [old, now] = [before, after].map((it) => it?.spec.applyStrategy?.sharedPriority);
  const work = after ?? before;
  if (old === now || work === undefined) return [];
  const same = identitiesOf(work).flatMap((it) => [...store.byIndex(OF_OBJECT, idOf(it))]);
  return [...new Set(same.map(keyOf))];
}

/** Of what a hub sent, which may be anything. */
export function identitiesOf({
  spec,
}: Work): { group: string; kind: string; namespace: string; name: string }[] {
  return (spec.workload?.manifests ?? []).flatMap((manifest: KubeObject | null) => {
    const { apiVersion = "", kind = "", metadata } = manifest ?? {};
    const group = apiVersion.includes("/") ? apiVersion.slice(0, apiVersion.indexOf("/")) : "";
    const { namespace = "", name = "" } = metadata ?? {};
    return [{ group, kind, namespace, name }];
  });
}
