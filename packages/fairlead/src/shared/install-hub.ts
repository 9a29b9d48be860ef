import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import { HUB_MANAGER } from "@fairlead/fleet/api/fairlead.dev/field-managers.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { accessManifests, actAsMembersManifests } from "@fairlead/fleet/authz/manifests.ts";
import { WORKLOAD_POLICY } from "@fairlead/fleet/authz/policies/guard-rails.ts";
import { installPolicies, installPolicy } from "@fairlead/fleet/authz/policies/install.ts";
import { HUB_ACCESS, HUB_PLACEMENT_ACCESS, HUB_WEBHOOK_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { ensureNamespace } from "@fairlead/kube/objects/namespaces.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/** How many objects are written at once: more connections cost more than they save. */
const AT_ONCE = 4;

/**
 * Installs the kinds and policies of a hub without workloads on Fairlead's API server, and the rights of its program, as the chart does
 * elsewhere. It may run again, and then changes nothing.
 */
export async function installHub(
  client: KubeClient,
  user: string,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  const subject = { kind: "User", apiGroup: "rbac.authorization.k8s.io", name: user } as const;
  const rights = [
    ...[HUB_ACCESS, HUB_PLACEMENT_ACCESS, HUB_WEBHOOK_ACCESS].flatMap((it) => accessManifests(it, subject)),
    ...actAsMembersManifests(subject),
  ];
  await ensureNamespace(client, FLEET_SYSTEM_NAMESPACE, signal);
  await Promise.all([
    installCrds(client, { crds: HUB_CRDS, fieldManager: HUB_MANAGER }, deps, signal),
    installPolicies(client, deps.log, signal),
    installPolicy(client, WORKLOAD_POLICY, signal),
    inParallel(rights, AT_ONCE, async ({ of, object }) => {
      await client.apply(of, object, { fieldManager: HUB_MANAGER, signal });
    }),
  ]);
}
