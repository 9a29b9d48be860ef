import type { TableColumn } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { ageOf, humanDuration } from "../duration.ts";
import { type Fields, fieldsAt, itemsAt, numberAt, stringMapAt, textAt } from "@fairlead/base/fields.ts";
import {
  ageColumn,
  column,
  countOf,
  labelsText,
  nameColumn,
  NONE,
  selectorColumn,
  selectorText,
  specOf,
  statusOf,
  templateColumns,
  templateSpecOf,
  UNKNOWN,
  wide,
} from "./common.ts";

const ofTemplate = [...templateColumns(templateSpecOf), selectorColumn];

function replicasOf(object: ApiObject): number {
  return numberAt(specOf(object), "replicas") ?? 0;
}

export const deploymentColumns: readonly TableColumn[] = [
  nameColumn,
  column("Ready", (object) => `${countOf(object, "readyReplicas")}/${replicasOf(object)}`),
  // Numbers under a column of text: upstream's table says so.
  column("Up-to-date", (object) => countOf(object, "updatedReplicas")),
  column("Available", (object) => countOf(object, "availableReplicas")),
  ageColumn,
  ...ofTemplate,
];

export const replicaSetColumns: readonly TableColumn[] = [
  nameColumn,
  column("Desired", replicasOf, "integer"),
  column("Current", (object) => countOf(object, "replicas"), "integer"),
  column("Ready", (object) => countOf(object, "readyReplicas"), "integer"),
  ageColumn,
  ...ofTemplate,
];

export const replicationControllerColumns: readonly TableColumn[] = [
  ...replicaSetColumns.slice(0, -1),
  wide("Selector", (object) => labelsText(stringMapAt(specOf(object), "selector"))),
];

export const statefulSetColumns: readonly TableColumn[] = [
  nameColumn,
  column("Ready", (object) => `${countOf(object, "readyReplicas")}/${replicasOf(object)}`),
  ageColumn,
  ...templateColumns(templateSpecOf),
];

export const daemonSetColumns: readonly TableColumn[] = [
  nameColumn,
  column("Desired", (object) => countOf(object, "desiredNumberScheduled"), "integer"),
  column("Current", (object) => countOf(object, "currentNumberScheduled"), "integer"),
  column("Ready", (object) => countOf(object, "numberReady"), "integer"),
  column("Up-to-date", (object) => countOf(object, "updatedNumberScheduled"), "integer"),
  column("Available", (object) => countOf(object, "numberAvailable"), "integer"),
  column("Node Selector", (object) => labelsText(stringMapAt(templateSpecOf(object), "nodeSelector"))),
  ageColumn,
  ...ofTemplate,
];

export const jobColumns: readonly TableColumn[] = [
  nameColumn,
  column("Status", jobStatusText),
  column("Completions", completionsText),
  column("Duration", (object, nowMs) => {
    const status = statusOf(object);
    const startMs = Date.parse(textAt(status, "startTime"));
    if (Number.isNaN(startMs)) return "";
    const endMs = Date.parse(textAt(status, "completionTime"));
    return humanDuration((Number.isNaN(endMs) ? nowMs : endMs) - startMs);
  }),
  ageColumn,
  ...ofTemplate,
];

function jobStatusText(object: ApiObject): string {
  const conditions = itemsAt(statusOf(object), "conditions");
  const has = (type: string): boolean =>
    conditions.some((it) => textAt(it, "type") === type && textAt(it, "status") === "True");
  if (has("Complete")) return "Complete";
  if (has("Failed")) return "Failed";
  if (object.metadata.deletionTimestamp !== undefined) return "Terminating";
  if (has("Suspended")) return "Suspended";
  if (has("FailureTarget")) return "FailureTarget";
  return has("SuccessCriteriaMet") ? "SuccessCriteriaMet" : "Running";
}

function completionsText(object: ApiObject): string {
  const succeeded = countOf(object, "succeeded");
  const completions = numberAt(specOf(object), "completions");
  if (completions !== undefined) return `${succeeded}/${completions}`;
  const parallelism = numberAt(specOf(object), "parallelism") ?? 0;
  return parallelism > 1 ? `${succeeded}/1 of ${parallelism}` : `${succeeded}/1`;
}

