import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { setCondition } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { isTerminal } from "./pods.ts";

/** Why a pod goes although nothing is wrong with it. */
export interface DisruptionReason {
  readonly reason: string;
  readonly message: string;
}

/**
 * Notes on the pod why it is about to be removed (KEP-3329): a Job's `podFailurePolicy` asks for it.
 *
 * @param isLost - There is no kubelet that could say that the pod ended: it counts as failed from now on.
 */
export async function markDisrupted(
  { client, clock }: { readonly client: KubeClient; readonly clock: Clock },
  pod: Pod,
  why: DisruptionReason & { readonly isLost?: boolean },
  signal: AbortSignal,
): Promise<void> {
  if (isTerminal(pod)) return;
  const { reason, message, isLost = false } = why;
  const present = pod.status?.conditions;
  const next = { type: "DisruptionTarget", status: "True", reason, message } as const;
  const conditions = reason === "" ? (present ?? []) : setCondition(present, next, clock);
  if (conditions === present && !isLost) return;
  const { uid, resourceVersion } = pod.metadata;
  const status = { conditions, ...(isLost ? { phase: "Failed" } : {}) };
  const patch = { metadata: { uid, resourceVersion }, status };
  await client.mergePatch(PODS, keyOf(pod), patch, { subresource: "status", signal });
}
