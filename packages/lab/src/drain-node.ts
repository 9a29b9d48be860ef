import { delay } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { type Node, NODES, PODS, type Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

interface DrainOptions {
  /** Unit: milliseconds. */
  readonly timeoutMs: number;
  readonly deps: RuntimeDeps;
  readonly signal: AbortSignal;
}

/** After a disruption budget refused an eviction, as `kubectl drain` waits. Unit: milliseconds. */
const RETRY_MS = 1000;

/** On a node that a drain cordoned, and not a user: a process that takes the upgrade over finds it there. */
const DRAINED_ANNOTATION = "lab.fairlead.dev/drained";

/** Lets pods on nodes again that a drain cordoned, which may have been one of a process that is gone. */
export async function uncordonDrained(
  client: KubeClient,
  { except, signal }: { readonly except?: string | undefined; readonly signal: AbortSignal },
): Promise<void> {
  const isHeld = ({ metadata: { name, annotations } }: Node): boolean =>
    annotations?.[DRAINED_ANNOTATION] !== undefined && name !== except;
  const { items } = await client.list(NODES, { signal });
  const patch = { metadata: { annotations: { [DRAINED_ANNOTATION]: null } }, spec: { unschedulable: null } };
  for (const it of items.filter(isHeld)) await client.mergePatch(NODES, keyOf(it), patch, { signal });
}

/** One that a user cordoned stays as it is. */
async function cordon(client: KubeClient, name: string, signal: AbortSignal): Promise<void> {
  const key = objectKey(undefined, name);
  const { spec } = await client.get(NODES, key, { signal });
  if (spec?.unschedulable === true) return;
  const patch = {
    metadata: { annotations: { [DRAINED_ANNOTATION]: "true" } },
    spec: { unschedulable: true },
  };
  await client.mergePatch(NODES, key, patch, { signal });
}

/**
 * Cordons a node and evicts its pods, as disruption budgets allow. Pods of DaemonSets stay.
 *
 * @throws {FleetError} `TIMED_OUT` with the pods that are left.
 */
export async function drainNode(client: KubeClient, node: string, options: DrainOptions): Promise<void> {
  const { timeoutMs, deps, signal } = options;
  await cordon(client, node, signal);
  await using pods = createInformer(client, PODS, { fieldSelector: `spec.nodeName=${node}` }, deps);
  pods.start(signal);
  await pods.synced(signal);
  const left = (): readonly Pod[] => [...pods.store.list()].filter(mustLeave);
  const endMs = deps.clock.monotonic() + timeoutMs;
  while (left().length > 0) {
    if (deps.clock.monotonic() > endMs)
      throw new FleetError(
        "TIMED_OUT",
        `cannot drain ${node} within ${timeoutMs / 1000} s: ${left()
          .map((it) => keyOf(it))
          .join(", ")} are left; look at their PodDisruptionBudgets`,
      );
    await Promise.all(
      left()
        .filter((it) => it.metadata.deletionTimestamp === undefined)
        .map((it) => evict(client, it, signal)),
    );
    const changed = Promise.withResolvers<void>();
    using _watch = pods.subscribe(() => changed.resolve());
    if (left().length > 0) await Promise.race([changed.promise, delay(deps.clock, RETRY_MS, signal)]);
  }
}

/** As `kubectl drain --ignore-daemonsets`: finished pods go with the node. */
function mustLeave({ metadata, status }: Pod): boolean {
  const isOfDaemonSet = metadata.ownerReferences?.some(
    (it) => it.kind === "DaemonSet" && it.controller === true,
  );
  return isOfDaemonSet !== true && status?.phase !== "Succeeded" && status?.phase !== "Failed";
}

/** A budget that does not allow it is asked again later. */
async function evict(client: KubeClient, { metadata }: Pod, signal: AbortSignal): Promise<void> {
  const { namespace = "", name } = metadata;
  const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { namespace, name } };
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/eviction`;
  try {
    await client.request("POST", path, eviction, { signal });
  } catch (error) {
    if (!hasCode(error, "API_TOO_MANY_REQUESTS") && !hasCode(error, "API_NOT_FOUND")) throw error;
  }
}
