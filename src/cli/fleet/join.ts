import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES, SECRETS, SERVICE_ACCOUNTS } from "#api/core/v1/types.ts";
import { HUB_CRDS, MEMBER_CRDS } from "#api/crds/all.ts";
import { isClusterName } from "#api/fairlead.dev/model/names.ts";
import { CLUSTER_UID_ANNOTATION, HUB_SECRET, MEMBER_ACCOUNT } from "#api/fairlead.dev/names.ts";
import { objectKey } from "#api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { FleetError, hasCode, messageOf } from "#base/errors.ts";
import { requestToken, TOKEN_SECONDS } from "#controllers/member/agent/token.ts";
import { MEMBER_MANAGER } from "#controllers/member/informers.ts";
import { HUB_MANAGER } from "#controllers/hub/informers.ts";
import { installPolicies } from "#controllers/hub/policies.ts";
import { connect } from "#kube/client.ts";
import type { ClusterConfig } from "#kube/config.ts";
import { isConditionTrue } from "#kube/conditions.ts";
import { installCrds } from "#kube/crds.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import { isDeleting } from "#kube/finalizers.ts";
import type { KubeClient } from "#kube/types.ts";
import { checkReachable, clusterUid } from "./clusters.ts";
import { waitFor } from "#kube/wait.ts";

export interface JoinOptions {
  /** Name of the member, which becomes its cluster id: a label of RFC 1123. */
  readonly name: string;
  readonly hub: ClusterConfig;
  readonly member: ClusterConfig;
  /** URL of the hub as the member sees it. Default: as the hub's kubeconfig has it. */
  readonly hubServer?: string;
  /** Certificates by which the member checks the hub, PEM. Default: as the hub's kubeconfig has it. */
  readonly hubCa?: string;
  /** How often the member's agents report. Unit: seconds. Range: 1 to 600. Default: 60. */
  readonly heartbeatSeconds?: number;
  /** Wait until the agents of the member say that they joined. Default: true. */
  readonly waitForAgents?: boolean;
  /** For the whole. Unit: milliseconds. Default: 60 000. */
  readonly timeoutMs?: number;
}

export interface JoinDeps extends RuntimeDeps {
  /** Told of each step, for people. */
  readonly progress?: (step: string) => void;
}

const DEFAULT_TIMEOUT_MS = 60_000;

