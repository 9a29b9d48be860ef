import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject, LabelSelector, OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { type Matcher, matcherOf } from "@fairlead/kube/objects/selector.ts";
import type { Change, Informer, KubeClient } from "@fairlead/kube/types.ts";
import { controllerOf, isActive, isControlledBy } from "./pods.ts";

/** Which pods a workload takes for its own. Source: k8s.io/kubernetes, pkg/controller/controller_ref_manager.go. */
export interface PodClaims {
  /** Its own, by now or once adopted. */
  readonly own: readonly Pod[];
  /** Match the selector and have no controller. */
  readonly adopt: readonly Pod[];
  /** Are its own and match no longer. */
  readonly release: readonly Pod[];
}

export function planClaims(owner: KubeObject, pods: Iterable<Pod>, matches: Matcher): PodClaims {
  const own: Pod[] = [];
  const adopt: Pod[] = [];
  const release: Pod[] = [];
  for (const pod of pods) {
    const isMatching = matches(pod.metadata.labels);
    if (isControlledBy(pod, owner)) (isMatching || isDeleting(pod) ? own : release).push(pod);
    // A workload that is being deleted adopts no pods, and a pod that is being deleted is not adopted.
    else if (isMatching && controllerOf(pod) === undefined && isActive(pod) && !isDeleting(owner))
      adopt.push(pod);
  }
  return { own: [...own, ...adopt], adopt, release };
}

/** Applies the plan: adopts pods and releases pods. */
export async function settleClaims(
  client: KubeClient,
  owner: OwnerReference,
  { adopt, release }: PodClaims,
  signal: AbortSignal,
): Promise<void> {
  for (const pod of adopt) await setController(client, pod, [owner], signal);
  for (const pod of release) await setController(client, pod, [], signal);
}

/** The uid makes sure that it is still the same pod. */
async function setController(
  client: KubeClient,
  pod: Pod,
  controller: readonly OwnerReference[],
  signal: AbortSignal,
): Promise<void> {
  const { uid, resourceVersion, ownerReferences = [] } = pod.metadata;
  const others = ownerReferences.filter((it) => it.controller !== true);
  const metadata = { uid, resourceVersion, ownerReferences: [...others, ...controller] };
  await client.mergePatch(PODS, keyOf(pod), { metadata }, { signal }).catch(ignoreNotFound);
}

/** The workload of a kind that owns an object, or owned it. */
export function ownerOf(kind: string, object: KubeObject | undefined): ObjectKey[] {
  const owner = object === undefined ? undefined : controllerOf(object);
  return owner?.kind === kind ? [objectKey(object?.metadata.namespace, owner.name)] : [];
}

/**
 * The workload of a kind that owns a pod or owned it, and for an orphan all that may take it in: by their selector, and
 * by what else they go by.
 */
export function claimantsOf<T extends KubeObject & { spec?: { selector?: LabelSelector } }>(
  { of, store }: Informer<T>,
  { before, after }: Change<Pod>,
  mayBeOf: (workload: T, pod: Pod) => boolean = () => true,
): ObjectKey[] {
  return [before, after].flatMap((pod) => {
    if (pod === undefined) return [];
    if (controllerOf(pod) !== undefined) return ownerOf(of.kind, pod);
    return [...store.byIndex("namespace", pod.metadata.namespace ?? "")]
      .filter((it) => mayBeOf(it, pod) && matcherOf(it.spec?.selector)(pod.metadata.labels))
      .map((it) => keyOf(it));
  });
}
