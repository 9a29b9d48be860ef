import { ENDPOINTS } from "#api/fairlead.dev/names.ts";
import type { ContainerStatus, Pod, PodCondition, Probe } from "@fairlead/kube/api/core/v1/types.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { formatSelector, type Labels, matcherOfPairs } from "@fairlead/kube/objects/selector.ts";

/** Finds why a Service has no ready endpoints, by its pods and its workloads. Pure. */

export interface Workload {
  readonly kind: string;
  readonly name: string;
  readonly replicas: number;
  /** The labels of its pods. */
  readonly labels: Labels;
}

/** The longest part of a user's text, such as a selector or a path. Unit: characters. */
const MAX_SHOWN = 100;

/** @param workloads - Those of the namespace of the Service. */
export function whyNoPods(selector: Labels, workloads: readonly Workload[]): string {
  const isSelected = matcherOfPairs(selector);
  const own = workloads.filter((it) => isSelected(it.labels));
  const running = own.find((it) => it.replicas > 0);
  if (running !== undefined)
    return `${running.kind} ${running.name} has no pods yet; look at its conditions and Events`;
  const [idle] = own;
  if (idle !== undefined) return `${idle.kind} ${idle.name} is scaled to 0 replicas`;
  const shown = formatSelector({ matchLabels: { ...selector } }).slice(0, MAX_SHOWN);
  return `no pod matches the selector ${shown} of the Service, nor the template of a Deployment or StatefulSet; compare it with the labels of the pods`;
}

/** Names the first thing that a pod lacks. Messages of containers are left out: they may be anything. */
export function whyNotReady(pod: Pod): string {
  const { metadata, status } = pod;
  if (metadata.deletionTimestamp !== undefined) return `pod ${metadata.name} ends`;
  const scheduled = conditionOf(pod, "PodScheduled");
  if (scheduled?.status === "False")
    return `pod ${metadata.name} is not scheduled: ${(scheduled.message ?? "").slice(0, MAX_SHOWN)}`;
  const lacking = whyContainers(pod) ?? whyGates(pod);
  return lacking === undefined
    ? `pod ${metadata.name} is ${status?.phase ?? "Pending"}`
    : `pod ${metadata.name} is not ready: ${lacking}`;
}

function conditionOf({ status }: Pod, type: string): PodCondition | undefined {
  return status?.conditions?.find((it) => it.type === type);
}

function whyContainers(pod: Pod): string | undefined {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  const first =
    initContainerStatuses.find((it) => !it.ready && it.started !== true) ??
    containerStatuses.find((it) => !it.ready);
  if (first === undefined) return undefined;
  return first.state?.running === undefined ? whyNotRunning(first) : whyFailing(pod, first);
}

function whyNotRunning({ name, state, lastState }: ContainerStatus): string {
  if (state?.terminated !== undefined)
    return `container ${name} ended with code ${state.terminated.exitCode}`;
  const code = lastState?.terminated?.exitCode;
  const ended = code === undefined ? "" : `, after it ended with code ${code}`;
  return `container ${name} waits: ${state?.waiting?.reason ?? "it was not started yet"}${ended}`;
}

function whyFailing({ spec }: Pod, { name, started }: ContainerStatus): string {
  const container = spec?.containers.find((it) => it.name === name);
  const startup = started === false ? container?.startupProbe : undefined;
  const probe = startup ?? container?.readinessProbe;
  const kind = startup === undefined ? "readiness" : "startup";
  return probe === undefined
    ? `container ${name} starts`
    : `container ${name} does not pass its ${kind} probe, ${showProbe(probe)}`;
}

function whyGates(pod: Pod): string | undefined {
  const gates = pod.spec?.readinessGates ?? [];
  const closed = gates.find((it) => conditionOf(pod, it.conditionType)?.status !== "True");
  return closed && `its readiness gate ${closed.conditionType.slice(0, MAX_SHOWN)} is not True`;
}

function showProbe({ httpGet, tcpSocket, grpc }: Probe): string {
  if (httpGet !== undefined)
    return `a GET of ${(httpGet.path ?? "/").slice(0, MAX_SHOWN)} at port ${httpGet.port}`;
  if (tcpSocket !== undefined) return `a connection to port ${tcpSocket.port}`;
  return grpc === undefined ? "a command" : `gRPC at port ${grpc.port}`;
}

/** A pod that starts is something else soon. Unit: milliseconds. */
const FIRST_LOOK_MS = 5000;
const LAST_LOOK_MS = 86_400_000;

/**
 * The time until the cause is looked at again: until it is twice as old. Pods change without a change of slices, and a Service that is
 * without pods for long costs next to nothing. Unit: milliseconds.
 */
export function lookAgainInMs(conditions: readonly Condition[] = [], nowMs: number): number {
  const found = conditions.find((it) => it.type === ENDPOINTS && it.status === "False");
  const ageMs = nowMs - Date.parse(found?.lastTransitionTime ?? "");
  return Number.isNaN(ageMs) ? FIRST_LOOK_MS : Math.min(Math.max(ageMs, FIRST_LOOK_MS), LAST_LOOK_MS);
}
