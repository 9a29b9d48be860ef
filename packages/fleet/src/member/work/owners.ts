import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject, OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import { APPLIED_WORKS, type AppliedWork } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import {
  isAppliedWork,
  isSamePlacement,
  type Owners,
  ownersOf,
  standingOfOther,
} from "#placement/work/ownership.ts";
import type { WorkPass } from "./parts.ts";

/** What the owners of an object are here. */
export async function readOwners(pass: WorkPass, object: KubeObject): Promise<Owners> {
  const others = (object.metadata.ownerReferences ?? []).filter(
    (it) => isAppliedWork(it) && it.uid !== pass.owner.metadata.uid,
  );
  const found = new Map<string, AppliedWork | undefined>();
  for (const it of others) found.set(it.uid, await appliedWorkOf(pass, it));
  return ownersOf(object, pass.owner, (reference) => {
    if (found.get(reference.uid) === undefined) return "orphaned";
    const { works } = pass.session;
    const other = works.store.get(objectKey(pass.work.metadata.namespace, reference.name));
    // Left over from before the cluster left the fleet: no Work stands for it any more.
    if (other === undefined) return "orphaned";
    return isSamePlacement(pass.work, other) ? "same placement" : standingOfOther(pass.work, other);
  });
}

/** The watch may not have brought yet what another pass has just created. */
async function appliedWorkOf(
  { session, signal }: WorkPass,
  { name, uid }: OwnerReference,
): Promise<AppliedWork | undefined> {
  const key = objectKey(undefined, name);
  const known = session.appliedWorks.store.get(key);
  if (known?.metadata.uid === uid) return known;
  const found = await session.local.find(APPLIED_WORKS, key, { signal });
  return found?.metadata.uid === uid ? found : undefined;
}
