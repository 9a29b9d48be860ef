import { HEARTBEAT_SECONDS } from "#api/cluster.kubernetes-fleet.io/defaults.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { CLUSTER_UID_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { INTERNAL_SERVICE_EXPORTS } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import type { Side } from "./steps.ts";

/** Which member of the fleet a cluster is already. */

export interface Joiner {
  readonly name: string;
  /** Of its namespace kube-system. */
  readonly uid: string;
  readonly hub: Side;
  readonly member: Side;
  readonly members: readonly MemberCluster[];
}

/**
 * The member as the hub has it.
 *
 * @throws {FleetError} `OPTION_INVALID` where another cluster has the name, or may have it, or the cluster another name.
 */
export async function findPresent(
  joiner: Joiner,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<MemberCluster | undefined> {
  const { name, uid, members } = joiner;
  const named = members.find((it) => it.metadata.name === name);
  if (named !== undefined) {
    if (isDeleting(named))
      throw new FleetError(
        "OPTION_INVALID",
        `${name} is leaving the fleet; wait until it has left, then join again`,
      );
    const of = uidOf(named);
    if (of === undefined) await checkAdoption(named, joiner, deps, signal);
    if (of === undefined || of === uid) return named;
    throw new FleetError(
      "OPTION_INVALID",
      `the fleet has another cluster named ${name}; choose another name, or remove that cluster with "fairlead leave ${name}"`,
    );
  }
  const twin = members.find((it) => uidOf(it) === uid);
  if (twin === undefined) return undefined;
  throw new FleetError(
    "OPTION_INVALID",
    `the cluster is already a member, as ${twin.metadata.name}; run "fairlead leave ${twin.metadata.name}" first`,
  );
}

function uidOf({ metadata }: MemberCluster): string | undefined {
  return metadata.annotations?.[CLUSTER_UID_ANNOTATION];
}

/**
 * A MemberCluster made by KubeFleet or by hand has no cluster UID. It is adopted if the exports of the member show that it
 * is this cluster, or if no agent reports for it.
 */
async function checkAdoption(
  present: MemberCluster,
  joiner: Joiner,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  const { name, uid, hub, member } = joiner;
  const verdict = await compareExports(joiner, signal);
  if (verdict === "same") return;
  const received = lastSeen(present, clockOfServer(hub.client, deps.clock).now());
  if (verdict === "unknown" && received === undefined) return;
  const why =
    verdict === "other"
      ? `the services that it exported are not those of ${member.who}`
      : `an agent of an unidentified cluster reported for it ${received} s ago`;
  throw new FleetError(
    "OPTION_INVALID",
    `MemberCluster ${name} of the hub has no cluster UID and may belong to another cluster: ${why}; if it is this cluster, run on the hub: kubectl annotate membercluster ${name} ${CLUSTER_UID_ANNOTATION}=${uid}`,
  );
}

/** Enough to identify a cluster: one Service with the same UID is proof. */
const MOST_COMPARED = 20;

/** Compares the UIDs of the exported Services in the member namespace with the Services of this cluster. */
async function compareExports(
  { name, hub, member }: Joiner,
  signal: AbortSignal,
): Promise<"same" | "other" | "unknown"> {
  let exported;
  try {
    exported = (await hub.client.list(INTERNAL_SERVICE_EXPORTS, { namespace: mailboxOf(name), signal }))
      .items;
  } catch (error) {
    if (hasCode(error, "API_NOT_FOUND")) return "unknown";
    throw error;
  }
  let others = 0;
  for (const { spec } of exported.slice(0, MOST_COMPARED)) {
    if (spec === undefined) continue;
    const { namespace, name: service, uid } = spec.serviceReference;
    const own = await member.client.find(SERVICES, objectKey(namespace, service), { signal });
    if (own?.metadata.uid === uid) return "same";
    others++;
  }
  return others === 0 ? "unknown" : "other";
}

/** A member whose agent is silent for so many periods has no agent any more. */
const SILENT_PERIODS = 5;

/** How long ago an agent last reported for the member. Undefined if it has no agent any more. Unit: seconds. */
function lastSeen({ spec, status }: MemberCluster, nowMs: number): number | undefined {
  const times = (status?.agentStatus ?? [])
    .map((it) => Date.parse(it.lastReceivedHeartbeat ?? ""))
    .filter((it) => !Number.isNaN(it));
  if (times.length === 0) return undefined;
  const agoS = Math.max(0, Math.round((nowMs - Math.max(...times)) / 1000));
  return agoS > SILENT_PERIODS * (spec.heartbeatPeriodSeconds ?? HEARTBEAT_SECONDS) ? undefined : agoS;
}
