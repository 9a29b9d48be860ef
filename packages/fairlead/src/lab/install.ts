import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_CRDS, POLICY_CRDS } from "@fairlead/fleet/api/crds.ts";
import { accessManifests, actAsMembersManifests } from "@fairlead/fleet/authz/manifests.ts";
import { appliesAs, EVERYTHING } from "@fairlead/fleet/authz/applied.ts";
import {
  DNS_ACCESS,
  HUB_ACCESS,
  HUB_PLACEMENT_ACCESS,
  MEMBER_ACCESS,
  MEMBER_WORK_ACCESS,
  type ProgramAccess,
} from "@fairlead/fleet/authz/programs.ts";
import { HUB_MANAGER, MEMBER_MANAGER } from "@fairlead/fleet/api/fairlead.dev/field-managers.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { WORKLOAD_POLICY } from "@fairlead/fleet/authz/policies/guard-rails.ts";
import { installPolicies, installPolicy } from "@fairlead/fleet/authz/policies/install.ts";
import { installCrds, installMissingCrds } from "@fairlead/kube/definitions/crds.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { PROGRAM_USERS } from "@fairlead/lab/certificates.ts";
import type { FleetInstall } from "@fairlead/lab/up.ts";
import { accessOfExtra } from "./parallel.ts";

const MANAGER = { fieldManager: "fairlead-lab" } as const;

/** Installs the fleet's kinds, policies and rights in the clusters of a lab, as the charts do elsewhere. */
export const fleetInstall: FleetInstall = {
  async hub(client, deps, signal) {
    await Promise.all([
      installCrds(client, { crds: HUB_CRDS, fieldManager: HUB_MANAGER }, deps, signal),
      installPolicies(client, deps.log, signal),
      installPolicy(client, WORKLOAD_POLICY, signal),
      grant(
        client,
        [
          [HUB_ACCESS, PROGRAM_USERS.hub],
          [HUB_PLACEMENT_ACCESS, PROGRAM_USERS.hub],
        ],
        signal,
      ),
      certify(client, signal),
    ]);
  },
  async member(client, deps, signal) {
    await installMissingCrds(client, { crds: POLICY_CRDS, fieldManager: MEMBER_MANAGER }, deps, signal);
    const programs = [
      [MEMBER_ACCESS, PROGRAM_USERS.member],
      [MEMBER_WORK_ACCESS, PROGRAM_USERS.member],
      [DNS_ACCESS, PROGRAM_USERS.dns],
    ] as const;
    await grant(client, programs, signal);
    const applies = appliesAs(EVERYTHING, userSubject(PROGRAM_USERS.member));
    await client.apply(applies.of, applies.object, { ...MANAGER, signal });
  },
  async extra(client, extra, signal) {
    const access = accessOfExtra(extra);
    if (access === undefined) return;
    // "fairlead join" has objects of the same names for pods.
    await grant(client, [[{ ...access, name: `lab-${access.name}` }, extra.user]], signal);
  },
};

function userSubject(name: string) {
  return { kind: "User", apiGroup: "rbac.authorization.k8s.io", name } as const;
}

async function certify(client: KubeClient, signal: AbortSignal): Promise<void> {
  for (const { of, object } of actAsMembersManifests(userSubject(PROGRAM_USERS.hub)))
    await client.apply(of, object, { ...MANAGER, signal });
}

async function grant(
  client: KubeClient,
  programs: readonly (readonly [access: ProgramAccess, user: string])[],
  signal: AbortSignal,
): Promise<void> {
  const options = { ...MANAGER, signal };
  await client.apply(NAMESPACES, { metadata: { name: FLEET_SYSTEM_NAMESPACE } }, options);
  for (const [access, user] of programs)
    for (const { of, object } of accessManifests(access, userSubject(user)))
      await client.apply(of, object, options);
}
