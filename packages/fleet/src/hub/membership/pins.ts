import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { CLUSTER_UPGRADES } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { clusterOfMailbox, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { isPinInForce } from "#domain/components.ts";
import { defined } from "@fairlead/base/defined.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { KubeClient, Source } from "@fairlead/kube/types.ts";
import type { HubInformers } from "../informers.ts";
import { versionOf } from "../view.ts";

/** Versions of our programs that update runs gave members. */

export function watchingPins({ clusterUpgrades }: HubInformers): Source {
  return watchingChanges(clusterUpgrades, ({ key, before, after }) => {
    const cluster = clusterOfMailbox(splitKey(key).namespace);
    const isSame = sameJson(before?.spec.components, after?.spec.components);
    return isSame || cluster === undefined ? [] : [objectKey(undefined, cluster)];
  });
}

/** Removes the pin of a member whose profile has another version by now, or that belongs to another one. */
export async function releasePin(
  { client, informers }: { readonly client: KubeClient; readonly informers: HubInformers },
  { metadata: { name } }: MemberCluster,
  signal: AbortSignal,
): Promise<void> {
  const key = objectKey(mailboxOf(name), name);
  const upgrade = informers.clusterUpgrades.store.get(key);
  const profile = informers.memberships.of(name);
  const pin = upgrade?.spec.components;
  if (pin === undefined || isPinInForce(pin, profile && versionOf(profile))) return;
  const { resourceVersion } = upgrade?.metadata ?? {};
  const patch = { metadata: defined({ resourceVersion }), spec: { components: null } };
  await client.mergePatch(CLUSTER_UPGRADES, key, patch, { fieldManager: HUB_MANAGER, signal });
}
