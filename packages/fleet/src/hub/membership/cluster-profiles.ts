import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_MANAGER,
  CLUSTER_MANAGER_LABEL,
  CLUSTER_PROFILES,
  type ClusterProfile,
} from "#api/multicluster.x-k8s.io/cluster-profiles.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { setCondition } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import type { Controller, Informer, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import type { HubInformers } from "../informers.ts";
import { hasProfile, planProfile, planProfileFacts, planProfileHealth } from "./plan-cluster-profile.ts";

interface Parts {
  readonly client: KubeClient;
  readonly members: HubInformers["members"];
  readonly deps: RuntimeDeps;
}

/** KubeFleet's: a profile whose member is gone is found by its label, so that none is needed here. */
const FINALIZER = "kubernetes-fleet.io/cluster-profile-cleanup";

/** MemberClusters to ClusterProfiles in `fleet-system`. Keys are members. */
export function createClusterProfiles(parts: Parts): Controller {
  const { client, members, deps } = parts;
  const profiles = createInformer(
    client,
    CLUSTER_PROFILES,
    {
      namespace: FLEET_SYSTEM_NAMESPACE,
      labelSelector: `${CLUSTER_MANAGER_LABEL}=${CLUSTER_MANAGER}`,
      fieldManager: HUB_MANAGER,
    },
    deps,
  );
  const controller = createController(
    {
      name: "clusterprofile",
      sources: [
        watching(members),
        watching(profiles, ({ before, after }) => {
          const name = (after ?? before)?.metadata.name;
          return name === undefined ? [] : [objectKey(undefined, name)];
        }),
      ],
      reconcile: (key, signal) => reconcile(parts, profiles, key, signal),
    },
    deps,
  );
  return {
    ...controller,
    async start(signal) {
      profiles.start(signal);
      await controller.start(signal);
    },
    async [Symbol.asyncDispose]() {
      await controller[Symbol.asyncDispose]();
      await profiles[Symbol.asyncDispose]();
    },
  };
}

async function reconcile(
  { client, members, deps }: Parts,
  profiles: Informer<ClusterProfile>,
  key: ObjectKey,
  signal: AbortSignal,
): Promise<ReconcileResult | void> {
  const member = members.store.get(key);
  const profileKey = objectKey(FLEET_SYSTEM_NAMESPACE, key);
  const present = profiles.store.get(profileKey);
  if (!hasProfile(member)) {
    if (present !== undefined && (member === undefined || isDeleting(member)))
      await client.delete(CLUSTER_PROFILES, profileKey, { signal });
    if (member !== undefined && isDeleting(member))
      await removeFinalizer(client, MEMBER_CLUSTERS, member, { finalizer: FINALIZER, signal });
    return;
  }
  const by = { fieldManager: HUB_MANAGER, signal };
  const current = await applyIfChanged(client, CLUSTER_PROFILES, {
    current: present,
    desired: planProfile(member),
    ...by,
  });
  const { condition, againInMs } = planProfileHealth(member, clockOfServer(client, deps.clock).now());
  const conditions = setCondition(present?.status?.conditions, condition, deps.clock);
  await applyIfChanged(client, CLUSTER_PROFILES, {
    current: present ?? current,
    desired: {
      metadata: { name: member.metadata.name, namespace: FLEET_SYSTEM_NAMESPACE },
      status: { ...planProfileFacts(member), conditions },
    },
    subresource: "status",
    ...by,
  });
  return againInMs === undefined ? undefined : { requeueAfterMs: Math.max(1, Math.ceil(againInMs)) };
}
