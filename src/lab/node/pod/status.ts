import { createHash } from "node:crypto";
import type { Container, ContainerState, ContainerStatus, Pod, PodCondition } from "#api/core/v1/types.ts";
import { timestamp } from "#kube/conditions.ts";
import type { ContainerView } from "../container/runtime.ts";
import type { PodPlace } from "./downward.ts";
import { restartPolicyOf, restarts } from "./plan.ts";

/** What the kubelet reports of a pod. Pure. */

export type PodStatus = NonNullable<Pod["status"]>;

/** Why a container is not running, as `state.waiting` says it. */
export interface Waiting {
  readonly reason: string;
  readonly message?: string;
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
  readonly initPending: number;
  /** The pod is ending: no container starts again. */
  readonly isEnding: boolean;
  readonly nowMs: number;
}

export function podStatus(input: StatusInput): PodStatus {
  const { pod, place, nowMs } = input;
  const { initContainers = [], containers = [] } = pod.spec ?? {};
  const initContainerStatuses = initContainers.map((it) => containerStatus(it, input, { isInit: true }));
  const containerStatuses = containers.map((it) => containerStatus(it, input, { isInit: false }));
  const phase = phaseOf(input, initContainerStatuses, containerStatuses);
  return {
    phase,
    conditions: conditionsOf(input, phase, containerStatuses),
    hostIP: place.hostIPs[0] ?? "",
    hostIPs: place.hostIPs.map((ip) => ({ ip })),
    ...(place.podIPs[0] === undefined
      ? {}
      : { podIP: place.podIPs[0], podIPs: place.podIPs.map((ip) => ({ ip })) }),
    startTime: pod.status?.startTime ?? timestamp(nowMs),
    ...(initContainers.length > 0 ? { initContainerStatuses } : {}),
    containerStatuses,
    qosClass: pod.status?.qosClass ?? qosClass(pod),
    ...(pod.metadata.generation === undefined ? {} : { observedGeneration: pod.metadata.generation }),
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
  const waiting = input.waiting.get(name);
  if (run === undefined) {
    const reason = input.initPending > 0 ? "PodInitializing" : "ContainerCreating";
    const state = { waiting: waiting ?? { reason } };
    return { name, state, lastState: {}, ready: false, started: false, restartCount: 0, image, imageID: "" };
  }
  const isWaiting = run.exit !== undefined && waiting !== undefined;
  const last = isWaiting ? run : input.run(name, 1);
  return {
    name,
    state: isWaiting ? { waiting } : stateOf(run),
    lastState: last === undefined ? {} : stateOf(last),
    ...(isInit ? initReadiness(run) : runReadiness(run, input)),
    restartCount: run.attempt,
    image: run.image,
    imageID: run.image,
    containerID: containerId(run),
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
      ...(message === undefined ? {} : { message }),
      startedAt,
      finishedAt: timestamp(atMs),
      containerID: containerId(run),
    },
  };
}

/** Source: getPhase in pkg/kubelet/kubelet_pods.go. */
function phaseOf(
  input: StatusInput,
  init: readonly ContainerStatus[],
  containers: readonly ContainerStatus[],
): NonNullable<PodStatus["phase"]> {
  const policy = input.isEnding ? "Never" : restartPolicyOf(input.pod);
  const initFailed = init.some((it) => (it.state?.terminated?.exitCode ?? 0) !== 0);
  if (input.initPending > 0) return initFailed && policy === "Never" ? "Failed" : "Pending";
  const ended = containers.map(
    (it) => it.state?.terminated ?? (it.state?.waiting && it.lastState?.terminated),
  );
  const isRunning = containers.some((it) => it.state?.running !== undefined);
  if (containers.some((it, at) => it.state?.waiting !== undefined && ended[at] === undefined))
    return "Pending";
  if (isRunning) return "Running";
  const codes = ended.map((it) => it?.exitCode ?? 0);
  if (codes.some((code) => restarts(policy, code))) return "Running";
  return codes.every((code) => code === 0) ? "Succeeded" : "Failed";
}

function conditionsOf(
  input: StatusInput,
  phase: PodStatus["phase"],
  containers: readonly ContainerStatus[],
): PodCondition[] {
  const notReady = containers.filter((it) => !it.ready).map((it) => it.name);
  const isOver = phase === "Succeeded" || phase === "Failed";
  const readiness: Wanted = isOver
    ? no(phase === "Failed" ? "PodFailed" : "PodCompleted")
    : notReady.length > 0
      ? no("ContainersNotReady", `containers with unready status: [${notReady.join(" ")}]`)
      : YES;
  const wanted: Readonly<Record<string, Wanted>> = {
    PodReadyToStartContainers: input.hasNetwork ? YES : no(),
    Initialized: isInitialized(input, phase),
    Ready: readiness,
    ContainersReady: readiness,
    PodScheduled: YES,
  };
  const before = input.pod.status?.conditions ?? [];
  const own = Object.entries(wanted).map(([type, it]) => condition(type, it, input));
  return [...own, ...before.filter((it) => !Object.hasOwn(wanted, it.type))];
}

interface Wanted {
  readonly status: "True" | "False";
  readonly reason?: string;
  readonly message?: string;
}

const YES: Wanted = { status: "True" };

function no(reason?: string, message?: string): Wanted {
  return {
    status: "False",
    ...(reason === undefined ? {} : { reason }),
    ...(message === undefined ? {} : { message }),
  };
}

function isInitialized({ pod, initPending }: StatusInput, phase: PodStatus["phase"]): Wanted {
  if (phase === "Succeeded") return { status: "True", reason: "PodCompleted" };
  if (initPending === 0) return YES;
  const names = (pod.spec?.initContainers ?? []).slice(-initPending).map((it) => it.name);
  return no("ContainersNotInitialized", `containers with incomplete status: [${names.join(" ")}]`);
}

/** Keeps the time of the last transition while the status stays the same. */
function condition(type: string, wanted: Wanted, { pod, nowMs }: StatusInput): PodCondition {
  const before = pod.status?.conditions?.find((it) => it.type === type);
  const since = before?.status === wanted.status ? before.lastTransitionTime : undefined;
  return { type, ...wanted, lastTransitionTime: since ?? timestamp(nowMs) };
}

/** Source: pkg/apis/core/v1/helper/qos. */
function qosClass(pod: Pod): string {
  const containers = [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])];
  const resources = containers.map((it) => it.resources ?? {});
  const isGuaranteed = resources.every(({ limits, requests }) =>
    ["cpu", "memory"].every(
      (key) => limits?.[key] !== undefined && (requests?.[key] ?? limits[key]) === limits[key],
    ),
  );
  if (isGuaranteed) return "Guaranteed";
  const hasAny = resources.some((it) => Object.keys({ ...it.limits, ...it.requests }).length > 0);
  return hasAny ? "Burstable" : "BestEffort";
}
