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
  type Gate,
  GATES,
  type ManagedClusterUpdate,
  RELEASE_CATALOGS,
  SKIP_TYPES,
  type SkipTarget,
  UPDATE_RUNS,
  UPDATE_STRATEGIES,
  type UpdateRun,
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
import { ALLOWED_ACTIONS, type RunAction } from "#updates/clusters/states.ts";

/** What `fairlead updaterun` and `fairlead gate` read and write on the hub. */

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

function check({ metadata, status }: UpdateRun, action: RunAction): void {
  const state = status?.status.state ?? "NotStarted";
  const allowed = ALLOWED_ACTIONS[state];
  if (allowed.includes(action)) return;
  const instead = allowed.length === 0 ? "nothing can be done with it" : `it can be: ${allowed.join(", ")}`;
  throw new FleetError(
    "PRECONDITION_FAILED",
    `cannot ${action} run ${metadata.name}: it is ${state}; ${instead}`,
  );
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
export async function startRun(hub: KubeClient, run: UpdateRun, signal: AbortSignal): Promise<UpdateRun> {
  check(run, "start");
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
  const stages = run.status?.stages ?? [];
  const groups = stages.flatMap((it) => it.groups);
  const known: Readonly<Record<SkipTarget["type"], readonly { readonly name: string }[]>> = {
    Stage: stages,
    AfterStageWait: stages,
    Group: groups,
    Member: groups.flatMap((it) => it.members),
  };
  for (const { type, name } of targets)
    if (!known[type].some((it) => it.name === name))
      throw new FleetError("OPTION_INVALID", `run ${run.metadata.name} has no ${type} ${name}`);
  return change(hub, run, { skip: [...(run.spec.skip ?? []), ...targets] }, signal);
}

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

/** The gates of a run, or of all, oldest first. */
export async function listGates(
  hub: KubeClient,
  run: string | undefined,
  signal: AbortSignal,
): Promise<readonly Gate[]> {
  const { items } = await hub.list(GATES, { signal });
  const created = (it: Gate): string => it.metadata.creationTimestamp ?? "";
  return items
    .filter((it) => run === undefined || it.spec.target.updateRunProperties.name === run)
    .toSorted((a, b) => created(a).localeCompare(created(b)));
}

/** @param name - The name of the gate, or the beginning of it. */
export async function approveGate(hub: KubeClient, name: string, signal: AbortSignal): Promise<Gate> {
  const { items } = await hub.list(GATES, { signal });
  const found = items.filter((it) => it.metadata.name.startsWith(name));
  const [gate, other] = found;
  if (gate === undefined)
    throw new FleetError("OPTION_INVALID", `there is no gate ${name}; see "fairlead gate list"`);
  if (other !== undefined)
    throw new FleetError("OPTION_INVALID", `${found.length} gates begin with ${name}; pass more of the name`);
  if (gate.spec.state !== "Pending")
    throw new FleetError("PRECONDITION_FAILED", `gate ${gate.metadata.name} is ${gate.spec.state} already`);
  const key = objectKey(undefined, gate.metadata.name);
  return hub.mergePatch(GATES, key, { spec: { state: "Completed" } }, { signal });
}
