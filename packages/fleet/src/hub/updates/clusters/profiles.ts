import { isToCome } from "#domain/set-back.ts";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { type ObjectKey, keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  AUTO_UPGRADE_PROFILES,
  type AutoUpgradeProfile,
  UPDATE_RUNS,
  type UpdateRun,
  UPGRADER_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import {
  type ChannelDecision,
  decideChannel,
  nextTrigger,
  runOfProfile,
} from "#updates/clusters/channels.ts";
import { updateMember } from "#updates/clusters/fleet.ts";
import { hasEnded } from "#updates/clusters/needs.ts";
import { planRun } from "#updates/clusters/plan.ts";
import { isKnown } from "#updates/clusters/walk.ts";
import type { HubInformers } from "../../informers.ts";
import { isClusterApi } from "./management-cluster.ts";
import { watchingUpdateMembers } from "./member-changes.ts";
import { Upgraders } from "./upgraders.ts";

/**
 * Clusters of Cluster API are read from their management cluster, which is not watched for profiles: an upgrade by hand there, or a
 * management cluster that answers again, is noticed after this time at the latest. Unit: milliseconds.
 */
const LOOK_MS = 600_000;

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
  readonly deps: RuntimeDeps;
}

/** AutoUpgradeProfiles to runs, which they create and start when catalogs have something newer. */
export function createUpgradeProfiles({ client, informers, deps }: Parts): Controller {
  const upgraders = new Upgraders({ client, deps }, informers);
  const all = (): ObjectKey[] => [...informers.upgradeProfiles.store.list()].map(keyOf);
  return createController(
    {
      name: "autoupgradeprofile",
      reconcile: (key, signal) => reconcile({ client, informers, deps }, upgraders, key, signal),
      concurrency: 1,
      sources: [
        watching(informers.upgradeProfiles),
        watching(informers.releaseCatalogs, all),
        watching(informers.updateStrategies, all),
        watching(informers.clusterUpgrades, all),
        ...watchingUpdateMembers(informers, all),
        watching(informers.updateRuns, ({ before, after }) => {
          const name = (after ?? before)?.spec.autoUpgradeProfileName;
          return name === undefined ? [] : [objectKey(undefined, name)];
        }),
      ],
    },
    deps,
  );
}

async function reconcile(
  { client, informers, deps }: Parts,
  upgraders: Upgraders,
  key: ObjectKey,
  signal: AbortSignal,
): Promise<ReconcileResult | void> {
  const profile = informers.upgradeProfiles.store.get(key);
  if (profile === undefined || isDeleting(profile) || profile.spec.disabled === true) return;
  const { name } = profile.metadata;
  const runs = [...informers.updateRuns.store.list()].filter((it) => it.spec.autoUpgradeProfileName === name);
  // One that was not started holds nothing.
  if (runs.some((it) => (it.spec.state ?? "Initialize") !== "Initialize" && !hasEnded(it))) return;
  const nowMs = clockOfServer(client, deps.clock).now();
  if (isToCome(profile.status?.lastTriggeredAt, nowMs)) {
    // The clock was set back: the next run is due as if the last one had been triggered now.
    const status = { lastTriggeredAt: timestamp(nowMs) };
    const options = { subresource: "status" as const, fieldManager: HUB_MANAGER, signal };
    await client.mergePatch(AUTO_UPGRADE_PROFILES, key, { status }, options);
    return;
  }
  const waitMs = nextTrigger(profile) - nowMs;
  if (waitMs > 0) return { requeueAfterMs: waitMs };
  const decision = await decide(informers, upgraders, profile, signal);
  if (decision.is === "nothing" || isDone(profile, decision.versions)) return lookAgain(informers);
  await trigger(client, profile, decision, { nowMs, signal });
}

function lookAgain({ members }: HubInformers): ReconcileResult {
  const engines = [...members.store.list()].map((it) => it.metadata.annotations?.[UPGRADER_ANNOTATION] ?? "");
  return engines.some(isClusterApi) ? { requeueAfterMs: LOOK_MS } : {};
}

/** A run that failed is not made again and again: an administrator starts it again. */
function isDone({ status }: AutoUpgradeProfile, versions: readonly string[]): boolean {
  return sameJson(status?.lastTriggerUpgradeVersions, versions) && status?.lastTriggerStatus === "Succeeded";
}

async function decide(
  { members, memberships, releaseCatalogs, updateStrategies }: HubInformers,
  upgraders: Upgraders,
  { spec, ...profile }: AutoUpgradeProfile,
  signal: AbortSignal,
): Promise<ChannelDecision> {
  const fleet = [...members.store.list()]
    .filter((it) => !isDeleting(it))
    .map((it) => updateMember(it, memberships.of(it.metadata.name)));
  const strategy = updateStrategies.store.get(objectKey(undefined, spec.updateStrategyName ?? ""))?.spec;
  const { membersInNoGroup } = planRun(strategy, fleet);
  const observed = await Promise.all(
    fleet
      .filter((it) => !membersInNoGroup.includes(it.name))
      .map(async (it) => {
        const state = await upgraders.observe(it, {}, signal);
        const { kubernetesVersion, nodes = [] } = isKnown(state) ? state : {};
        return { ...it, kubernetesVersion, nodes };
      }),
  );
  return decideChannel(
    { ...profile, spec },
    { catalogs: [...releaseCatalogs.store.list()], members: observed },
  );
}

async function trigger(
  client: KubeClient,
  profile: AutoUpgradeProfile,
  decision: Extract<ChannelDecision, { is: "upgrade" }>,
  { nowMs, signal }: { readonly nowMs: number; readonly signal: AbortSignal },
): Promise<void> {
  const run = runOfProfile(profile, decision);
  const started: UpdateRun = { ...run, spec: { ...run.spec, state: "Run" } };
  let problem: string | undefined;
  try {
    await client.create(UPDATE_RUNS, started, { fieldManager: HUB_MANAGER, signal });
  } catch (error) {
    if (
      !(error instanceof FleetError) ||
      !hasCode(error, "API_ALREADY_EXISTS", "API_CONFLICT", "API_INVALID")
    )
      throw error;
    if (error.code === "API_INVALID") problem = messageOf(error);
  }
  const { name } = profile.metadata;
  await applyIfChanged(client, AUTO_UPGRADE_PROFILES, {
    current: profile,
    desired: {
      metadata: { name },
      status: {
        lastTriggeredAt: timestamp(nowMs),
        lastTriggerStatus: problem === undefined ? "Succeeded" : "Failed",
        ...(problem === undefined ? {} : { lastTriggerError: { code: "RunInvalid", message: problem } }),
        lastTriggerUpgradeVersions: [...decision.versions],
        lastTriggerMessage: problem ?? `run ${run.metadata.name} was created and started`,
      },
    },
    fieldManager: HUB_MANAGER,
    subresource: "status",
    signal,
  });
}
