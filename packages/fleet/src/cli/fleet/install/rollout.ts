import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { EVENTS, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import { lackingOf } from "#domain/deployment.ts";
import { isReady, lastWarning, whyNotRunning } from "#domain/pods.ts";
import type { Side } from "../steps.ts";

/** Whether an installed Deployment is rolled out, and why not. */

/** @throws {FleetError} `TIMED_OUT` with what is not ready and why. */
export async function awaitRollout(
  side: Side,
  wait: { readonly name: string; readonly timeoutMs: number },
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  const { name, timeoutMs } = wait;
  const key = objectKey(FLEET_SYSTEM_NAMESPACE, name);
  const of = DEPLOYMENTS;
  try {
    await waitFor(
      side.client,
      {
        of,
        key,
        timeoutMs,
        until: (it) => lackingOf(it) === undefined,
        message: (it) => lackingOf(it) ?? "",
      },
      deps,
      signal,
    );
  } catch (error) {
    if (!hasCode(error, "TIMED_OUT")) throw error;
    const why = await explain(side, name, signal);
    const message = `Deployment ${key} of ${side.who} was not rolled out within ${timeoutMs / 1000} s: ${error.message}${why}`;
    throw new FleetError("TIMED_OUT", message, { cause: error.cause });
  }
}

/** Enough to act upon; pods of one Deployment are mostly stuck for one reason. */
const MOST_PODS = 2;

async function explain({ client }: Side, name: string, signal: AbortSignal): Promise<string> {
  const namespace = FLEET_SYSTEM_NAMESPACE;
  const deployment = await client.find(DEPLOYMENTS, objectKey(namespace, name), { signal });
  if (deployment === undefined) return "";
  const labels = Object.entries(deployment.spec?.selector.matchLabels ?? {});
  const labelSelector = labels.map(([label, value]) => `${label}=${value}`).join(",");
  const [pods, events] = await Promise.all([
    client.list(PODS, { namespace, labelSelector, signal }),
    // Without events, the message is only shorter.
    client.list(EVENTS, { namespace, signal }).catch(() => ({ items: [] })),
  ]);
  const stuck = pods.items.filter((it) => !isReady(it) && it.metadata.deletionTimestamp === undefined);
  const said = stuck.slice(0, MOST_PODS).map((pod) => {
    const warning = lastWarning(events.items, pod.metadata.uid);
    const event = warning === undefined ? "" : ` (last event: ${warning})`;
    return `. Pod ${keyOf(pod)}: ${whyNotRunning(pod)}${event}${remedy(pod)}`;
  });
  const refusal = deployment.status?.conditions?.find(
    (it) => it.type === "ReplicaFailure" && it.status === "True",
  );
  if (refusal?.message !== undefined) said.unshift(`. Pods cannot be created: ${refusal.message}`);
  return said.join("");
}

/** The command that shows the logs of a container that has run. */
function remedy({ metadata, status }: Pod): string {
  const { state, lastState } = status?.containerStatuses?.[0] ?? {};
  const logs = `: kubectl -n ${metadata.namespace ?? ""} logs ${metadata.name}`;
  if (state?.running !== undefined) return logs;
  return lastState?.terminated === undefined ? "" : `${logs} --previous`;
}
