import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import { NODES, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import { markDisrupted } from "../disruption-target.ts";
import type { LabInformers } from "../informers.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";

type Needs = Pick<LabInformers, "pods" | "nodes">;

/**
 * Removes pods that no other component removes: those of deleted nodes, and pods being deleted that never had
 * a node. Source: pkg/controller/podgc.
 */
export function podGcController(client: KubeClient, { pods, nodes }: Needs, deps: RuntimeDeps): Controller {
  const onNode = (name: string): ObjectKey[] =>
    [...pods.store.byIndex("node", name)].map((pod) => keyOf(pod));
  return createController(
    {
      name: "pod-gc",
      sources: [
        watching(pods),
        watching(nodes, ({ key, after }) => (after === undefined ? onNode(key) : [])),
      ],
      async reconcile(key, signal) {
        const pod = pods.store.get(key);
        if (
          pod === undefined ||
          !isAbandoned(pod, (name) => nodes.store.get(objectKey(undefined, name)) !== undefined)
        )
          return;
        // The cache of nodes may be behind the one of pods: only the server knows that a node is not there.
        const { nodeName = "" } = pod.spec ?? {};
        const isThere =
          nodeName !== "" && (await client.find(NODES, objectKey(undefined, nodeName), { signal }));
        if (isThere !== false && isThere !== undefined) return;
        // Without a node it never ran: there is nothing to explain.
        const why = nodeName === "" ? { reason: "", message: "" } : NODE_GONE;
        try {
          await markDisrupted({ client, clock: deps.clock }, pod, { ...why, isLost: true }, signal);
          await removeNow(client, pod, signal);
        } catch (error) {
          ignoreNotFound(error);
        }
      },
    },
    deps,
  );
}

const NODE_GONE = { reason: "DeletionByPodGC", message: "PodGC: node no longer exists" };

function isAbandoned(pod: Pod, hasNode: (name: string) => boolean): boolean {
  const { nodeName = "" } = pod.spec ?? {};
  return nodeName === "" ? isDeleting(pod) : !hasNode(nodeName);
}

async function removeNow(client: KubeClient, pod: Pod, signal: AbortSignal): Promise<void> {
  try {
    await client.delete(PODS, keyOf(pod), { uid: pod.metadata.uid ?? "", gracePeriodSeconds: 0, signal });
  } catch (error) {
    // Another pod of that name: not ours to remove.
    if (!hasCode(error, "API_CONFLICT")) throw error;
  }
}
