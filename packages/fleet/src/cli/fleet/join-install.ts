import { type Deployment, DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import {
  INSTALL_MANAGER,
  type MemberInstall,
  memberManifests,
  programsOf,
} from "./install/member-manifests.ts";
import { removeOtherApplies } from "./install/applies.ts";
import { awaitRollout } from "./install/rollout.ts";
import { type Joining, timeoutOf } from "./joining.ts";
import { objectsStep } from "./join-steps.ts";
import type { Side, Step } from "./steps.ts";

/** The agent and the cluster set's DNS: made where no chart has made them, and waited for. */

export function installSteps(joining: Joining): readonly Step[] {
  const { options } = joining;
  const { install } = options;
  if (install === undefined) return [];
  return [
    installStep(joining, install),
    ...(options.waitForAgents === false ? [] : [rolloutStep(joining, install)]),
  ];
}

/** Selects all objects of a chart that Helm rendered, as opposed to objects that are created here. */
const OF_A_CHART = "app.kubernetes.io/part-of=fairlead,helm.sh/chart";

/** Programs of a member that a chart has installed, under whatever names. */
async function chartPrograms({ client }: Side, signal: AbortSignal): Promise<readonly Deployment[]> {
  const { items } = await client.list(DEPLOYMENTS, {
    namespace: FLEET_SYSTEM_NAMESPACE,
    labelSelector: OF_A_CHART,
    signal,
  });
  const isMembers = ({ metadata }: Deployment): boolean =>
    ["member", "dns"].includes(metadata.labels?.["app.kubernetes.io/component"] ?? "") &&
    metadata.labels?.["helm.sh/chart"]?.startsWith("fairlead-member-") === true;
  return items.filter(isMembers);
}

function releaseOf({ metadata }: Deployment): string {
  return `Helm release ${metadata.labels?.["app.kubernetes.io/instance"] ?? metadata.name}`;
}

function installStep({ member, signal }: Joining, install: MemberInstall): Step {
  const title = `install the agent in ${member.who}`;
  const side = { ...member, manager: INSTALL_MANAGER };
  const step = objectsStep(title, side, memberManifests(install), signal);
  return {
    title,
    plan: async () => {
      const present = await chartPrograms(member, signal);
      if (present.length === 0) return step.plan();
      return present.map((it) => ({
        cluster: member.who,
        verb: "none",
        kind: "Deployment",
        name: keyOf(it),
        note: `of ${releaseOf(it)}`,
      }));
    },
    run: async (undo) => {
      const [present] = await chartPrograms(member, signal);
      if (present !== undefined) return `already installed by ${releaseOf(present)}, which is not changed`;
      await step.run(undo);
      const wanted = memberManifests(install).map((it) => it.object.metadata.name);
      await removeOtherApplies(side.client, new Set(wanted), signal);
      return undefined;
    },
  };
}

function rolloutStep(joining: Joining, install: MemberInstall): Step {
  const { deps, member, signal } = joining;
  return {
    title: `wait until the agent runs in ${member.who}`,
    plan: () => Promise.resolve([]),
    run: async () => {
      const present = await chartPrograms(member, signal);
      const names = present.length === 0 ? programsOf(install) : present.map((it) => it.metadata.name);
      for (const name of names)
        await awaitRollout(member, { name, timeoutMs: timeoutOf(joining) }, deps, signal);
    },
  };
}
