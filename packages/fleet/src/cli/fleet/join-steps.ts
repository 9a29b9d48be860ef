import { HUB_MANAGER, MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { VALIDATING_ADMISSION_POLICIES } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { HUB_POLICIES } from "#authz/policies/all.ts";
import { installPolicies } from "#authz/policies/install.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_CRDS, MEMBER_CRDS } from "#api/crds.ts";
import type { Manifest } from "#authz/manifests.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { isApplied } from "@fairlead/kube/objects/apply.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { CERTIFICATE_RIGHTS } from "./identity.ts";
import { listOrNone } from "./leave-member.ts";
import { applyWanted, type Change, planWanted, type Side, type Step, UndoLog } from "./steps.ts";
import type { Joining } from "./joining.ts";

/** The first steps of a join: what both clusters need. */

export function kindsStep(joining: Joining, where: "hub" | "member"): Step {
  const { deps, signal } = joining;
  const side = joining[where];
  const [crds, fieldManager] = where === "hub" ? [HUB_CRDS, HUB_MANAGER] : [MEMBER_CRDS, MEMBER_MANAGER];
  /** Those that the plan found as they are to be: each join but the first finds all. */
  const inPlace = new Set<string>();
  return {
    title: `install the CRDs in ${side.who}`,
    plan: async () => {
      const present = await readCrds(side, crds, signal);
      const changes = crds.map((crd): Change => {
        const { name } = crd.metadata;
        const before = present.get(name);
        const isSame = before !== undefined && isApplied(before, crd, { fieldManager });
        if (isSame && isConditionTrue(before.status?.conditions, "Established")) inPlace.add(name);
        const verb = before === undefined ? "create" : isSame ? "none" : "update";
        return { cluster: side.who, verb, kind: "CustomResourceDefinition", name };
      });
      return where === "hub" ? [...changes, ...(await planPolicies(side, signal))] : changes;
    },
    // Not undone: deleting a CRD deletes every object of that kind, and the policies protect other members too.
    run: async () => {
      const others = crds.filter((it) => !inPlace.has(it.metadata.name));
      await installCrds(side.client, { crds: others, fieldManager }, deps, signal);
      if (where === "hub") await installPolicies(side.client, deps.log, signal);
    },
  };
}

/** More connections at once cost more than they save. */
const READS_AT_ONCE = 4;

async function readCrds(
  { client }: Side,
  crds: readonly CustomResourceDefinition[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, CustomResourceDefinition>> {
  const present = new Map<string, CustomResourceDefinition>();
  await inParallel(crds, READS_AT_ONCE, async ({ metadata: { name } }) => {
    const it = await client.find(CUSTOM_RESOURCE_DEFINITIONS, objectKey(undefined, name), { signal });
    if (it !== undefined) present.set(name, it);
  });
  return present;
}

/** With their bindings. */
async function planPolicies({ who, client }: Side, signal: AbortSignal): Promise<readonly Change[]> {
  const { items } = await client.list(VALIDATING_ADMISSION_POLICIES, { signal });
  const present = new Set(items.map((it) => it.metadata.name));
  return HUB_POLICIES.map(({ metadata: { name } }) => {
    const verb = present.has(name) ? "none" : "create";
    return { cluster: who, verb, kind: "ValidatingAdmissionPolicy", name };
  });
}

const SYSTEM: Manifest = { of: NAMESPACES, object: { metadata: { name: FLEET_SYSTEM_NAMESPACE } } };

export function objectsStep(
  title: string,
  side: Side,
  manifests: readonly Manifest[],
  signal: AbortSignal,
): Step {
  return {
    title,
    plan: () => Promise.all(manifests.map((it) => planWanted(side, it, signal))),
    run: async (undo) => {
      for (const it of manifests) await applyWanted(side, it, undo, signal);
    },
  };
}

export function prepareHubStep({ options, hub, signal }: Joining): Step {
  const title = "allow members to request certificates from the hub";
  const step = objectsStep(title, hub, [SYSTEM, ...CERTIFICATE_RIGHTS], signal);
  return {
    ...step,
    run: async (undo) => {
      const own = new UndoLog();
      undo.add(`the permission to request certificates from ${hub.who}`, async () => {
        // Another member may have joined since and need this.
        const members = await listOrNone(hub.client, MEMBER_CLUSTERS, {});
        if (members.some((it) => it.metadata.name !== options.name)) return;
        const left = await own.run();
        if (left.length > 0) throw new FleetError("API_UNEXPECTED", left.join("; "));
      });
      return step.run(own);
    },
  };
}

export function prepareMemberStep({ member, signal }: Joining): Step {
  return objectsStep(`make namespace ${FLEET_SYSTEM_NAMESPACE} in ${member.who}`, member, [SYSTEM], signal);
}
