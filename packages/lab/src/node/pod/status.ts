import { defined } from "@fairlead/base/defined.ts";
import { createHash } from "node:crypto";
import type { Container, ContainerState, ContainerStatus, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import type { ContainerView } from "../container/runtime.ts";
import { conditionsOf } from "./conditions.ts";
import type { PodPlace } from "./downward.ts";
import { type Phase, phaseOf } from "./phase.ts";
import { qosClass } from "./qos.ts";
import { isSidecar } from "./restart.ts";

/** What the kubelet reports of a pod. Pure. */

export type PodStatus = NonNullable<Pod["status"]>;

/** Why a container is not running, as `state.waiting` says it. */
export interface Waiting {
  readonly reason: string;
  readonly message?: string;
}

/** Why a pod was ended by its node. */
export interface Ended {
  readonly reason: string;
  readonly message: string;
}

export interface StatusInput {
  readonly pod: Pod;
  readonly place: PodPlace;
  /** Runs of a container: the newest, or the one before. */
  readonly run: (name: string, back: number) => ContainerView | undefined;
  readonly waiting: ReadonlyMap<string, Waiting>;
  readonly isReady: (run: ContainerView) => boolean;
  readonly isStarted: (run: ContainerView) => boolean;
  readonly hasNetwork: boolean;
  /** The pod is ending: no container starts again. */
  readonly isEnding: boolean;
  /** Set if the node ended the pod itself: the pod has failed, whatever the state of its containers. */
  readonly ended: Ended | undefined;
  readonly isRestartingAll: boolean;
  readonly nowMs: number;
}

export function podStatus(input: StatusInput): PodStatus {
  const { pod, place, nowMs, ended, isEnding, isRestartingAll } = input;
  const { initContainers = [], containers = [] } = pod.spec ?? {};
  const init = initContainers.map((it) => containerStatus(it, input, { isInit: true }));
  const main = containers.map((it) => containerStatus(it, input, { isInit: false }));
  const isEnded = ended !== undefined && [...init, ...main].every((it) => it.state?.running === undefined);
  // What has come to its end stays as it is, whatever becomes of its remains.
  const settled = isEnded ? "Failed" : endOf(pod.status?.phase);
  const phase = settled ?? phaseOf({ pod, init, main, isEnding, isRestartingAll });
  const { hasNetwork } = input;
  return {
    ...(isEnded ? ended : {}),
    phase,
    conditions: conditionsOf({ pod, phase, init, main, hasNetwork, isRestartingAll, nowMs }),
    ...addressesOf(place),
    ...(initContainers.length > 0 ? { initContainerStatuses: init } : {}),
    containerStatuses: main,
    ...lastingOf(pod, nowMs),
  };
}

/** The phase, if it is a last one. */
function endOf(phase: Phase | undefined): Phase | undefined {
  return phase === "Succeeded" || phase === "Failed" ? phase : undefined;
}

/** The fields that are set once and then stay, and the observed generation. */
function lastingOf(pod: Pod, nowMs: number): Partial<PodStatus> {
  const { generation } = pod.metadata;
  return {
    startTime: pod.status?.startTime ?? timestamp(nowMs),
    qosClass: pod.status?.qosClass ?? qosClass(pod),
    ...defined({ observedGeneration: generation }),
  };
}

function addressesOf({ hostIPs, podIPs }: PodPlace): Partial<PodStatus> {
  const [podIP] = podIPs;
  return {
    hostIP: hostIPs[0] ?? "",
    hostIPs: hostIPs.map((ip) => ({ ip })),
    ...(podIP === undefined ? {} : { podIP, podIPs: podIPs.map((ip) => ({ ip })) }),
  };
}

export function containerId(run: ContainerView): string {
  const text = `${run.podUid}/${run.name}/${run.attempt}`;
  return `fairlead://${createHash("sha256").update(text).digest("hex")}`;
}

function containerStatus(
  container: Container,
  input: StatusInput,
  { isInit }: { readonly isInit: boolean },
): ContainerStatus {
  const { name, image = "" } = container;
  const run = input.run(name, 0);
  const fixed = { resources: container.resources ?? {}, ...requestsOf(container), ...mountsOf(container) };
  if (run === undefined) {
    const state = { waiting: input.waiting.get(name) ?? neverRan(input.pod) };
    const never = { ready: false, started: false, restartCount: 0, image, imageID: "" };
    return { name, state, lastState: {}, ...never, ...fixed };
  }
  const { uid, gid, groups } = run.user;
  return {
    name,
    ...statesOf(run, input),
    ...(isInit && !isSidecar(container) ? initReadiness(run) : runReadiness(run, input)),
    restartCount: run.attempt,
    image: run.image,
    imageID: run.image,
    containerID: containerId(run),
    ...fixed,
    user: { linux: { uid, gid, supplementalGroups: [...groups] } },
  };
}

function neverRan({ spec }: Pod): Waiting {
  return { reason: (spec?.initContainers ?? []).length > 0 ? "PodInitializing" : "ContainerCreating" };
}

function statesOf(run: ContainerView, input: StatusInput): Pick<ContainerStatus, "state" | "lastState"> {
  const waiting = run.exit === undefined ? undefined : input.waiting.get(run.name);
  if (waiting !== undefined) return { state: { waiting }, lastState: stateOf(run) };
  const last = input.run(run.name, 1);
  return { state: stateOf(run), lastState: last === undefined ? {} : stateOf(last) };
}

function requestsOf({ resources }: Container): Pick<ContainerStatus, "allocatedResources"> {
  return resources?.requests === undefined ? {} : { allocatedResources: resources.requests };
}

/** Source: KEP-3857. No mount here is read-only below its top. */
function mountsOf({ volumeMounts = [] }: Container): Pick<ContainerStatus, "volumeMounts"> {
  if (volumeMounts.length === 0) return {};
  return {
    volumeMounts: volumeMounts.map(({ name, mountPath, readOnly }) => ({
      name,
      mountPath,
      ...(readOnly === true ? { readOnly, recursiveReadOnly: "Disabled" } : {}),
    })),
  };
}

function initReadiness(run: ContainerView): Pick<ContainerStatus, "ready" | "started"> {
  return { ready: run.exit?.code === 0, started: run.exit === undefined };
}

function runReadiness(run: ContainerView, input: StatusInput): Pick<ContainerStatus, "ready" | "started"> {
  const isRunning = run.exit === undefined;
  return { ready: isRunning && input.isReady(run), started: isRunning && input.isStarted(run) };
}

function stateOf(run: ContainerView): ContainerState {
  const startedAt = timestamp(run.startedAtMs);
  if (run.exit === undefined) return { running: { startedAt } };
  const { code, reason, message, atMs } = run.exit;
  return {
    terminated: {
      exitCode: code,
      reason,
      ...defined({ message }),
      startedAt,
      finishedAt: timestamp(atMs),
      containerID: containerId(run),
    },
  };
}
