import { DEPLOYMENTS, type Deployment } from "@fairlead/kube/api/apps/v1/types.ts";
import { NODES, PODS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { abortable } from "@fairlead/base/abortable.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { MCS_SERVICE_IMPORTS } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { type Participant, type Run, SERVER_PODS, serverOf, serviceNames } from "./manifests.ts";
import { byFamily, type Imported, type Other, type Sight } from "./plan.ts";

/** Watches imports of one cluster until nothing is missing, or the time is over. */
export async function watchImports(
  client: KubeClient,
  of: { readonly run: Run; readonly timeoutMs: number; readonly sight: (found: Imported) => Sight },
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<Sight> {
  const { run, timeoutMs, sight } = of;
  const inRun = { namespace: run.namespace };
  await using imports = createInformer(client, MCS_SERVICE_IMPORTS, inRun, deps);
  await using slices = createInformer(client, ENDPOINT_SLICES, inRun, deps);
  const done = Promise.withResolvers<Sight>();
  const seen = (): Sight => sight({ imports: imports.store.list(), slices: slices.store.list() });
  const look = (): void => {
    if (!imports.hasSynced || !slices.hasSynced) return;
    const now = seen();
    if (now.isComplete) done.resolve(now);
  };
  using _timer = deps.clock.after(timeoutMs, () => done.resolve(seen()));
  using _imports = imports.subscribe(look);
  using _slices = slices.subscribe(look);
  imports.start(signal);
  slices.start(signal);
  Promise.all([imports.synced(signal), slices.synced(signal)]).then(look, done.reject);
  return await abortable(done.promise, signal);
}

/**
 * Waits for the server pod of a cluster.
 *
 * @returns The families of its services, and its own addresses.
 * @throws {FleetError} `TIMED_OUT` with the reason that the pod's container waits for.
 */
export async function awaitServer(
  client: KubeClient,
  of: { readonly run: Run; readonly participant: Participant; readonly timeoutMs: number },
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<Pick<Other, "families" | "pods">> {
  const { run, participant, timeoutMs } = of;
  const { name: cluster } = participant;
  const { name } = serverOf(run, participant).metadata;
  try {
    await waitFor<Deployment>(
      client,
      {
        of: DEPLOYMENTS,
        key: objectKey(run.namespace, name),
        timeoutMs,
        until: (it) => (it?.status?.availableReplicas ?? 0) > 0,
        message: () => `the server pod in ${cluster} is not ready after ${timeoutMs / 1000} s`,
      },
      deps,
      signal,
    );
    const key = objectKey(run.namespace, serviceNames(participant).pods);
    const { spec } = await client.get(SERVICES, key, { signal });
    const labelSelector = SERVER_PODS;
    const { items } = await client.list(PODS, { namespace: run.namespace, labelSelector, signal });
    const pods = byFamily(items.flatMap((it) => it.status?.podIPs ?? []).map((it) => it.ip));
    return { families: spec?.ipFamilies ?? ["IPv4"], pods };
  } catch (error) {
    if (signal.aborted) throw error;
    const why = await waitingReason(client, run, signal);
    throw why === undefined
      ? error
      : new FleetError("TIMED_OUT", `the server pod in ${cluster} is not ready: ${why}`, { cause: error });
  }
}

async function waitingReason(
  client: KubeClient,
  { namespace }: Run,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { items } = await client.list(PODS, { namespace, signal });
  if (items.length === 0) return "there is no pod";
  const pending = items
    .flatMap((it) => it.status?.conditions ?? [])
    .find((it) => it.type === "PodScheduled" && it.status === "False");
  if (pending !== undefined) return `not scheduled: ${String(pending.message ?? pending.reason)}`;
  const [state] = items.flatMap((it) => it.status?.containerStatuses ?? []).flatMap((it) => it.state ?? []);
  const { reason, message } = state?.waiting ?? {};
  return reason === undefined ? undefined : `${reason}: ${message ?? ""}`;
}

const OF_FAIRLEAD = "app.kubernetes.io/part-of=fairlead";
/** What a lab's nodes have instead of an installed image. */
const LAB_IMAGE = "fairlead.dev/fairlead:";

/**
 * The image of Fairlead that a cluster runs, or that its nodes have.
 *
 * @throws {FleetError} `PRECONDITION_FAILED`
 */
export async function imageOf(client: KubeClient, cluster: string, signal: AbortSignal): Promise<string> {
  const installed = await client.list(DEPLOYMENTS, {
    namespace: FLEET_SYSTEM_NAMESPACE,
    labelSelector: OF_FAIRLEAD,
    signal,
  });
  const images = installed.items.map((it) => it.spec?.template.spec?.containers[0]?.image);
  const nodes = images.length > 0 ? [] : (await client.list(NODES, { signal })).items;
  const onNodes = nodes.flatMap((it) => it.status?.images ?? []).flatMap((it) => it.names ?? []);
  const found = [...images, onNodes.find((it) => it.startsWith(LAB_IMAGE))].find((it) => it !== undefined);
  if (found !== undefined) return found;
  throw new FleetError(
    "PRECONDITION_FAILED",
    `${cluster} runs no Fairlead in ${FLEET_SYSTEM_NAMESPACE} whose image the pods could have; pass --image`,
  );
}
