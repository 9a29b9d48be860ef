import { defined } from "@fairlead/base/defined.ts";
import type { StatefulSet } from "@fairlead/kube/api/apps/v1/types.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { availableInMs, isReady, isTerminal } from "../pods.ts";
import { ordinalOf, revisionOf } from "./identity.ts";

/**
 * What a StatefulSet does with its pods next. Source: k8s.io/kubernetes, pkg/controller/statefulset/stateful_set_control.go:
 * first every pod that is missing, in order; then those too many, the highest first; then the update, the highest first.
 * Under OrderedReady each step waits until the one before it is done.
 */

export interface View {
  readonly set: StatefulSet;
  readonly own: readonly Pod[];
  /** The names of the revisions. */
  readonly current: string;
  readonly update: string;
  readonly nowMs: number;
}

export interface PodsPlan {
  readonly create: readonly { readonly ordinal: number; readonly revision: string }[];
  readonly delete: readonly Pod[];
}

const NOTHING: PodsPlan = { create: [], delete: [] };

export function planPods(view: View): PodsPlan {
  if (isDeleting(view.set)) return NOTHING;
  const isOrdered = view.set.spec?.podManagementPolicy !== "Parallel";
  const places = placesOf(view);
  const fill = planFill(view, places, isOrdered);
  const isBusy = fill.create.length + fill.delete.length > 0;
  if (isOrdered && (isBusy || fill.isWaiting)) return fill;
  const surplus = planSurplus(view, places, isOrdered);
  if (surplus.isWaiting || surplus.delete.length > 0)
    return { create: fill.create, delete: [...fill.delete, ...surplus.delete] };
  return { create: fill.create, delete: [...fill.delete, ...(isBusy ? [] : planUpdate(view, places))] };
}

interface Places {
  readonly first: number;
  readonly wanted: readonly { readonly ordinal: number; readonly pod: Pod | undefined }[];
  /** The highest first. */
  readonly surplus: readonly Pod[];
}

function placesOf({ set, own }: View): Places {
  const first = set.spec?.ordinals?.start ?? 0;
  const count = set.spec?.replicas ?? 1;
  const byOrdinal = new Map<number, Pod>();
  const surplus: { readonly ordinal: number; readonly pod: Pod }[] = [];
  for (const pod of own) {
    const ordinal = ordinalOf(set, pod);
    if (ordinal === undefined) continue;
    if (ordinal >= first && ordinal < first + count) byOrdinal.set(ordinal, pod);
    else surplus.push({ ordinal, pod });
  }
  const wanted = Array.from({ length: count }, (_, index) => first + index);
  return {
    first,
    wanted: wanted.map((ordinal) => ({ ordinal, pod: byOrdinal.get(ordinal) })),
    surplus: surplus.toSorted((a, b) => b.ordinal - a.ordinal).map(({ pod }) => pod),
  };
}

type Step = PodsPlan & { readonly isWaiting: boolean };

/** Creates missing pods; a pod that ended is deleted, and recreated once it is gone. */
function planFill(view: View, { first, wanted }: Places, isOrdered: boolean): Step {
  const { type, rollingUpdate } = view.set.spec?.updateStrategy ?? {};
  // Below the partition pods stay what they were.
  const updateFrom = type === "OnDelete" ? first : first + (rollingUpdate?.partition ?? 0);
  const gap = wanted.findIndex(({ pod }) => pod === undefined || !isAvailable(pod, view));
  const isWaiting = isOrdered && gap >= 0;
  const inTurn = isWaiting ? wanted.slice(0, gap + 1) : wanted;
  return {
    create: inTurn
      .filter(({ pod }) => pod === undefined)
      .map(({ ordinal }) => ({ ordinal, revision: ordinal < updateFrom ? view.current : view.update })),
    delete: inTurn.flatMap(({ pod }) =>
      pod !== undefined && isTerminal(pod) && !isDeleting(pod) ? pod : [],
    ),
    isWaiting,
  };
}

function planSurplus(view: View, { surplus, wanted }: Places, isOrdered: boolean): Step {
  if (!isOrdered) return { create: [], delete: surplus.filter((pod) => !isDeleting(pod)), isWaiting: false };
  const inOrder = [...wanted.flatMap(({ pod }) => pod ?? []), ...surplus.toReversed()];
  const firstUnhealthy = inOrder.find((pod) => !isHealthy(pod));
  const [last] = surplus;
  if (last === undefined) return { create: [], delete: [], isWaiting: false };
  // What ended will never be well: there is nothing to wait for.
  const mayGo = isAvailable(last, view) || isTerminal(last) || last === firstUnhealthy;
  return { create: [], delete: mayGo && !isDeleting(last) ? [last] : [], isWaiting: true };
}

/** At most one pod is out for the update at any time. */
function planUpdate(view: View, { first, wanted }: Places): Pod[] {
  const { type, rollingUpdate } = view.set.spec?.updateStrategy ?? {};
  if (type === "OnDelete") return [];
  const from = first + (rollingUpdate?.partition ?? 0);
  const affected = wanted.filter(({ ordinal }) => ordinal >= from).toReversed();
  for (const { pod } of affected) {
    if (pod === undefined || isDeleting(pod)) return [];
    if (revisionOf(pod) !== view.update) return [pod];
    if (!isAvailable(pod, view)) return [];
  }
  return [];
}

function isRunningAndReady(pod: Pod): boolean {
  return pod.status?.phase === "Running" && isReady(pod);
}

function isHealthy(pod: Pod): boolean {
  return isRunningAndReady(pod) && !isDeleting(pod);
}

function isAvailable(pod: Pod, view: View): boolean {
  return isHealthy(pod) && availableInMs(pod, view.set.spec?.minReadySeconds ?? 0, view.nowMs) === 0;
}

type StatefulSetStatus = NonNullable<StatefulSet["status"]>;

export interface StatusPlan {
  readonly status: StatefulSetStatus;
  /** When a pod will count as available without anything else happening. Unit: milliseconds from now. */
  readonly checkInMs: number | undefined;
}

export function planStatus(view: View): StatusPlan {
  const { set, own } = view;
  const ready = own.filter(isRunningAndReady);
  const waits = ready.map((pod) => availableInMs(pod, set.spec?.minReadySeconds ?? 0, view.nowMs));
  const pending = waits.filter((ms) => ms > 0);
  const { generation } = set.metadata;
  return {
    status: {
      replicas: own.length,
      readyReplicas: ready.length,
      availableReplicas: waits.length - pending.length,
      ...rollout(view, ready.length),
      collisionCount: 0,
      ...defined({ observedGeneration: generation }),
      ...(set.status?.conditions === undefined ? {} : { conditions: set.status.conditions }),
    },
    checkInMs: pending.length === 0 ? undefined : Math.min(...pending),
  };
}

/** How far the update is. Once every pod has it, it is what the set has now. */
function rollout({ set, own, current, update }: View, readyCount: number) {
  const staying = own.filter((pod) => !isDeleting(pod));
  const countOf = (revision: string): number => staying.filter((pod) => revisionOf(pod) === revision).length;
  const updatedReplicas = countOf(update);
  const { replicas: wanted = 1, updateStrategy } = set.spec ?? {};
  const isComplete =
    updateStrategy?.type !== "OnDelete" &&
    [updatedReplicas, own.length, readyCount].every((count) => count === wanted);
  return {
    currentReplicas: isComplete ? updatedReplicas : countOf(current),
    updatedReplicas,
    currentRevision: isComplete ? update : current,
    updateRevision: update,
  };
}