interface Joining {
  readonly options: JoinOptions;
  readonly deps: JoinDeps;
  readonly hub: KubeClient;
  readonly member: KubeClient;
  /** Undoes what was done so far, last first, when something fails. */
  readonly undo: (() => Promise<void>)[];
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Makes a cluster a member of a fleet: its MemberCluster, an account on the hub, and the Secret by which its agent finds
 * the hub. Done again for the same cluster it only mends what is missing. When it fails it takes back what it did.
 *
 * @throws {FleetError} `OPTION_INVALID` for a bad or taken name, `API_UNAVAILABLE` when a cluster does not answer,
 *   `TIMED_OUT` when hub or agents do not do their part.
 */
export async function joinCluster(
  options: JoinOptions,
  deps: JoinDeps,
  signal: AbortSignal,
): Promise<MemberCluster> {
  checkName(options.name);
  await using hub = connect(options.hub, deps);
  await using member = connect(options.member, deps);
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const joining: Joining = { options, deps, hub, member, undo: [], timeoutMs, signal };
  await Promise.all([
    checkReachable(hub, { who: "the hub", config: options.hub }, deps, signal),
    checkReachable(member, { who: `cluster ${options.name}`, config: options.member }, deps, signal),
  ]);
  try {
    return await join(joining);
  } catch (error) {
    for (const step of joining.undo.toReversed())
      await step().catch((problem: unknown) =>
        deps.log.warn("could not take back a step of the join", { error: messageOf(problem) }),
      );
    throw error;
  }
}

function checkName(name: string): void {
  if (isClusterName(name)) return;
  throw new FleetError(
    "OPTION_INVALID",
    `${JSON.stringify(name)} cannot be the name of a member: it must have 1 to 63 lower-case letters, digits and ` +
      "dashes, and begin and end with a letter or digit",
  );
}

async function join(joining: Joining): Promise<MemberCluster> {
  const { options, deps, hub, signal } = joining;
  const progress = deps.progress ?? (() => {});
  await installCrds(hub, { crds: HUB_CRDS, fieldManager: HUB_MANAGER }, deps, signal);
  await installPolicies(hub, deps.log, signal);
  const uid = await clusterUid(joining.member, options.name, signal);
  await register(joining, uid);
  progress(`registered ${options.name} with the hub`);
  const token = await identify(joining);
  await equip(joining, token);
  progress(`told ${options.name} where the hub is`);
  if (options.waitForAgents === false)
    return hub.get(MEMBER_CLUSTERS, objectKey(undefined, options.name), { signal });
  const joined = await awaitAgents(joining);
  progress(`${options.name} has joined`);
  return joined;
}

/** The MemberCluster, unless another cluster has the name or the cluster has another name. */
async function register(joining: Joining, uid: string): Promise<void> {
  const { options, hub, signal, undo } = joining;
  const { name } = options;
  const present = await hub.list(MEMBER_CLUSTERS, { signal });
  const uidOf = (it: MemberCluster): string | undefined => it.metadata.annotations?.[CLUSTER_UID_ANNOTATION];
  const named = present.items.find((it) => it.metadata.name === name);
  if (named !== undefined) {
    if (isDeleting(named))
      throw new FleetError(
        "OPTION_INVALID",
        `${name} is leaving the fleet: wait until it is gone, then join again`,
      );
    if (uidOf(named) === uid) return;
    throw new FleetError(
      "OPTION_INVALID",
      `the fleet has another cluster named ${name}: choose another name, or let that one go with "fairlead leave ${name}"`,
    );
  }
  const twin = present.items.find((it) => uidOf(it) === uid);
  if (twin !== undefined)
    throw new FleetError(
      "OPTION_INVALID",
      `the cluster is a member already, as ${twin.metadata.name}: "fairlead leave ${twin.metadata.name}" first`,
    );
  await hub.create(
    MEMBER_CLUSTERS,
    {
      metadata: { name, annotations: { [CLUSTER_UID_ANNOTATION]: uid } },
      spec: {
        identity: { kind: "ServiceAccount", name: MEMBER_ACCOUNT, namespace: mailboxOf(name) },
        heartbeatPeriodSeconds: options.heartbeatSeconds ?? 60,
      },
    },
    { signal },
  );
  undo.push(() => hub.delete(MEMBER_CLUSTERS, objectKey(undefined, name)));
}

/** An account in the mailbox, which the hub makes, and a first token of it. The agent renews it by itself. */
async function identify({ options, deps, hub, timeoutMs, signal }: Joining): Promise<string> {
  const namespace = mailboxOf(options.name);
  await waitFor(
    hub,
    {
      of: NAMESPACES,
      key: objectKey(undefined, namespace),
      timeoutMs,
      until: (it) => it !== undefined && !isDeleting(it),
      message: () => `the hub did not make namespace ${namespace}: is "fairlead hub" running?`,
    },
    deps,
    signal,
  );
  try {
    await hub.create(SERVICE_ACCOUNTS, { metadata: { namespace, name: MEMBER_ACCOUNT } }, { signal });
  } catch (error) {
    if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
  }
  return requestToken(hub, { namespace, name: MEMBER_ACCOUNT, seconds: TOKEN_SECONDS }, signal);
}

/** Kinds, namespace and Secret in the member. */
async function equip({ options, deps, member, undo, signal }: Joining, token: string): Promise<void> {
  await installCrds(member, { crds: MEMBER_CRDS, fieldManager: MEMBER_MANAGER }, deps, signal);
  try {
    await member.create(NAMESPACES, { metadata: { name: FLEET_SYSTEM_NAMESPACE } }, { signal });
  } catch (error) {
    if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
  }
  const ca = options.hubCa ?? options.hub.ca ?? "";
  const fields = {
    server: options.hubServer ?? options.hub.server,
    "ca.crt": ca,
    token,
    cluster: options.name,
  };
  const data = Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, Buffer.from(value, "utf8").toString("base64")]),
  );
  const key = objectKey(FLEET_SYSTEM_NAMESPACE, HUB_SECRET);
  const before = await member.find(SECRETS, key, { signal });
  await member.apply(
    SECRETS,
    { metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name: HUB_SECRET }, type: "Opaque", data },
    { fieldManager: "fairlead-join", signal },
  );
  if (before === undefined) undo.push(() => member.delete(SECRETS, key));
}

async function awaitAgents({ options, deps, hub, timeoutMs, signal }: Joining): Promise<MemberCluster> {
  const key = objectKey(undefined, options.name);
  const said = (it: MemberCluster | undefined): string =>
    it?.status?.conditions?.find((condition) => condition.type === "Joined")?.message ??
    'the hub says nothing of it: is "fairlead hub" running?';
  const joined = await waitFor(
    hub,
    {
      of: MEMBER_CLUSTERS,
      key,
      timeoutMs,
      until: (it) => isConditionTrue(it?.status?.conditions, "Joined"),
      message: (it) => `${options.name} did not join within ${timeoutMs / 1000} s: ${said(it)}`,
    },
    deps,
    signal,
  );
  return joined ?? hub.get(MEMBER_CLUSTERS, key, { signal });
}
