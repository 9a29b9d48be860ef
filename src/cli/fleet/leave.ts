import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { SECRETS, SERVICES } from "#api/core/v1/types.ts";
import { ENDPOINT_SLICES, MANAGED_BY_LABEL as SLICE_MANAGER_LABEL } from "#api/discovery/v1/types.ts";
import { isClusterName } from "#api/fairlead.dev/model/names.ts";
import {
  CLUSTER_UID_ANNOTATION,
  FORCE_LEAVE_ANNOTATION,
  HUB_SECRET,
  MANAGED_BY,
  MANAGED_BY_LABEL,
  MCS_SLICE_MANAGER,
} from "#api/fairlead.dev/names.ts";
import { keyOf, objectKey } from "#api/meta/key.ts";
import type { Resource } from "#api/meta/resource.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { MCS_SERVICE_IMPORTS } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  FLEET_SLICE_MANAGER,
  FLEET_SYSTEM_NAMESPACE,
  MULTI_CLUSTER_SERVICE_NAME_LABEL,
} from "#api/networking.fleet.azure.com/names.ts";
import { FleetError, hasCode } from "#base/errors.ts";
import { connect } from "#kube/client.ts";
import type { ClusterConfig } from "#kube/config.ts";
import type { KubeClient } from "#kube/types.ts";
import { checkReachable, clusterUid } from "./clusters.ts";
import type { JoinDeps } from "./join-options.ts";
import { waitFor } from "#kube/wait.ts";

export interface LeaveOptions {
  readonly name: string;
  readonly hub: ClusterConfig;
  /** Undefined for a cluster that is gone for good. */
  readonly member: ClusterConfig | undefined;
  /** Do not wait for the member's agents to withdraw. Default: false. */
  readonly force?: boolean;
  /** Unit: milliseconds. Default: 60 000. */
  readonly timeoutMs?: number;
}

const DEFAULT_TIMEOUT_MS = 60_000;

/**
 * Takes a member out of its fleet: the agents withdraw what they exported and imported, the mailbox goes, and the Secret
 * that named the hub. ServiceExports, MultiClusterServices and all other objects of users stay as they are.
 */
export async function leaveFleet(options: LeaveOptions, deps: JoinDeps, signal: AbortSignal): Promise<void> {
  const { name, force = false, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  const progress = (step: string): void => deps.progress?.({ step, status: "done" });
  await using hub = connect(options.hub, deps);
  await using member = options.member === undefined ? undefined : connect(options.member, deps);
  await checkReachable(hub, { who: "the hub", config: options.hub }, deps, signal);
  if (member !== undefined && options.member !== undefined)
    await checkReachable(member, { who: `cluster ${name}`, config: options.member }, deps, signal);
  const key = objectKey(undefined, name);
  const present = await findMember(hub, name, signal);
  if (member !== undefined) await checkIsMember(member, present, signal);
  await requestLeave(hub, name, force || member === undefined, signal);
  progress(`asked the hub to let ${name} go`);
  await waitFor(
    hub,
    {
      of: MEMBER_CLUSTERS,
      key,
      timeoutMs,
      until: (it) => it === undefined,
      message: () =>
        `${name} did not leave within ${timeoutMs / 1000} s: its agent has not withdrawn. ` +
        'Is "fairlead member" running there? With --force the hub does without it',
    },
    deps,
    signal,
  );
  progress(`the hub has forgotten ${name}`);
  if (member === undefined) return;
  await member.delete(SECRETS, objectKey(FLEET_SYSTEM_NAMESPACE, HUB_SECRET), { signal });
  await removeImports(member, signal);
  progress(`${name} has left the fleet`);
}

async function findMember(hub: KubeClient, name: string, signal: AbortSignal): Promise<MemberCluster> {
  const present = isClusterName(name)
    ? await hub.find(MEMBER_CLUSTERS, objectKey(undefined, name), { signal })
    : undefined;
  if (present !== undefined) return present;
  throw new FleetError(
    "OPTION_INVALID",
    `the fleet has no member named ${JSON.stringify(name)}: see "fairlead status"`,
  );
}

/** Nothing is taken from a cluster but the one that is to leave. */
async function checkIsMember(member: KubeClient, present: MemberCluster, signal: AbortSignal): Promise<void> {
  const { name, annotations } = present.metadata;
  const expected = annotations?.[CLUSTER_UID_ANNOTATION];
  if (expected === undefined || expected === (await clusterUid(member, `cluster ${name}`, signal))) return;
  throw new FleetError(
    "OPTION_INVALID",
    `the cluster of --member-kubeconfig is another one than ${name}: check file and --member-context`,
  );
}

async function requestLeave(
  hub: KubeClient,
  name: string,
  force: boolean,
  signal: AbortSignal,
): Promise<void> {
  const key = objectKey(undefined, name);
  if (force) {
    const metadata = { annotations: { [FORCE_LEAVE_ANNOTATION]: "true" } };
    await hub.mergePatch(MEMBER_CLUSTERS, key, { metadata }, { signal });
  }
  await hub.delete(MEMBER_CLUSTERS, key, { signal });
}

/** What an agent made and could not take back. Nothing is left where it ran to its end. */
async function removeImports(member: KubeClient, signal: AbortSignal): Promise<void> {
  const kinds: readonly (readonly [Resource, string])[] = [
    [ENDPOINT_SLICES, `${SLICE_MANAGER_LABEL} in (${MCS_SLICE_MANAGER},${FLEET_SLICE_MANAGER})`],
    [MCS_SERVICE_IMPORTS, `${MANAGED_BY_LABEL}=${MANAGED_BY}`],
    [SERVICES, `${MANAGED_BY_LABEL}=${MANAGED_BY}`],
    [SERVICES, MULTI_CLUSTER_SERVICE_NAME_LABEL],
  ];
  for (const [of, labelSelector] of kinds) {
    const items = await listOrNone(member, of, labelSelector, signal);
    for (const it of items) await member.delete(of, keyOf(it), { signal });
  }
}

async function listOrNone(
  client: KubeClient,
  of: Resource,
  labelSelector: string,
  signal: AbortSignal,
): Promise<readonly KubeObject[]> {
  try {
    return (await client.list(of, { labelSelector, signal })).items;
  } catch (error) {
    if (hasCode(error, "API_NOT_FOUND")) return [];
    throw error;
  }
}
