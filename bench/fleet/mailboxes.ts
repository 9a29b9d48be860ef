/** Members as far as placements see them: mailboxes, heartbeats, and Works that are reported as applied as soon as they are there. */

import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
  type MemberCluster,
  type MemberClusterStatus,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { type Work, WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { until } from "./until.ts";

const AT_A_TIME = 16;
/** The default of MemberClusters. Unit: milliseconds. */
const HEARTBEAT_MS = 60_000;

/** Members with labels, which the hub has made mailboxes for and which look alive. */
export async function joinMailboxes(
  client: KubeClient,
  members: ReadonlyMap<string, Readonly<Record<string, string>>>,
  signal: AbortSignal,
): Promise<void> {
  await inParallel(members, AT_A_TIME, async ([name, labels]) => {
    const spec: MemberCluster["spec"] = {
      identity: { kind: "User", name: `member-${name}`, apiGroup: "rbac.authorization.k8s.io" },
    };
    await client.create(MEMBER_CLUSTERS, { metadata: { name, labels: { ...labels } }, spec }, { signal });
  });
  await inParallel(members.keys(), AT_A_TIME, async (name) => {
    const key = objectKey(mailboxOf(name), name);
    await until(
      async () => (await client.find(INTERNAL_MEMBER_CLUSTERS, key, { signal })) !== undefined,
      signal,
    );
    await beat(client, name, signal);
  });
}

async function beat(client: KubeClient, name: string, signal: AbortSignal): Promise<void> {
  await client.mergePatch(
    INTERNAL_MEMBER_CLUSTERS,
    objectKey(mailboxOf(name), name),
    { status: aliveStatus(systemClock.now()) },
    { subresource: "status", signal },
  );
}

/** Has each member report every minute that it is alive, one after another, as agents do. */
export function keepAlive(client: KubeClient, members: readonly string[]): AsyncDisposable {
  const stop = new AbortController();
  const beats = async (): Promise<void> => {
    while (!stop.signal.aborted)
      for (const name of members) {
        await delay(systemClock, HEARTBEAT_MS / members.length, stop.signal);
        await beat(client, name, stop.signal);
      }
  };
  const done = beats().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await done;
    },
  };
}

/** When all members joined: a later heartbeat does not change their conditions. Unit: milliseconds since the epoch. */
const JOINED_MS = Date.parse("2026-01-01T00:00:00Z");

function aliveStatus(nowMs: number): MemberClusterStatus {
  const conditions = ["Joined", "Healthy"].map((type) =>
    condition(type, `InternalMemberCluster${type}`, JOINED_MS, 1),
  );
  return { agentStatus: [{ type: "MemberAgent", conditions, lastReceivedHeartbeat: timestamp(nowMs) }] };
}

function condition(type: string, reason: string, nowMs: number, observedGeneration: number): Condition {
  return {
    type,
    status: "True",
    reason,
    message: "",
    lastTransitionTime: timestamp(nowMs),
    observedGeneration,
  };
}

export interface Answers extends AsyncDisposable {
  /** How many Works were answered so far. */
  count(): number;
}

/** Reports each Work as applied and available, for all members. */
export async function answerWorks(
  client: KubeClient,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<Answers> {
  const works = createInformer(
    client,
    WORKS,
    { trim: ({ spec: { workload: _workload, ...spec }, ...it }) => ({ ...it, spec }) },
    deps,
  );
  let count = 0;
  const answer = async (work: Work): Promise<void> => {
    const generation = work.metadata.generation ?? 0;
    if (work.status?.conditions?.[0]?.observedGeneration === generation) return;
    count += 1;
    const conditions = [
      condition("Applied", "AllManifestsApplied", deps.clock.now(), generation),
      condition("Available", "AllManifestsAvailable", deps.clock.now(), generation),
    ];
    await client
      .mergePatch(WORKS, keyOf(work), { status: { conditions } }, { subresource: "status", signal })
      .catch((error: unknown) => {
        if (!hasCode(error, "API_NOT_FOUND", "ABORTED")) throw error;
      });
  };
  works.subscribe(({ after }) => {
    if (after !== undefined) void answer(after);
  });
  works.start(signal);
  await works.synced(signal);
  return { count: () => count, [Symbol.asyncDispose]: () => works[Symbol.asyncDispose]() };
}
