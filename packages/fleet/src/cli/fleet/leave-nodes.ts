import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { NODE_AGENTS } from "#api/fairlead.dev/node-agents.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { imageOf, isOwn, isRemoval, lackingOf, nodeDaemonSet } from "#domain/node-daemon-set.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { DAEMON_SETS, type DaemonSet } from "@fairlead/kube/api/apps/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

const KEY = objectKey(FLEET_SYSTEM_NAMESPACE, NODE_AGENTS);

/**
 * Removes the parallel network from the nodes as the member's agent does when it leaves the network: by its DaemonSet, which is then
 * deleted. That agent must not run any more.
 *
 * @param timeoutMs - For all nodes together.
 * @returns What is left, and how to remove it; undefined if nothing is.
 */
export async function removeNodeAgents(
  member: KubeClient,
  timeoutMs: number,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<string | undefined> {
  const present = await member.find(DAEMON_SETS, KEY, { signal });
  if (present === undefined || !isOwn(present)) return undefined;
  if (!isRemoval(present)) {
    const desired = nodeDaemonSet({ image: imageOf(present), isRemoving: true });
    await member.apply(DAEMON_SETS, desired, { fieldManager: MEMBER_MANAGER, force: true, signal });
  }
  const isDone = (it: DaemonSet | undefined): boolean =>
    it === undefined || (isRemoval(it) && lackingOf(it) === undefined);
  try {
    await waitFor(
      member,
      { of: DAEMON_SETS, key: KEY, timeoutMs, until: isDone, message: describeLeft },
      deps,
      signal,
    );
  } catch (error) {
    if (Error.isError(error) && hasCode(error, "TIMED_OUT")) return error.message;
    throw error;
  }
  await member.delete(DAEMON_SETS, KEY, { signal });
  return undefined;
}

function describeLeft(daemonSet: DaemonSet | undefined): string {
  const lacking = daemonSet === undefined ? "" : `: ${lackingOf(daemonSet) ?? "it is being rolled out"}`;
  return (
    `DaemonSet ${KEY} still removes the parallel network from nodes${lacking}; it stays, with its ServiceAccount and roles. ` +
    "When all of its pods are ready, run the same command again, which deletes them"
  );
}
