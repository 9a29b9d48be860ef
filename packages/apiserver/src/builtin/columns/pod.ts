import type { Container, ContainerStatus, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import type { TableColumn } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { ageOf } from "../duration.ts";
import { itemsAt, textAt } from "@fairlead/base/fields.ts";
import { ageColumn, column, nameColumn, NONE, specOf, statusOf, wide } from "./common.ts";

export const podColumns: readonly TableColumn[] = [
  nameColumn,
  column("Ready", readyText),
  column("Status", podStatusText),
  column("Restarts", restartsText),
  ageColumn,
  wide("IP", (object) => {
    const status = statusOf(object);
    const [first] = itemsAt(status, "podIPs").map((it) => textAt(it, "ip"));
    return first ?? (textAt(status, "podIP") || NONE);
  }),
  wide("Node", (object) => textAt(specOf(object), "nodeName") || NONE),
  wide("Nominated Node", (object) => textAt(statusOf(object), "nominatedNodeName") || NONE),
  wide("Readiness Gates", readinessGatesText),
];

const ENDED: Readonly<Record<string, readonly object[]>> = {
  Succeeded: ended("Succeeded", "The pod has completed successfully."),
  Failed: ended("Failed", "The pod failed."),
};

function ended(reason: string, message: string): readonly object[] {
  return [{ type: "Completed", status: "True", reason, message }];
}

export function podRowConditions(object: ApiObject): readonly object[] | undefined {
  return ENDED[textAt(statusOf(object), "phase")];
}

function containerStatuses(pod: Pod): readonly ContainerStatus[] {
  return pod.status?.containerStatuses ?? [];
}

function initContainerStatuses(pod: Pod): readonly ContainerStatus[] {
  return pod.status?.initContainerStatuses ?? [];
}

/** Init containers that keep running alongside the others (KEP-753). */
function sidecarsOf(pod: Pod): readonly Container[] {
  return (pod.spec?.initContainers ?? []).filter(
    (it) => "restartPolicy" in it && it.restartPolicy === "Always",
  );
}

/** The sidecars among the init containers' statuses. */
function sidecarStatuses(pod: Pod): readonly ContainerStatus[] {
  const names = new Set(sidecarsOf(pod).map((it) => it.name));
  return initContainerStatuses(pod).filter((it) => names.has(it.name));
}

function hasCondition({ status }: Pod, type: string): boolean {
  return (status?.conditions ?? []).find((it) => it.type === type)?.status === "True";
}

/** Whether it is about the containers now, and no longer about the init containers. */
function isInitialized(pod: Pod): boolean {
  return blockedAt(pod) === -1 || hasCondition(pod, "Initialized");
}

/** Index of the first init container that is neither finished nor, as a sidecar, started; -1 if all are. */
function blockedAt(pod: Pod): number {
  const sidecars = new Set(sidecarStatuses(pod));
  const isDone = (it: ContainerStatus): boolean =>
    it.state?.terminated?.exitCode === 0 || (sidecars.has(it) && it.started === true);
  return initContainerStatuses(pod).findIndex((it) => !isDone(it));
}

function readyText(pod: ApiObject & Pod): string {
  const at = blockedAt(pod);
  const passed = new Set(at === -1 ? initContainerStatuses(pod) : initContainerStatuses(pod).slice(0, at));
  const sidecars = sidecarStatuses(pod).filter(
    (it) => passed.has(it) && it.ready && it.state?.terminated === undefined,
  );
  const running = isInitialized(pod) ? containerStatuses(pod).filter(isReadyAndRunning) : [];
  const containers = (pod.spec?.containers ?? []).length + sidecarsOf(pod).length;
  return `${sidecars.length + running.length}/${containers}`;
}

function isReadyAndRunning({ ready, state }: ContainerStatus): boolean {
  return ready && state?.running !== undefined;
}

function restartsText(pod: ApiObject & Pod, nowMs: number): string {
  const at = blockedAt(pod);
  const seen = at === -1 ? initContainerStatuses(pod) : initContainerStatuses(pod).slice(0, at + 1);
  const counted = isInitialized(pod)
    ? [...sidecarStatuses(pod).filter((it) => seen.includes(it)), ...containerStatuses(pod)]
    : seen;
  const restarts = counted.reduce((sum, it) => sum + it.restartCount, 0);
  const last = counted
    .map((it) => it.lastState?.terminated?.finishedAt ?? "")
    .reduce((latest, it) => (it > latest ? it : latest), "");
  return restarts > 0 && last !== "" ? `${restarts} (${ageOf(last, nowMs)} ago)` : `${restarts}`;
}

/** The STATUS column of a pod: the phase, or the reason why it is not running. */
export function podStatusText(pod: ApiObject & Pod): string {
  const early = initText(pod) ?? phaseText(pod);
  const text = isInitialized(pod) ? containersText(pod, early) : early;
  if (pod.metadata.deletionTimestamp === undefined) return text;
  const { phase, reason } = pod.status ?? {};
  if (reason === "NodeLost") return "Unknown";
  return phase === "Succeeded" || phase === "Failed" ? text : "Terminating";
}

/** The phase, unless the whole pod has a reason, such as `Evicted`. */
function phaseText({ status }: Pod): string {
  const conditions = status?.conditions ?? [];
  const isGated = conditions.some((it) => it.type === "PodScheduled" && it.reason === "SchedulingGated");
  if (isGated) return "SchedulingGated";
  if (status?.reason !== undefined && status.reason !== "") return status.reason;
  return status?.phase ?? "";
}

/** The state of the first init container that is not done, such as `Init:0/2`; undefined when all are. */
function initText(pod: Pod): string | undefined {
  const index = blockedAt(pod);
  const current = initContainerStatuses(pod)[index];
  if (current === undefined) return undefined;
  const text = stateText(current);
  const isUsual = text === undefined || text === "PodInitializing";
  return `Init:${isUsual ? `${index}/${pod.spec?.initContainers?.length ?? 0}` : text}`;
}

function containersText(pod: Pod, early: string): string {
  const statuses = containerStatuses(pod);
  const text = statuses.map(stateText).find((it) => it !== undefined) ?? early;
  if (text !== "Completed") return text;
  // The pod is not finished while another container is running.
  const isRunning = statuses.some(isReadyAndRunning);
  if (isRunning && hasCondition(pod, "Ready")) return "Running";
  const failed = statuses.find((it) => (it.state?.terminated?.exitCode ?? 0) !== 0);
  if (failed !== undefined) return stateText(failed) ?? text;
  return isRunning ? "NotReady" : text;
}

/** Why a container does not run; undefined when it does. */
function stateText({ state }: ContainerStatus): string | undefined {
  const waiting = state?.waiting?.reason ?? "";
  if (waiting !== "") return waiting;
  if (state?.terminated === undefined) return undefined;
  const { reason = "", signal = 0, exitCode } = state.terminated;
  if (reason !== "") return reason;
  return signal === 0 ? `ExitCode:${exitCode}` : `Signal:${signal}`;
}

function readinessGatesText(object: ApiObject): string {
  const gates = itemsAt(specOf(object), "readinessGates").map((it) => textAt(it, "conditionType"));
  if (gates.length === 0) return NONE;
  const conditions = itemsAt(statusOf(object), "conditions");
  const met = gates.filter((gate) =>
    conditions.some((it) => textAt(it, "type") === gate && textAt(it, "status") === "True"),
  );
  return `${met.length}/${gates.length}`;
}
