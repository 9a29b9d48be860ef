import { RUN_LABEL } from "#api/fairlead.dev/names.ts";
import { NAMESPACES, type Namespace } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/** A namespace takes everything in it along; agents release its exports. */

/** Deletes a namespace of a run and waits until it is gone. */
export async function removeNamespace(
  client: KubeClient,
  of: { readonly namespace: string; readonly cluster: string; readonly timeoutMs: number },
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  const { namespace, cluster, timeoutMs } = of;
  const key = objectKey(undefined, namespace);
  await client.delete(NAMESPACES, key, { signal });
  await waitFor<Namespace>(
    client,
    {
      of: NAMESPACES,
      key,
      timeoutMs,
      until: (it) => it === undefined,
      message: (it) => {
        const why = it?.status?.conditions?.find((one) => one.status === "True")?.message;
        return `namespace ${namespace} of ${cluster} is still there after ${timeoutMs / 1000} s${why === undefined ? "" : `: ${why}`}`;
      },
    },
    deps,
    signal,
  );
}

/** Namespaces that runs have left that were killed: older than a run can take. */
export function staleNamespaces(
  namespaces: readonly Namespace[],
  { nowMs, olderThanMs }: { readonly nowMs: number; readonly olderThanMs: number },
): readonly string[] {
  return namespaces
    .filter((it) => it.metadata.labels?.[RUN_LABEL] !== undefined && !isDeleting(it))
    .filter(({ metadata }) => nowMs - Date.parse(metadata.creationTimestamp ?? "") > olderThanMs)
    .map((it) => it.metadata.name);
}

/** Deletes what killed runs have left, without waiting for its end. @returns The names. */
export async function removeStale(
  client: KubeClient,
  age: { readonly nowMs: number; readonly olderThanMs: number },
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { items } = await client.list(NAMESPACES, { labelSelector: RUN_LABEL, signal });
  const stale = staleNamespaces(items, age);
  for (const name of stale) await client.delete(NAMESPACES, objectKey(undefined, name), { signal });
  return stale;
}
