import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { CLUSTER_UPGRADES } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { isPinInForce } from "#domain/components.ts";
import { rolloutOf } from "#updates/clusters/components.ts";
import { updateMember } from "#updates/clusters/fleet.ts";
import { defined } from "@fairlead/base/defined.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { HubInformers } from "../informers.ts";
import { versionOf } from "../view.ts";
import { isAbandoned } from "./operations.ts";

/** Versions of our programs that update runs gave members. */

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
}

/**
 * Removes the pin of a member whose profile has another version by now, or that belongs to another one. One that no run
 * carries out any more, such as that of a run that was deleted, is stopped: the version stays, and another run can begin.
 */
export async function settlePin(parts: Parts, member: MemberCluster, signal: AbortSignal): Promise<void> {
  const { client, informers } = parts;
  const { name } = member.metadata;
  const key = objectKey(mailboxOf(name), name);
  const upgrade = informers.clusterUpgrades.store.get(key);
  const profile = informers.memberships.of(name);
  const pin = upgrade?.spec.components;
  if (upgrade === undefined || pin === undefined) return;
  const { resourceVersion } = upgrade.metadata;
  if (!isPinInForce(pin, profile && versionOf(profile))) {
    const patch = { metadata: defined({ resourceVersion }), spec: { components: null } };
    await client.mergePatch(CLUSTER_UPGRADES, key, patch, { fieldManager: HUB_MANAGER, signal });
    return;
  }
  if (rolloutOf(updateMember(member, profile), pin).state !== "Running") return;
  if (!(await isAbandoned(parts, name, pin.operation, signal))) return;
  // Applied, as the pin was: the next pin replaces it as a whole.
  await applyIfChanged(client, CLUSTER_UPGRADES, {
    current: upgrade,
    desired: {
      metadata: { namespace: mailboxOf(name), name, ...defined({ resourceVersion }) },
      spec: { ...upgrade.spec, components: { ...pin, stopped: true } },
    },
    fieldManager: HUB_MANAGER,
    signal,
  });
}
