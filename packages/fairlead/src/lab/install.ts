import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { POLICY_CRDS } from "@fairlead/fleet/api/crds.ts";
import { accessManifests } from "@fairlead/fleet/authz/manifests.ts";
import { appliesAs, EVERYTHING } from "@fairlead/fleet/authz/applied.ts";
import {
  DNS_ACCESS,
  MEMBER_ACCESS,
  MEMBER_TAINTS_ACCESS,
  MEMBER_WORK_ACCESS,
  type ProgramAccess,
} from "@fairlead/fleet/authz/programs.ts";
import { MEMBER_MANAGER } from "@fairlead/fleet/api/fairlead.dev/field-managers.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { installMissingCrds } from "@fairlead/kube/definitions/crds.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { PROGRAM_USERS } from "@fairlead/lab/certificates.ts";
import type { FleetInstall } from "@fairlead/lab/up.ts";
import { installHub } from "#shared/install-hub.ts";
import { accessOfExtra } from "./parallel.ts";

const MANAGER = { fieldManager: "fairlead-lab" } as const;

/** Installs the fleet's kinds, policies and rights in the clusters of a lab, as the charts do elsewhere. */
export const fleetInstall: FleetInstall = {
  hub: (client, deps, signal) => installHub(client, PROGRAM_USERS.hub, deps, signal),
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
    if (extra.boot !== undefined) await grant(client, [[MEMBER_TAINTS_ACCESS, PROGRAM_USERS.member]], signal);
  },
};

function userSubject(name: string) {
  return { kind: "User", apiGroup: "rbac.authorization.k8s.io", name } as const;
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
