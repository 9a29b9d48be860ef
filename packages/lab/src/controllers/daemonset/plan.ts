import { defined } from "@fairlead/base/defined.ts";
import type { DaemonSet } from "@fairlead/kube/api/apps/v1/types.ts";
import type { Node, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { byText } from "@fairlead/base/text.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { countOf } from "../percent.ts";
import { availableInMs, isReady, isTerminal } from "../pods.ts";
import { type Fit, fitOf, HASH_LABEL, nodeOf } from "./pods.ts";

/** What a DaemonSet does next. Source: k8s.io/kubernetes, pkg/controller/daemon, as of 1.36. */

export interface View {
  readonly set: DaemonSet;
  readonly nodes: readonly Node[];
  readonly own: readonly Pod[];
  /** Hash of the present template. */
  readonly hash: string;
  readonly nowMs: number;
}

export interface PodsPlan {
  /** Nodes that are to get a pod. */
  readonly create: readonly string[];
  readonly delete: readonly Pod[];
}

/** A node's place in the set. */
interface Place {
  readonly name: string;
  readonly fit: Fit;
  /** All, also those on their way out; the oldest first. */
  readonly pods: readonly Pod[];
  /** Those that stay. */
  readonly staying: readonly Pod[];
}

export function planPods(view: View): PodsPlan {
  if (isDeleting(view.set)) return { create: [], delete: [] };
  const places = placesOf(view);
  const basic = places.map((place) => planPlace(view, place));
  const known = new Set(places.map((place) => place.name));
  const lost = view.own.filter((pod) => !known.has(nodeOf(pod)) && !isDeleting(pod) && !hasNode(pod));
  const gone = [...basic.flatMap((it) => it.delete), ...lost];
  // What is missing comes first; where something is done already the update has nothing to do.
  const isBusy = (place: Place): boolean => basic[places.indexOf(place)] !== NOTHING;
  const isManual = view.set.spec?.updateStrategy?.type === "OnDelete";
  const update = isManual ? NOTHING : planUpdate(view, places, isBusy);
  return {
    create: [...basic.flatMap((it) => it.create), ...update.create],
    delete: [...new Set([...gone, ...update.delete])],
  };
}

const NOTHING: PodsPlan = { create: [], delete: [] };

function hasNode(pod: Pod): boolean {
  return (pod.spec?.nodeName ?? "") !== "";
}

function placesOf({ set, nodes, own }: View): Place[] {
  const byNode = Map.groupBy(own, nodeOf);
  return nodes.map((node) => {
    const { name } = node.metadata;
    const pods = (byNode.get(name) ?? []).toSorted(byAge);
    const staying = pods.filter((pod) => !isDeleting(pod));
    return { name, fit: fitOf(set, node), pods, staying };
  });
}

/** Those with a node before those without; then the oldest first. */
function byAge(a: Pod, b: Pod): number {
  return (
    Number(hasNode(b)) - Number(hasNode(a)) ||
    byText(a.metadata.creationTimestamp ?? "", b.metadata.creationTimestamp ?? "") ||
    byText(a.metadata.name, b.metadata.name)
  );
}

/** One pod on each node that is to have one; what ended goes, and comes again. */
function planPlace(view: View, place: Place): PodsPlan {
  const { fit, pods, staying, name } = place;
  if (fit.mayStart && pods.length === 0) return { create: [name], delete: [] };
  if (!fit.mayStay) return remove(staying);
  const ended = staying.filter(isTerminal);
  const running = staying.filter((pod) => !isTerminal(pod));
  if (surgeOf(view.set, 1) === 0) return remove([...ended, ...running.slice(1)]);
  const surplus = [...ended, ...surplusOfSurge(view, running)];
  return running.length === 0 && fit.mayStart ? { create: [name], delete: surplus } : remove(surplus);
}

function remove(pods: readonly Pod[]): PodsPlan {
  return pods.length === 0 ? NOTHING : { create: [], delete: pods };
}

/** Two are right only while the old one serves and the new one does not yet. */
function surplusOfSurge(view: View, running: readonly Pod[]): Pod[] {
  const fresh = running.filter((pod) => isUpdated(view, pod));
  const old = running.filter((pod) => !isUpdated(view, pod));
  const [newest, oldest] = [fresh[0], old[0]];
  const extra = [...fresh.slice(1), ...old.slice(1)];
  if (newest === undefined || oldest === undefined) return extra;
  return isReady(oldest) && !isAvailable(view, newest) ? extra : [...extra, oldest];
}

function isUpdated({ hash }: View, pod: Pod): boolean {
  return pod.metadata.labels?.[HASH_LABEL] === hash;
}

function isAvailable({ set, nowMs }: View, pod: Pod): boolean {
  return availableInMs(pod, set.spec?.minReadySeconds ?? 0, nowMs) === 0;
}

function surgeOf({ spec }: DaemonSet, of: number): number {
  return countOf(spec?.updateStrategy?.rollingUpdate?.maxSurge, of, Math.ceil);
}

type PlaceTest = (place: Place) => boolean;

function planUpdate(view: View, places: readonly Place[], isBusy: PlaceTest): PodsPlan {
  const active = places.filter((place) => place.fit.mayStart || place.pods.length > 0);
  const desired = places.filter((place) => place.fit.mayStart).length;
  const surge = surgeOf(view.set, desired);
  if (surge > 0) return planSurge(view, active, { surge, isBusy });
  const { maxUnavailable = 1 } = view.set.spec?.updateStrategy?.rollingUpdate ?? {};
  const allowed = Math.max(1, countOf(maxUnavailable, desired, Math.ceil));
  return planReplacement(view, active, { allowed, isBusy });
}

/** Old pods make room for new ones: those that do not serve at once, the others as many as may be missing. */
function planReplacement(
  view: View,
  places: readonly Place[],
  { allowed, isBusy }: { readonly allowed: number; readonly isBusy: PlaceTest },
): PodsPlan {
  const isServed = servedIn(view);
  const missing = places.filter((place) => !isServed(place)).length;
  const old = places.filter((place) => place.staying.some((pod) => !isUpdated(view, pod)));
  const broken = old.filter((place) => !isServed(place));
  const candidates = old.filter((place) => isServed(place) && !isBusy(place));
  const replaced = [...broken, ...candidates.slice(0, Math.max(0, allowed - missing))];
  return remove(replaced.flatMap((place) => place.staying.filter((pod) => !isUpdated(view, pod))));
}

function servedIn(view: View): PlaceTest {
  return (place) => place.staying.some((pod) => isAvailable(view, pod));
}

/** New pods run alongside the old ones, as many at a time as the surge allows; `surplusOfSurge` removes the old ones. */
function planSurge(
  view: View,
  places: readonly Place[],
  { surge, isBusy }: { readonly surge: number; readonly isBusy: PlaceTest },
): PodsPlan {
  const isServed = servedIn(view);
  const isWaiting = (pod: Pod): boolean => isUpdated(view, pod) && !isAvailable(view, pod);
  const due = places.filter(
    ({ fit, staying }) => fit.mayStart && staying.length > 0 && staying.every((pod) => !isUpdated(view, pod)),
  );
  const underway = places.filter(
    ({ staying }) => staying.some(isWaiting) && staying.some((pod) => !isUpdated(view, pod)),
  ).length;
  const serving = due.filter((place) => isServed(place) && !isBusy(place));
  const broken = due.filter((place) => !isServed(place) && !isBusy(place));
  const next = [...broken, ...serving.slice(0, Math.max(0, surge - underway))];
  return { create: next.map((place) => place.name), delete: [] };
}

type DaemonSetStatus = NonNullable<DaemonSet["status"]>;

export interface StatusPlan {
  readonly status: DaemonSetStatus;
  /** When a pod will count as available without anything else happening. Unit: milliseconds from now. */
  readonly checkInMs: number | undefined;
}

export function planStatus(view: View): StatusPlan {
  const { set, nowMs } = view;
  const places = placesOf(view);
  const wanted = places.filter((place) => place.fit.mayStart);
  const first = wanted.flatMap((place) => place.pods.slice(0, 1));
  const waits = first.map((pod) => availableInMs(pod, set.spec?.minReadySeconds ?? 0, nowMs));
  const pending = waits.filter((ms) => ms > 0 && Number.isFinite(ms));
  const numberAvailable = waits.filter((ms) => ms === 0).length;
  const { generation } = set.metadata;
  const { conditions, collisionCount } = set.status ?? {};
  return {
    status: {
      currentNumberScheduled: first.length,
      desiredNumberScheduled: wanted.length,
      numberMisscheduled: places.filter((place) => !place.fit.mayStart && place.pods.length > 0).length,
      numberReady: first.filter(isReady).length,
      numberAvailable,
      numberUnavailable: wanted.length - numberAvailable,
      updatedNumberScheduled: first.filter((pod) => isUpdated(view, pod)).length,
      ...defined({ observedGeneration: generation, conditions, collisionCount }),
    },
    checkInMs: pending.length === 0 ? undefined : Math.min(...pending),
  };
}