export const cronJobColumns: readonly TableColumn[] = [
  nameColumn,
  column("Schedule", (object) => textAt(specOf(object), "schedule")),
  column("Timezone", (object) => textAt(specOf(object), "timeZone") || NONE),
  column("Suspend", (object) => (specOf(object)?.["suspend"] === true ? "True" : "False"), "boolean"),
  column("Active", (object) => itemsAt(statusOf(object), "active").length, "integer"),
  column("Last Schedule", (object, nowMs) => {
    const last = textAt(statusOf(object), "lastScheduleTime");
    return last === "" ? NONE : ageOf(last, nowMs);
  }),
  ageColumn,
  ...templateColumns((object) =>
    fieldsAt(fieldsAt(fieldsAt(fieldsAt(specOf(object), "jobTemplate"), "spec"), "template"), "spec"),
  ),
  wide("Selector", (object) =>
    selectorText(fieldsAt(fieldsAt(fieldsAt(specOf(object), "jobTemplate"), "spec"), "selector")),
  ),
];

export const podTemplateColumns: readonly TableColumn[] = [
  nameColumn,
  ...templateColumns((object) => fieldsAt(fieldsAt(object, "template"), "spec")).map((it) => ({
    ...it,
    priority: 0,
  })),
  column("Pod Labels", (object) =>
    labelsText(stringMapAt(fieldsAt(fieldsAt(object, "template"), "metadata"), "labels")),
  ),
];

export const controllerRevisionColumns: readonly TableColumn[] = [
  nameColumn,
  column("Controller", (object) => {
    const owner = (object.metadata.ownerReferences ?? []).find((it) => it.controller === true);
    if (owner === undefined) return NONE;
    const group = owner.apiVersion.includes("/") ? `.${owner.apiVersion.split("/", 1)[0]}` : "";
    return `${owner.kind.toLowerCase()}${group}/${owner.name}`;
  }),
  column("Revision", (object) => numberAt(object, "revision") ?? 0),
  ageColumn,
];

export const autoscalerColumns: readonly TableColumn[] = [
  nameColumn,
  column("Reference", (object) => {
    const target = fieldsAt(specOf(object), "scaleTargetRef");
    return `${textAt(target, "kind")}/${textAt(target, "name")}`;
  }),
  column("Targets", (object) => {
    const current = itemsAt(statusOf(object), "currentMetrics");
    const texts = itemsAt(specOf(object), "metrics").map((it, index) => metricText(it, current[index]));
    const shown = texts.slice(0, 2).join(", ") || NONE;
    return texts.length > 2 ? `${shown} + ${texts.length - 2} more...` : shown;
  }),
  column("MinPods", (object) => `${numberAt(specOf(object), "minReplicas") ?? "<unset>"}`),
  column("MaxPods", (object) => numberAt(specOf(object), "maxReplicas") ?? 0),
  column("Replicas", (object) => countOf(object, "currentReplicas")),
  ageColumn,
];

/** `cpu: 12%/80%`, `7/2k`, `<unknown>/5 (avg)`: unknown if the metric was not measured. */
function metricText(metric: Fields, current: Fields | undefined): string {
  const type = textAt(metric, "type");
  const field = type.charAt(0).toLowerCase() + type.slice(1);
  const source = fieldsAt(metric, field);
  const target = fieldsAt(source, "target");
  const measured = fieldsAt(fieldsAt(current, field), "current");
  const key = VALUES.find((it) => target?.[it] !== undefined) ?? "averageUtilization";
  const pair = `${valueText(measured, key) || UNKNOWN}/${valueText(target, key) || "<auto>"}`;
  if (type === "Resource" || type === "ContainerResource") return `${textAt(source, "name")}: ${pair}`;
  return key === "averageValue" && type !== "Pods" ? `${pair} (avg)` : pair;
}

const VALUES = ["averageValue", "value", "averageUtilization"] as const;

function valueText(of: Fields | undefined, key: (typeof VALUES)[number]): string {
  const utilization = numberAt(of, "averageUtilization");
  if (key !== "averageUtilization") return textAt(of, key);
  return utilization === undefined ? "" : `${utilization}%`;
}

export const disruptionBudgetColumns: readonly TableColumn[] = [
  nameColumn,
  column("Min Available", (object) => intOrStringText(specOf(object)?.["minAvailable"])),
  column("Max Unavailable", (object) => intOrStringText(specOf(object)?.["maxUnavailable"])),
  column("Allowed Disruptions", (object) => countOf(object, "disruptionsAllowed"), "integer"),
  ageColumn,
];

function intOrStringText(value: unknown): string {
  return typeof value === "number" || typeof value === "string" ? `${value}` : "N/A";
}
