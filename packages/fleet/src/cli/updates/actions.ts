import { defined } from "@fairlead/base/defined.ts";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { VERSION_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { CLUSTER_MESH_PROFILES, type ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import {
  AUTO_UPGRADE_PROFILES,
  CLUSTER_UPGRADES,
  type ClusterUpgradeStatus,
  type ManagedClusterUpdate,
  RELEASE_CATALOGS,
  SKIP_TYPES,
  type SkipTarget,
  UPDATE_RUNS,
  UPDATE_STRATEGIES,
  type UpdateRun,
  type UpdateState,
  type UpdateStatus,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { KUBERNETES_PROPERTY } from "#domain/cluster-facts.ts";
import { type HubSupport, parseHubSupport } from "#domain/kubernetes-support.ts";
import { selectMembers } from "#domain/mesh-members.ts";
import { decideChannel, runOfProfile } from "#updates/clusters/channels.ts";
import { withComponents } from "#updates/clusters/components.ts";
import { planRun } from "#updates/clusters/plan.ts";
import { type UpdateMember, updateMember } from "#updates/clusters/fleet.ts";
import { type Preview, previewRun } from "#updates/clusters/preview.ts";
import { isSameVersion } from "#updates/clusters/versions.ts";
import { HUB_LEASE } from "../fleet/hub-program.ts";
import { ALLOWED_ACTIONS, isFinal, type RunAction } from "#updates/clusters/states.ts";

/** What `fairlead updaterun` reads and writes on the hub. */

/** @throws {FleetError} `OPTION_INVALID` with the runs that exist. */
export async function getRun(hub: KubeClient, name: string, signal: AbortSignal): Promise<UpdateRun> {
  const run = await hub.find(UPDATE_RUNS, objectKey(undefined, name), { signal });
  if (run !== undefined) return run;
  const { items } = await hub.list(UPDATE_RUNS, { signal });
  const names = items.map((it) => it.metadata.name).join(", ");
  throw new FleetError(
    "OPTION_INVALID",
    `there is no update run ${name}; ${names === "" ? "the hub has none" : `the hub has ${names}`}`,
  );
}

/** What a run would do, judged as the hub would. */
export interface Plan extends Preview {
  /** What the plan does not know. */
  readonly notes: readonly string[];
}

export async function preview(
  hub: KubeClient,
  run: UpdateRun,
  nowMs: number,
  signal: AbortSignal,
): Promise<Plan> {
  const [support, members, catalogs, upgrades, strategies, profiles] = await Promise.all([
    askHub(hub, signal),
    hub.list(MEMBER_CLUSTERS, { signal }),
    hub.list(RELEASE_CATALOGS, { signal }),
    hub.list(CLUSTER_UPGRADES, { signal }),
    hub.list(UPDATE_STRATEGIES, { signal }),
    hub.list(CLUSTER_MESH_PROFILES, { signal }),
  ]);
  const upgradeOf = new Map(upgrades.items.map((it) => [it.metadata.name, it]));
  const strategy = strategies.items.find((it) => it.metadata.name === run.spec.updateStrategyName);
  const fleet = new Map(fleetOf(members.items, profiles.items).map((it) => [it.name, it]));
  const clusters = new Map(members.items.map((it) => [it.metadata.name, it]));
  const result = previewRun(run, strategy?.spec, {
    nowMs,
    members: fleet,
    hub: "version" in support ? support : undefined,
    observe: (name) => {
      const [member, upgrade] = [fleet.get(name), upgradeOf.get(name)];
      const observed = upgrade?.status ?? presumedOf(clusters.get(name), run);
      if (member === undefined || observed === undefined) return undefined;
      return withComponents(observed, member, upgrade?.spec.components, undefined);
    },
    gateState: () => undefined,
    catalogs: catalogs.items,
  });
  const { kubernetesVersion, componentsVersion } = run.spec.managedClusterUpdate.upgrade;
  const isAsked = kubernetesVersion !== undefined || componentsVersion !== undefined;
  return { ...result, notes: isAsked && "problem" in support ? [support.problem] : [] };
}

/** What the hub says that it supports, or why that is not known. */
async function askHub(
  hub: KubeClient,
  signal: AbortSignal,
): Promise<HubSupport | { readonly problem: string }> {
  const silent = (why: string) => ({
    problem: `the hub does not say which versions of Kubernetes it supports: ${why}. It refuses what it does not support when the run reaches a member`,
  });
  try {
    const { annotations = {} } = (await hub.find(LEASES, HUB_LEASE, { signal }))?.metadata ?? {};
    const { [VERSION_ANNOTATION]: version } = annotations;
    const found = parseHubSupport(annotations);
    if (found !== undefined) return found;
    if (version === undefined) return silent(`Lease ${HUB_LEASE} names no version of fairlead hub`);
    return silent(`fairlead hub ${version} does not report it`);
  } catch (error) {
    if (!hasCode(error, "API_FORBIDDEN")) throw error;
    return silent(`Lease ${HUB_LEASE} cannot be read: ${messageOf(error)}`);
  }
}

/**
 * A member that no run has asked for its state yet: the version of its API server, which all members report. Undefined where
 * the decision depends on its nodes.
 */
function presumedOf(
  cluster: MemberCluster | undefined,
  { spec }: UpdateRun,
): ClusterUpgradeStatus | undefined {
  const kubernetesVersion = cluster?.status?.properties?.[KUBERNETES_PROPERTY]?.value.replace(/^v/, "");
  const areNodesAsked = dependsOnNodes(spec.managedClusterUpdate, kubernetesVersion);
  return kubernetesVersion === undefined || areNodesAsked ? undefined : { kubernetesVersion };
}

/** Whether images of the nodes decide, or, in a cluster whose API server has the version, whether the nodes have it. */
function dependsOnNodes(
  { upgrade, nodeImageSelection }: ManagedClusterUpdate,
  actual: string | undefined,
): boolean {
  const { type, kubernetesVersion: wanted = "" } = upgrade;
  const { type: images = "Latest" } = nodeImageSelection ?? {};
  if (type === "NodeImageOnly" || images !== "Latest") return true;
  return type === "Full" && isSameVersion(actual, wanted);
}

function fleetOf(
  members: readonly MemberCluster[],
  profiles: readonly ClusterMeshProfile[],
): readonly UpdateMember[] {
  const profileOf = new Map(
    selectMembers(profiles, members).flatMap(({ profile, members: own }) =>
      own.map((it) => [it.metadata.name, profile] as const),
    ),
  );
  return members.map((it) => updateMember(it, profileOf.get(it.metadata.name)));
}

/** The run that an auto-upgrade profile would make now. */
export async function draftOfProfile(
  hub: KubeClient,
  { name, profile: of }: { readonly name: string; readonly profile: string },
  signal: AbortSignal,
): Promise<UpdateRun> {
  const [profiles, members, catalogs, upgrades, strategies] = await Promise.all([
    hub.list(AUTO_UPGRADE_PROFILES, { signal }),
    hub.list(MEMBER_CLUSTERS, { signal }),
    hub.list(RELEASE_CATALOGS, { signal }),
    hub.list(CLUSTER_UPGRADES, { signal }),
    hub.list(UPDATE_STRATEGIES, { signal }),
  ]);
  const profile = profiles.items.find((it) => it.metadata.name === of);
  if (profile === undefined) throw new FleetError("OPTION_INVALID", `there is no AutoUpgradeProfile ${of}`);
  const strategy = strategies.items.find((it) => it.metadata.name === profile.spec.updateStrategyName);
  const fleet = fleetOf(members.items, []);
  const { membersInNoGroup } = planRun(strategy?.spec, fleet);
  const reported = new Map(upgrades.items.map((it) => [it.metadata.name, it.status]));
  const decision = decideChannel(profile, {
    catalogs: catalogs.items,
    members: fleet
      .filter((it) => !membersInNoGroup.includes(it.name))
      .map((it) => ({
        ...it,
        kubernetesVersion: reported.get(it.name)?.kubernetesVersion,
        nodes: reported.get(it.name)?.nodes ?? [],
      })),
  });
  if (decision.is === "nothing")
    throw new FleetError("PRECONDITION_FAILED", `profile ${of} would make no run: ${decision.message}`);
  return { ...runOfProfile(profile, decision), metadata: { name } };
}

/** What a user types: `resume` is the start of a run that has begun. */
export type ActionWord = RunAction | "resume";

function check({ metadata: { name }, status }: UpdateRun, word: ActionWord): void {
  const state = status?.status.state ?? "NotStarted";
  if (ALLOWED_ACTIONS[state].includes(word === "resume" ? "start" : word)) return;
  throw new FleetError(
    "PRECONDITION_FAILED",
    `cannot ${word} run ${name}: it is ${state}; ${insteadOf(state, name)}`,
  );
}

/** What can be done with a run in this state. */
export function insteadOf(state: UpdateState, name: string): string {
  switch (state) {
    case "NotStarted":
      return `start it with "fairlead updaterun start ${name}"`;
    case "Running":
    case "Pending":
      return `see "fairlead updaterun status ${name}"; it can be stopped, and what has not begun can be skipped`;
    case "Stopping":
      return "it is Stopped when the members that are being upgraded have finished";
    case "Stopped":
    case "Failed":
      return `continue it with "fairlead updaterun resume ${name}"`;
    case "Skipped":
    case "Completed":
      return "it has ended; create another run";
    default:
      return state satisfies never;
  }
}

async function change(
  hub: KubeClient,
  run: UpdateRun,
  spec: object,
  signal: AbortSignal,
): Promise<UpdateRun> {
  const { name, resourceVersion } = run.metadata;
  const patch = { metadata: defined({ resourceVersion }), spec };
  return hub.mergePatch(UPDATE_RUNS, objectKey(undefined, name), patch, { signal });
}

/** Starts a run, or continues one that is Stopped or Failed: then with the members that failed. */
export async function startRun(
  hub: KubeClient,
  run: UpdateRun,
  signal: AbortSignal,
  word: "start" | "resume" = "start",
): Promise<UpdateRun> {
  check(run, word);
  const isAgain = run.status?.status.startTime !== undefined;
  const attempt = isAgain ? { attempt: (run.spec.attempt ?? 1) + 1 } : {};
  return change(hub, run, { state: "Run", ...attempt }, signal);
}

export async function stopRun(hub: KubeClient, run: UpdateRun, signal: AbortSignal): Promise<UpdateRun> {
  check(run, "stop");
  return change(hub, run, { state: "Stop" }, signal);
}

export async function skipIn(
  hub: KubeClient,
  run: UpdateRun,
  targets: readonly SkipTarget[],
  signal: AbortSignal,
): Promise<UpdateRun> {
  check(run, "skip");
  for (const it of targets) checkTarget(run, it);
  return change(hub, run, { skip: [...(run.spec.skip ?? []), ...targets] }, signal);
}

/** @throws {FleetError} If the run does not have it, or nothing of it is left to skip. */
function checkTarget({ metadata, status }: UpdateRun, { type, name }: SkipTarget): void {
  const stages = status?.stages ?? [];
  const groups = stages.flatMap((it) => it.groups);
  const known: Readonly<Record<SkipTarget["type"], readonly NamedPart[]>> = {
    Stage: stages,
    AfterStageWait: stages.map((it) => ({ name: it.name, status: it.afterStageWaitStatus?.status })),
    Group: groups,
    Member: groups.flatMap((it) => it.members),
  };
  const found = known[type].find((it) => it.name === name);
  if (found === undefined)
    throw new FleetError("OPTION_INVALID", `run ${metadata.name} has no ${type} ${name}`);
  if (found.status === undefined) throw new FleetError("OPTION_INVALID", `stage ${name} has no wait`);
  const { state } = found.status;
  const why = isFinal(state) ? `is ${state} already` : type === "Member" ? TOO_LATE[state] : undefined;
  if (why !== undefined)
    throw new FleetError("PRECONDITION_FAILED", `cannot skip ${type} ${name}: it ${why}`);
}

interface NamedPart {
  readonly name: string;
  readonly status: UpdateStatus | undefined;
}

/** Of a member. */
const TOO_LATE: Readonly<Partial<Record<UpdateState, string>>> = {
  Running: "is being upgraded, and finishes",
  Failed: "has failed; a run that is resumed tries it again",
};

/** Parses "Member:a". */
export function parseTarget(text: string): SkipTarget {
  const [kind = "", ...rest] = text.split(":");
  const type = SKIP_TYPES.find((it) => it.toLowerCase() === kind.toLowerCase());
  const name = rest.join(":");
  if (type !== undefined && name !== "") return { type, name };
  throw new FleetError(
    "OPTION_INVALID",
    `--target: ${JSON.stringify(text)} is not TYPE:NAME with a type of ${SKIP_TYPES.join(", ")}`,
  );
}
