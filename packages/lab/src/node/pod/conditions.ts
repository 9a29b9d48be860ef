import { defined } from "@fairlead/base/defined.ts";
import type { ContainerStatus, Pod, PodCondition } from "@fairlead/kube/api/core/v1/types.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import type { Phase } from "./phase.ts";
import { isSidecar } from "./restart.ts";

/** The conditions of a pod. Pure. Source: pkg/kubelet/status/generate.go. */

export interface ConditionsInput {
  readonly pod: Pod;
  readonly phase: Phase;
  readonly init: readonly ContainerStatus[];
  readonly main: readonly ContainerStatus[];
  readonly hasNetwork: boolean;
  readonly isRestartingAll: boolean;
  readonly nowMs: number;
}

interface Wanted {
  readonly status: "True" | "False";
  readonly reason?: string;
  readonly message?: string;
}

const YES: Wanted = { status: "True" };
const NO: Wanted = { status: "False" };

export function conditionsOf(input: ConditionsInput): PodCondition[] {
  const containersReady = areContainersReady(input);
  const wanted: Readonly<Record<string, Wanted>> = {
    PodReadyToStartContainers: input.hasNetwork ? YES : NO,
    Initialized: isInitialized(input),
    Ready: isReady(input, containersReady),
    ContainersReady: containersReady,
    PodScheduled: YES,
    ...(canRestartAll(input.pod) ? { AllContainersRestarting: isRestartingAll(input) } : {}),
  };
  const before = input.pod.status?.conditions ?? [];
  const own = Object.entries(wanted).map(([type, it]) => condition(type, it, input));
  return [...own, ...before.filter((it) => !Object.hasOwn(wanted, it.type))];
}

/** Why a pod that has come to its end is not ready. */
function overReason(phase: Phase): string | undefined {
  return phase === "Failed" ? "PodFailed" : phase === "Succeeded" ? "PodCompleted" : undefined;
}

function areContainersReady({ pod, phase, init, main }: ConditionsInput): Wanted {
  const reason = overReason(phase);
  if (reason !== undefined) return { status: "False", reason };
  const sidecars = (pod.spec?.initContainers ?? []).flatMap((it, at) => (isSidecar(it) ? [init[at]] : []));
  const unready = [...sidecars, ...main].flatMap((it) => (it === undefined || it.ready ? [] : [it.name]));
  if (unready.length === 0) return YES;
  const message = `containers with unready status: [${unready.join(" ")}]`;
  return { status: "False", reason: "ContainersNotReady", message };
}

function isReady({ pod }: ConditionsInput, containersReady: Wanted): Wanted {
  if (containersReady.status !== "True") return containersReady;
  const unready = (pod.spec?.readinessGates ?? []).flatMap(({ conditionType: type }) => {
    const found = pod.status?.conditions?.find((it) => it.type === type);
    if (found === undefined)
      return [`corresponding condition of pod readiness gate "${type}" does not exist.`];
    if (found.status === "True") return [];
    return [`the status of pod readiness gate "${type}" is not "True", but ${found.status}`];
  });
  if (unready.length === 0) return YES;
  return { status: "False", reason: "ReadinessGatesNotReady", message: unready.join(", ") };
}

function isInitialized({ pod, phase, init, main }: ConditionsInput): Wanted {
  if (phase === "Succeeded") return { status: "True", reason: "PodCompleted" };
  const hasBegun = main.some(
    (it) => it.state?.running !== undefined || it.state?.terminated !== undefined || it.lastState?.terminated,
  );
  if (hasBegun) return YES;
  const incomplete = (pod.spec?.initContainers ?? []).flatMap((container, at) => {
    const isDone = isSidecar(container) ? init[at]?.started === true : init[at]?.ready === true;
    return isDone ? [] : [container.name];
  });
  if (incomplete.length === 0) return YES;
  const message = `containers with incomplete status: [${incomplete.join(" ")}]`;
  return { status: "False", reason: "ContainersNotInitialized", message };
}

function canRestartAll(pod: Pod): boolean {
  const containers = [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])];
  return containers.some((it) =>
    it.restartPolicyRules?.some(({ action }) => action === "RestartAllContainers"),
  );
}

function isRestartingAll({ phase, isRestartingAll: isNow }: ConditionsInput): Wanted {
  const reason = overReason(phase);
  if (reason !== undefined) return { status: "False", reason };
  if (!isNow) return NO;
  const message = "container exited with restart policy rule";
  return { status: "True", reason: "RestartAllContainersStarted", message };
}

/** Keeps the time of the last transition while the status stays the same. */
function condition(type: string, wanted: Wanted, { pod, nowMs }: ConditionsInput): PodCondition {
  const before = pod.status?.conditions?.find((it) => it.type === type);
  const since = before?.status === wanted.status ? before.lastTransitionTime : undefined;
  const { generation } = pod.metadata;
  return {
    type,
    ...defined({ observedGeneration: generation }),
    ...wanted,
    lastTransitionTime: since ?? timestamp(nowMs),
  };
}
