import { defined } from "@fairlead/base/defined.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { type ApiExport, writeExportFacts } from "#domain/exported-service.ts";
import { findServed } from "#domain/served.ts";
import { readWeight } from "#domain/weight.ts";
import {
  ACCEPTED,
  ENDPOINTS,
  MCS_CONFLICT,
  PORTS_ANNOTATION,
  UNITED_PORTS,
} from "#api/fairlead.dev/names.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { ServiceExport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { WEIGHT_ANNOTATION } from "#api/networking.fleet.azure.com/names.ts";
import {
  FLEET_NETWORKING_GROUP,
  type InternalServiceExportSpec,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { FleetServiceExport } from "#api/networking.fleet.azure.com/v1beta1/types.ts";

import { inactiveCondition } from "#domain/inactive.ts";
import { type GlobalExport, globalCondition, readGlobalExport } from "./global.ts";
import { planTraffic } from "./traffic.ts";
import { type ExportView, findProblem, hubCondition, isGone, refusalOf } from "./view.ts";

/** Computes what a cluster exports of one service, and the conditions of the two kinds of ServiceExport. Pure. */

export interface ExportPlan {
  /** What to send to the hub. Undefined: nothing is exported. */
  readonly spec: Omit<InternalServiceExportSpec, "serviceReference"> | undefined;
  /** Whether the endpoints are sent too. */
  readonly hasEndpoints: boolean;
  /** All conditions that Fairlead owns; undefined if no such ServiceExport exists. */
  readonly fleet: readonly NewCondition[] | undefined;
  readonly mcs: readonly NewCondition[] | undefined;
  /** Of the Service; undefined if it is not global. */
  readonly global: readonly NewCondition[] | undefined;
}

interface McsExportState {
  readonly exported: ApiExport | undefined;
  readonly valid: NewCondition;
}
interface FleetExportState extends McsExportState {
  readonly weight: number | undefined;
}

/** Returns true if `planExport` finds something to export, without computing the rest of the export. */
export function isExportedBy(view: ExportView): boolean {
  if (view.left !== undefined || view.service === undefined) return false;
  return (
    (view.fleet !== undefined && readFleetExport(view, view.fleet).exported !== undefined) ||
    (view.mcs !== undefined && readMcsExport(view, view.mcs).exported !== undefined) ||
    readGlobalExport(view)?.exported !== undefined
  );
}

export function planExport(view: ExportView): ExportPlan {
  const fleet = view.fleet === undefined ? undefined : readFleetExport(view, view.fleet);
  const mcs = view.mcs === undefined ? undefined : readMcsExport(view, view.mcs);
  const global = readGlobalExport(view);
  return view.left === undefined
    ? planActive(view, { fleet, mcs, global })
    : planInactive(view.left, fleet?.valid, mcs?.valid);
}

interface ApiStates {
  readonly fleet: FleetExportState | undefined;
  readonly mcs: McsExportState | undefined;
  readonly global: GlobalExport | undefined;
}

function planActive(view: ExportView, { fleet, mcs, global }: ApiStates): ExportPlan {
  const isOpen = { fleet: fleet?.exported !== undefined, mcs: mcs?.exported !== undefined };
  const { traffic, conditions } = planTraffic({
    fleet: isOpen.fleet ? view.fleet : undefined,
    mcs: isOpen.mcs ? view.mcs : undefined,
    current: view.current,
  });
  const spec = planSpec(view, fleet, [mcs?.exported, global?.exported]);
  const all = [...conditions, ...endpointsCondition(view)];
  const reported = (isReportedOf: boolean): readonly NewCondition[] => (isReportedOf ? all : []);
  return {
    spec: spec === undefined ? undefined : { ...spec, ...traffic },
    hasEndpoints: spec !== undefined,
    fleet: fleet && [fleet.valid, ...fleetConflict(view, isOpen.fleet), ...reported(isOpen.fleet)],
    mcs: mcs && [mcs.valid, ...mcsProgress(view, isOpen.mcs), ...reported(isOpen.mcs)],
    global: global && [globalCondition(view, global)],
  };
}

/** None where requests can be sent to endpoints, at each port. */
function endpointsCondition({ service, slices, cause }: ExportView): NewCondition[] {
  if (service === undefined || slices === undefined) return [];
  const { selector = {}, ports = [] } = service.spec ?? {};
  const hasSelector = Object.keys(selector).length > 0;
  const { problems } = findServed({ ports, hasSelector, cause }, slices);
  const [first] = problems;
  if (first === undefined) return [];
  const message = problems.map((it) => it.message).join("; ");
  return [{ type: ENDPOINTS, status: "False", reason: first.reason, message }];
}

/** Users' objects stay when their cluster leaves: they say that nothing comes of them. */
function planInactive(
  cluster: string,
  fleet: NewCondition | undefined,
  mcs: NewCondition | undefined,
): ExportPlan {
  const inactive = inactiveCondition(cluster);
  const pending: NewCondition = {
    type: "Ready",
    status: "False",
    reason: "Pending",
    message: inactive.message,
  };
  return {
    spec: undefined,
    hasEndpoints: false,
    fleet: fleet === undefined ? undefined : [fleet, inactive],
    mcs: mcs === undefined ? undefined : [mcs, pending, inactive],
    global: undefined,
  };
}

function planSpec(
  view: ExportView,
  fleet: FleetExportState | undefined,
  others: readonly (ApiExport | undefined)[],
): ExportPlan["spec"] {
  const { service } = view;
  const apis = [fleet?.exported, ...others].filter((it) => it !== undefined);
  if (service === undefined || apis.length === 0) return undefined;
  const weight = fleet?.exported === undefined ? undefined : fleet.weight;
  return {
    ...writeExportFacts(service, apis),
    ...(unitesPorts(view) ? { portPolicy: "Union" as const } : {}),
    ...defined({ weight }),
  };
}

function unitesPorts({ fleet, mcs }: ExportView): boolean {
  return (fleet ?? mcs)?.metadata.annotations?.[PORTS_ANNOTATION] === UNITED_PORTS;
}

function readFleetExport(view: ExportView, object: FleetServiceExport): FleetExportState {
  const { service, namespace, name } = view;
  const invalid = (reason: string, message: string): FleetExportState => ({
    exported: undefined,
    weight: undefined,
    valid: { type: "Valid", status: "False", reason, message },
  });
  if (isGone(service)) return invalid("ServiceNotFound", `service ${namespace}/${name} is not found`);
  const problem = findProblem(namespace, service, ["ExternalName", "headless"]);
  if (problem !== undefined)
    return invalid(
      "ServiceIneligible",
      `service ${namespace}/${name} is not eligible for export: ${problem}`,
    );
  const exported = apiExport("fleet", object);
  const weight = readWeight(object.metadata.annotations?.[WEIGHT_ANNOTATION]);
  if (weight.kind === "invalid") return keepWeight(view, exported, weight.message);
  if (weight.weight === 0) {
    const message = `exported service ${namespace}/${name} with 0 weight`;
    return { exported: undefined, weight: 0, valid: isValid("ServiceIsValid", message) };
  }
  const message = `service ${namespace}/${name} is valid for export`;
  return { exported, weight: weight.weight, valid: isValid("ServiceIsValid", message) };
}

/** Keeps the last valid weight: a typing error must not stop traffic. */
function keepWeight({ current }: ExportView, exported: ApiExport, problem: string): FleetExportState {
  const before = current?.spec;
  // A legacy hub does not store the API of an export: what exists came through this one.
  const isExported =
    before !== undefined &&
    (before.doors === undefined || before.doors.some((it) => it.group === FLEET_NETWORKING_GROUP));
  const message = isExported
    ? `${problem}; the last valid one, ${before.weight ?? 1}, stays`
    : `${problem}; nothing is exported until it is`;
  return {
    exported: isExported ? exported : undefined,
    weight: before?.weight,
    valid: {
      type: "Valid",
      status: "False",
      reason: "ServiceExportInvalidWeightAnnotation",
      message,
    },
  };
}

function readMcsExport({ service, namespace, name }: ExportView, object: ServiceExport): McsExportState {
  if (isGone(service)) {
    const message = `service ${namespace}/${name} does not exist`;
    return { exported: undefined, valid: { type: "Valid", status: "False", reason: "NoService", message } };
  }
  const problem = findProblem(namespace, service, ["ExternalName"]);
  if (problem !== undefined)
    return {
      exported: undefined,
      valid: { type: "Valid", status: "False", reason: "InvalidServiceType", message: problem },
    };
  return {
    exported: apiExport("mcs", object),
    valid: isValid("Valid", `service ${namespace}/${name} can be exported`),
  };
}

function isValid(reason: string, message: string): NewCondition {
  return { type: "Valid", status: "True", reason, message };
}

function apiExport(api: "fleet" | "mcs", object: FleetServiceExport | ServiceExport): ApiExport {
  const spec = "spec" in object ? object.spec : undefined;
  return {
    api,
    createdAt: object.metadata.creationTimestamp ?? "",
    labels: spec?.exportedLabels ?? {},
    annotations: spec?.exportedAnnotations ?? {},
  };
}

/** None for exports that do not get as far as being compared. */
function fleetConflict(view: ExportView, isExported: boolean): NewCondition[] {
  if (!isExported) return [];
  const found = view.refused === undefined ? hubCondition(view, "Conflict") : undefined;
  if (found !== undefined) return [copyOf(found, "Conflict")];
  const refused = refusalOf(view);
  const why = refused === undefined ? "" : `: the hub refused it, ${refused}`;
  return [
    {
      type: "Conflict",
      status: "Unknown",
      reason: "ServicePendingConflictResolution",
      message: `service ${view.namespace}/${view.name} is pending export conflict resolution${why}`,
    },
  ];
}

/** `Ready` once the hub has the export, and the conflict that the hub found. */
function mcsProgress(view: ExportView, isExported: boolean): NewCondition[] {
  if (!isExported) {
    const message = "nothing is exported until the export is valid";
    return [{ type: "Ready", status: "False", reason: "Pending", message }];
  }
  const refused = refusalOf(view);
  if (refused !== undefined)
    return [{ type: "Ready", status: "False", reason: "Failed", message: `the hub refused it: ${refused}` }];
  const conflict = hubCondition(view, MCS_CONFLICT);
  const shared = conflict === undefined ? [] : [copyOf(conflict, "Conflict")];
  return hubCondition(view, ACCEPTED) === undefined
    ? [{ type: "Ready", status: "False", reason: "Pending", message: "waiting for the hub" }, ...shared]
    : [{ type: "Ready", status: "True", reason: "Exported", message: "the hub has the export" }, ...shared];
}

function copyOf({ status, reason, message }: Condition, type: string): NewCondition {
  return { type, status, reason, message };
}
