import { type Deployment, DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { testDeps } from "./fleet.ts";

/** In the place of controllers and nodes: what becomes of each workload is for a test to say. */

export interface Said {
  /** What becomes of a Deployment. Default: nothing. */
  readonly deployment?: (deployment: Deployment) => Deployment["status"] | undefined;
  /** What becomes of a pod. Default: nothing. */
  readonly pod?: (pod: Pod) => Pod["status"] | undefined;
}

export async function sayOfWorkloads(client: KubeClient, said: Said): Promise<AsyncDisposable> {
  const stop = new AbortController();
  const deps = testDeps("workloads");
  await using stack = new AsyncDisposableStack();
  stack.defer(() => stop.abort());
  const deployments = stack.use(createInformer(client, DEPLOYMENTS, {}, deps));
  const pods = stack.use(createInformer(client, PODS, {}, deps));
  const options = { subresource: "status" } as const;
  const ignoreGone = (error: unknown): void => {
    if (!stop.signal.aborted && !hasCode(error, "API_NOT_FOUND")) throw error;
  };
  const seen = new Set<string>();
  stack.use(
    deployments.subscribe(({ after }) => {
      const generation = `${after?.metadata.uid} ${after?.metadata.generation}`;
      if (after === undefined || seen.has(generation)) return;
      seen.add(generation);
      const status = said.deployment?.(after);
      if (status !== undefined)
        client.mergePatch(DEPLOYMENTS, keyOf(after), { status }, options).catch(ignoreGone);
    }),
  );
  stack.use(
    pods.subscribe(({ before, after }) => {
      const status = before === undefined && after !== undefined ? said.pod?.(after) : undefined;
      if (after === undefined || status === undefined) return;
      client.mergePatch(PODS, keyOf(after), { status }, options).catch(ignoreGone);
    }),
  );
  for (const informer of [deployments, pods]) {
    informer.start(stop.signal);
    await informer.synced(stop.signal);
  }
  return stack.move();
}

/** As a cluster in which all is well makes it. */
export function rolledOut({ metadata, spec }: Deployment): NonNullable<Deployment["status"]> {
  const replicas = spec?.replicas ?? 1;
  return {
    observedGeneration: metadata.generation ?? 0,
    replicas,
    updatedReplicas: replicas,
    readyReplicas: replicas,
    availableReplicas: replicas,
  };
}
