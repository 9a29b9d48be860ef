import type { Container, ContainerStatus, Pod } from "#api/core/v1/types.ts";
import type { ApiObject, TableColumn } from "../../registry/types.ts";
import { ageOf } from "../duration.ts";
import { itemsAt, textAt } from "../fields.ts";
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

function containerStatuses(pod: Pod): readonly ContainerStatus[] {
  return pod.status?.containerStatuses ?? [];
}

function initContainerStatuses(pod: Pod): readonly ContainerStatus[] {
  return pod.status?.initContainerStatuses ?? [];
}

/** Init containers that keep running beside the others (KEP-753). */
function sidecarsOf(pod: Pod): readonly Container[] {
  return (pod.spec?.initContainers ?? []).filter(
    (it) => "restartPolicy" in it && it.restartPolicy === "Always",
  );
}

function readyText(pod: ApiObject & Pod): string {
  const sidecars = sidecarsOf(pod).map((it) => it.name);
  const statuses = [
    ...containerStatuses(pod),
    ...initContainerStatuses(pod).filter((it) => sidecars.includes(it.name)),
  ];
  const containers = (pod.spec?.containers ?? []).length + sidecars.length;
  return `${statuses.filter((it) => it.ready).length}/${containers}`;
}

function restartsText(pod: ApiObject & Pod, nowMs: number): string {
  const statuses = initText(pod) === undefined ? containerStatuses(pod) : initContainerStatuses(pod);
  const restarts = statuses.reduce((sum, it) => sum + it.restartCount, 0);
  const last = statuses
    .map((it) => it.lastState?.terminated?.finishedAt ?? "")
    .reduce((latest, it) => (it > latest ? it : latest), "");
  return restarts > 0 && last !== "" ? `${restarts} (${ageOf(last, nowMs)} ago)` : `${restarts}`;
}

/** What a person wants to know of a pod in one word: the phase, or why it is not there yet. */
export function podStatusText(pod: ApiObject & Pod): string {
  const text = initText(pod) ?? containersText(containerStatuses(pod), phaseText(pod));
  if (pod.metadata.deletionTimestamp === undefined) return text;
  const { phase, reason } = pod.status ?? {};
  if (reason === "NodeLost") return "Unknown";
  return phase === "Succeeded" || phase === "Failed" ? text : "Terminating";
}

/** The phase, unless the whole pod has a reason, such as `Evicted`. */
function phaseText({ status }: Pod): string {
  const scheduled = (status?.conditions ?? []).find((it) => it.type === "PodScheduled");
  if (scheduled?.reason === "SchedulingGated") return scheduled.reason;
  if (status?.reason !== undefined && status.reason !== "") return status.reason;
  return status?.phase ?? "Unknown";
}

/** The state of the first init container that is not done, such as `Init:0/2`; undefined when all are. */
function initText(pod: Pod): string | undefined {
  const sidecars = new Set(sidecarsOf(pod).map((it) => it.name));
  const isDone = (it: ContainerStatus): boolean =>
    it.state?.terminated?.exitCode === 0 || (sidecars.has(it.name) && it.started === true);
  const statuses = initContainerStatuses(pod);
  const index = statuses.findIndex((it) => !isDone(it));
  const current = statuses[index];
  if (current === undefined) return undefined;
  const text = stateText(current);
  const isUsual = text === undefined || text === "PodInitializing";
  return `Init:${isUsual ? `${index}/${pod.spec?.initContainers?.length ?? 0}` : text}`;
}

function containersText(statuses: readonly ContainerStatus[], phase: string): string {
  const text = statuses.map(stateText).find((it) => it !== undefined) ?? phase;
  // A finished container beside a running one is no reason to call the pod finished.
  const hasRunning = statuses.some((it) => it.ready && it.state?.running !== undefined);
  return text === "Completed" && hasRunning ? "Running" : text;
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
