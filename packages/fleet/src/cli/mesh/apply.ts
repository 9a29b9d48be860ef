import {
  type AppliedMesh,
  CLUSTER_MESH_PROFILES,
  type ClusterMeshProfile,
  type MeshMemberStatus,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { formatMemberSelector } from "#domain/member-selector.ts";
import { isManual, selectMembers, settingsOf } from "#domain/mesh-members.ts";
import { byText } from "@fairlead/base/text.ts";
import { type MeshPlan, named, planMesh, stepsTo } from "#domain/mesh-plan.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import { defined } from "@fairlead/base/defined.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { MeshSnapshot } from "./read.ts";

/** Applies profiles to their members: what the plan lists, and nothing else. */

export interface ApplyDeps extends RuntimeDeps {
  /** Receives each step and each member that changes its state, for people. */
  readonly progress: (step: string) => void;
}

export interface ApplyOptions {
  /** Most members that come or go at once. Default: all. */
  readonly batch?: number | undefined;
  /** Wait until the members are connected. */
  readonly wait: boolean;
  /** Of each step. Unit: milliseconds. */
  readonly timeoutMs: number;
}

/** Which plan is meant: the profile as it is now, the state before the last plan, or no members at all. */
export type Goal = "selected" | "before" | "none";

/** @throws {FleetError} `PRECONDITION_FAILED` where there is nothing to go back to. */
export function planFor({ fleet }: MeshSnapshot, profile: ClusterMeshProfile, goal: Goal): MeshPlan {
  const { name } = profile.metadata;
  const { applied, appliedBefore } = profile.spec;
  if (goal === "selected") return planMesh(fleet, name);
  if (applied === undefined)
    throw new FleetError("PRECONDITION_FAILED", `profile ${name} was not applied yet: nothing to undo`);
  const { operation: _name, ...present } = applied;
  const empty = named({ ...present, members: [], memberSelector: "" });
  return planMesh(fleet, name, goal === "none" ? empty : (appliedBefore ?? empty));
}

/**
 * Writes the steps of a plan. A step begins when the members of the one before are connected. An interruption leaves the
 * members of the steps that were begun; the same command carries on.
 *
 * @throws {FleetError} `API_CONFLICT` if the profile is another one than that of the plan, `TIMED_OUT` with the members that do not connect.
 */
export async function applyPlan(
  hub: KubeClient,
  { plan, profile, options }: { plan: MeshPlan; profile: ClusterMeshProfile; options: ApplyOptions },
  deps: ApplyDeps,
  signal: AbortSignal,
): Promise<ClusterMeshProfile> {
  const { applied } = profile.spec;
  const steps = stepsTo(applied, plan.target, options.batch);
  const isNew = applied?.operation !== plan.target.operation;
  let current = profile;
  for (const [at, step] of steps.entries()) {
    current = await write(hub, current, { step, before: isNew && at === 0 ? applied : undefined }, signal);
    const which = steps.length === 1 ? "" : ` (step ${at + 1} of ${steps.length})`;
    deps.progress(`applied ${plan.profile} to ${step.members.length} members${which}`);
    if (options.wait)
      current = await untilConnected(hub, current, { ...deps, timeoutMs: options.timeoutMs }, signal);
  }
  // Another command, or one that was interrupted, has written the steps.
  if (steps.length === 0 && options.wait)
    return await untilConnected(hub, current, { ...deps, timeoutMs: options.timeoutMs }, signal);
  return current;
}

async function write(
  hub: KubeClient,
  { metadata }: ClusterMeshProfile,
  { step, before }: { readonly step: AppliedMesh; readonly before: AppliedMesh | undefined },
  signal: AbortSignal,
): Promise<ClusterMeshProfile> {
  const { name, uid, generation } = metadata;
  const patch = [
    { op: "test", path: "/metadata/uid", value: uid },
    { op: "test", path: "/metadata/generation", value: generation },
    { op: "add", path: "/spec/applied", value: step },
    ...(before === undefined ? [] : [{ op: "add", path: "/spec/appliedBefore", value: before }]),
  ];
  const key = objectKey(undefined, name);
  return await hub.jsonPatch(CLUSTER_MESH_PROFILES, key, patch, { signal }).catch((cause: unknown) => {
    if (!hasCode(cause, "API_INVALID", "API_CONFLICT")) throw cause;
    const message = `profile ${name} was changed since the plan was made: ${messageOf(cause)}; run the command again`;
    throw new FleetError("API_CONFLICT", message, { cause });
  });
}

/** Waits until the members are those that were applied, and connected. */
export async function untilConnected(
  hub: KubeClient,
  profile: ClusterMeshProfile,
  { timeoutMs, ...deps }: ApplyDeps & { readonly timeoutMs: number },
  signal: AbortSignal,
): Promise<ClusterMeshProfile> {
  const { name, generation = 0 } = profile.metadata;
  const reported = new Map<string, string>();
  const report = ({ name: member, state, error }: MeshMemberStatus): void => {
    if (reported.get(member) === state) return;
    reported.set(member, state);
    deps.progress(`  ${member}: ${state}${error === undefined ? "" : ` (${error})`}`);
  };
  const found = await waitFor(
    hub,
    {
      of: CLUSTER_MESH_PROFILES,
      key: objectKey(undefined, name),
      timeoutMs,
      until(it) {
        if (it === undefined) return true;
        if ((findCondition(it.status?.conditions, "Ready")?.observedGeneration ?? 0) < generation)
          return false;
        for (const member of it.status?.memberStates ?? []) report(member);
        refuseFailed(it);
        return it.status?.state === "Connected" || it.status?.state === "NotConnected";
      },
      message: (it) => describeWaiting(it, timeoutMs),
    },
    deps,
    signal,
  );
  if (found === undefined) throw new FleetError("API_NOT_FOUND", `profile ${name} was deleted`);
  return found;
}

function refuseFailed({ metadata: { name }, status }: ClusterMeshProfile): void {
  if (status?.state !== "Failed" && status?.state !== "Degraded") return;
  throw new FleetError(
    "PRECONDITION_FAILED",
    `profile ${name} is ${status.state}: ${status.lastOperationError ?? "see kubectl describe clustermeshprofile"}; ${ADVICE}`,
  );
}

const ADVICE =
  'correct the cause and run "fairlead mesh apply" again, which carries on, or with --rollback, which restores the state before it';

function describeWaiting(profile: ClusterMeshProfile | undefined, timeoutMs: number): string {
  const waiting = (profile?.status?.memberStates ?? []).filter((it) => it.state !== "Connected");
  const names = waiting.map(
    (it) => `${it.name} is ${it.state}${it.error === undefined ? "" : `: ${it.error}`}`,
  );
  const what =
    names.length === 0 ? 'the hub reported nothing; check that "fairlead hub" runs' : names.join("; ");
  return `timed out after ${timeoutMs / 1000} s: ${what}; ${ADVICE}`;
}

export interface CreateOptions {
  readonly name: string;
  readonly spec: Partial<ClusterMeshProfile["spec"]>;
}

/** Creates a profile, or changes the given fields of one. Changes nothing on members if it is manual. */
export async function createProfile(
  hub: KubeClient,
  { name, spec }: CreateOptions,
  signal: AbortSignal,
): Promise<{ readonly profile: ClusterMeshProfile; readonly isNew: boolean }> {
  const key = objectKey(undefined, name);
  const { memberSelector = { byLabel: "" }, network = { mode: "flat" as const }, ...rest } = spec;
  const wanted = { ...rest, apply: rest.apply ?? ("Manual" as const), memberSelector, network };
  try {
    const profile = await hub.create(CLUSTER_MESH_PROFILES, { metadata: { name }, spec: wanted }, { signal });
    return { profile, isNew: true };
  } catch (error) {
    if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
  }
  const selector =
    spec.memberSelector === undefined
      ? {}
      : {
          memberSelector: {
            byLabel: null,
            matchLabels: null,
            matchExpressions: null,
            ...spec.memberSelector,
          },
        };
  const applied = spec.apply === "Manual" ? await presentOf(hub, name, signal) : undefined;
  const changes = { ...defined(rest), ...defined({ network: spec.network, applied }) };
  const patch = { spec: { ...changes, ...selector } };
  return { profile: await hub.mergePatch(CLUSTER_MESH_PROFILES, key, patch, { signal }), isNew: false };
}

/** What is in force of a continuous profile, which keeps its members when it becomes manual; undefined for a manual one. */
async function presentOf(
  hub: KubeClient,
  name: string,
  signal: AbortSignal,
): Promise<AppliedMesh | undefined> {
  const [profiles, members] = await Promise.all([
    hub.list(CLUSTER_MESH_PROFILES, { signal }),
    hub.list(MEMBER_CLUSTERS, { signal }),
  ]);
  const own = selectMembers(profiles.items, members.items).find((it) => it.profile.metadata.name === name);
  if (own === undefined || isManual(own.profile)) return undefined;
  const { spec } = own.profile;
  const names = own.members.map((it) => it.metadata.name).toSorted(byText);
  const memberSelector = formatMemberSelector(spec.memberSelector);
  return named({ ...settingsOf(spec), members: names, memberSelector });
}
