import {
  MEMBER_CLUSTERS,
  type MemberCluster,
  type PlacedOnLeave,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { bootstrapAccount } from "#api/fairlead.dev/identity.ts";
import { CLUSTER_UID_ANNOTATION, FORCE_LEAVE_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { MCS_SERVICE_EXPORTS } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { MULTI_CLUSTER_SERVICES } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "#api/networking.fleet.azure.com/v1beta1/types.ts";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import { defined } from "@fairlead/base/defined.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import { checkReachable, clusterUid, findMember } from "./clusters.ts";
import { DEFAULT_TIMEOUT_MS, type JoinDeps } from "./join-options.ts";
import { describeLeft, placedOn, stillThere } from "./leave-placed.ts";
import { checkSaysItIs, cleanMember, listOrNone } from "./leave-member.ts";

export interface LeaveOptions {
  readonly name: string;
  /** Undefined for a hub that no longer exists. */
  readonly hub: ClusterConfig | undefined;
  /** Undefined for a cluster that no longer exists. */
  readonly member: ClusterConfig | undefined;
  /** Do not wait for the member's agents to withdraw, and do without a hub that does not answer. Default: false. */
  readonly force?: boolean;
  /** What becomes of placed objects. Default: what `spec.deleteOptions.placed` of the MemberCluster says. */
  readonly placed?: PlacedOnLeave | undefined;
  /** Delete the member's ServiceExports and MultiClusterServices, as fleet-networking does. Default: false. */
  readonly deleteExports?: boolean;
  /** Unit: milliseconds. Default: 60 000. */
  readonly timeoutMs?: number;
}

/**
 * Removes a member from its fleet: the agents withdraw what they exported and imported, the member namespace is deleted with
 * the member's identity, and so is what `fairlead join` installed. ServiceExports, MultiClusterServices and all other
 * objects of users are kept.
 */
export async function leaveFleet(options: LeaveOptions, deps: JoinDeps, signal: AbortSignal): Promise<void> {
  const { name } = options;
  await using hub = options.hub === undefined ? undefined : connect(options.hub, deps);
  await using member = options.member === undefined ? undefined : connect(options.member, deps);
  const leaving: Leaving = {
    options,
    deps,
    progress: (step) => deps.progress?.({ step, status: "done" }),
    signal,
  };
  if (member !== undefined && options.member !== undefined)
    await checkReachable(member, { who: `cluster ${name}`, config: options.member }, deps, signal);
  if (hub !== undefined && (await isHubThere(hub, leaving))) await leaveHub(leaving, hub, member);
  else await leaveWithoutHub(leaving, member);
  if (member === undefined) return;
  const { timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  const left = await cleanMember(member, { name, deps, timeoutMs, signal });
  if (left !== undefined) leaving.progress(left);
  leaving.progress(`${name} has left the fleet`);
}

interface Leaving {
  readonly options: LeaveOptions;
  readonly deps: JoinDeps;
  readonly progress: (step: string) => void;
  readonly signal: AbortSignal;
}

/** Whether the hub still exists. If it does not, only the member is cleaned up. */
async function isHubThere(hub: KubeClient, { options, deps, signal }: Leaving): Promise<boolean> {
  const { hub: config, member, force = false } = options;
  if (config === undefined) return false;
  try {
    await checkReachable(hub, { who: "the hub", config }, deps, signal);
    return true;
  } catch (error) {
    if (member === undefined || !hasCode(error, "API_UNAVAILABLE")) throw error;
    if (force) return false;
    throw new FleetError(
      "API_UNAVAILABLE",
      `${messageOf(error)}; if the hub no longer exists, pass --force to clean up the member without it`,
      { cause: error },
    );
  }
}

async function leaveWithoutHub(leaving: Leaving, member: KubeClient | undefined): Promise<void> {
  const { options, progress, signal } = leaving;
  const { name } = options;
  if (member === undefined)
    throw new FleetError("OPTION_INVALID", `cannot remove ${name} without its hub: pass --member-context`);
  await checkSaysItIs(member, { name, signal });
  progress(
    `cleaned up without the hub: MemberCluster ${name} and namespace ${mailboxOf(name)} remain there, and other members keep ` +
      `the services of ${name}; if the hub returns, run "fairlead leave ${name} --force" against it to remove them`,
  );
  await deleteExports(leaving, member);
}

/** Only on request. */
async function deleteExports({ options, progress, signal }: Leaving, member: KubeClient): Promise<void> {
  if (options.deleteExports !== true) return;
  await removeAll(member, [FLEET_SERVICE_EXPORTS, MCS_SERVICE_EXPORTS, MULTI_CLUSTER_SERVICES], signal);
  progress(`deleted the exports and MultiClusterServices of ${options.name}`);
}

async function leaveHub(leaving: Leaving, hub: KubeClient, member: KubeClient | undefined): Promise<void> {
  const { options, deps, progress, signal } = leaving;
  const { name, force = false, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  const present = await findMember(hub, name, signal);
  if (member !== undefined) await checkIsMember(member, present, signal);
  // Before the agents stop, because agents remove what depends on the exports.
  if (member !== undefined) await deleteExports(leaving, member);
  const placed = await placedOn(member, name, signal);
  const isForced = force || member === undefined;
  await requestLeave(hub, { name, isForced, placed: options.placed }, signal);
  progress(`asked the hub to remove ${name}`);
  await waitFor(
    hub,
    {
      of: MEMBER_CLUSTERS,
      key: objectKey(undefined, name),
      timeoutMs,
      until: (it) => it === undefined,
      message: () =>
        `timed out after ${timeoutMs / 1000} s waiting for ${name} to leave: its agent has not withdrawn; ` +
        'check that "fairlead member" runs there, or pass --force to remove it without its agent',
    },
    deps,
    signal,
  );
  const account = objectKey(FLEET_SYSTEM_NAMESPACE, bootstrapAccount(name));
  await hub.delete(SERVICE_ACCOUNTS, account, { signal });
  progress(`the hub deleted MemberCluster ${name}`);
  if (member === undefined || placed.length === 0) return;
  const asked = isForced ? undefined : placedOnLeave(present, options);
  progress(describeLeft(placed, await stillThere(member, placed, signal), asked));
}

function placedOnLeave({ spec }: MemberCluster, options: LeaveOptions): PlacedOnLeave | undefined {
  return options.placed ?? spec.deleteOptions?.placed;
}

async function removeAll(client: KubeClient, kinds: readonly Resource[], signal: AbortSignal): Promise<void> {
  for (const of of kinds)
    for (const it of await listOrNone(client, of, { signal })) await client.delete(of, keyOf(it), { signal });
}

/** Removes nothing from any other cluster than the leaving one. */
export async function checkIsMember(
  member: KubeClient,
  present: MemberCluster,
  signal: AbortSignal,
): Promise<void> {
  const { name, annotations } = present.metadata;
  const expected = annotations?.[CLUSTER_UID_ANNOTATION];
  if (expected === undefined || expected === (await clusterUid(member, `cluster ${name}`, signal))) return;
  throw new FleetError(
    "OPTION_INVALID",
    `the cluster of --member-context is not ${name}; check the context and the kubeconfig`,
  );
}

/** Requests the removal of a member; with force, the hub does not wait for its agent. */
export async function forgetMember(hub: KubeClient, name: string): Promise<void> {
  if ((await hub.find(MEMBER_CLUSTERS, objectKey(undefined, name))) === undefined) return;
  await requestLeave(hub, { name, isForced: true });
}

async function requestLeave(
  hub: KubeClient,
  {
    name,
    isForced,
    placed,
  }: {
    readonly name: string;
    readonly isForced: boolean;
    readonly placed?: PlacedOnLeave | undefined;
  },
  signal?: AbortSignal,
): Promise<void> {
  const options = signal === undefined ? {} : { signal };
  const key = objectKey(undefined, name);
  const metadata = isForced ? { annotations: { [FORCE_LEAVE_ANNOTATION]: "true" } } : {};
  // The member withdraws what it exports: "Strict" is for those who delete the MemberCluster by hand.
  const spec = { deleteOptions: { validationMode: "Skip", ...defined({ placed }) } };
  await hub.mergePatch(MEMBER_CLUSTERS, key, { metadata, spec }, options);
  await hub.delete(MEMBER_CLUSTERS, key, options);
}
