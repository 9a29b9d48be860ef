import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { GLOBAL_SERVICE_GROUP } from "#domain/global-service.ts";
import { GLOBAL_SERVICE } from "#api/fairlead.dev/names.ts";
import { exportForOthers, findHindrance } from "#domain/legacy.ts";
import type { InternalServiceExport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { ExportPlan } from "./plan.ts";

/**
 * Converts an export for a legacy hub: there it is a fleet ServiceExport, regardless of its API here. The only condition of
 * such a hub is `Conflict`, and members enforce it: they send endpoints only if it is False. Pure.
 */
export function planForLegacyHub(plan: ExportPlan, current: InternalServiceExport | undefined): ExportPlan {
  const { spec, fleet, mcs, global } = plan;
  if (spec === undefined) return plan;
  const isGlobalOnly = spec.doors?.every((it) => it.group === GLOBAL_SERVICE_GROUP) === true;
  const hindrance = isGlobalOnly ? NO_GLOBAL_SERVICES : findHindrance(spec);
  const conflict = current?.status?.conditions?.find((it) => it.type === "Conflict");
  return {
    spec: hindrance === undefined ? exportForOthers(spec) : undefined,
    hasEndpoints: hindrance === undefined && conflict?.status === "False",
    fleet,
    global: global && [
      { type: GLOBAL_SERVICE, status: "False", reason: "Refused", message: NO_GLOBAL_SERVICES },
    ],
    mcs: mcs === undefined ? undefined : [...mcs.filter(isNotProgress), ...progress(hindrance, conflict)],
  };
}

const NO_GLOBAL_SERVICES = "the hub of this fleet does not support global services";

function isNotProgress({ type }: NewCondition): boolean {
  return type !== "Ready" && type !== "Conflict";
}

function progress(
  hindrance: string | undefined,
  conflict: Pick<NewCondition, "status" | "message"> | undefined,
): NewCondition[] {
  const ready = (status: "True" | "False", reason: string, message: string): NewCondition => ({
    type: "Ready",
    status,
    reason,
    message,
  });
  if (hindrance !== undefined) return [ready("False", "Failed", hindrance)];
  switch (conflict?.status) {
    case "False":
      return [
        ready("True", "Exported", "the hub has the export"),
        { type: "Conflict", status: "False", reason: "NoConflicts", message: "all exports agree" },
      ];
    case "True":
      return [
        ready("False", "Failed", "the hub imports from clusters with the same ports only"),
        { type: "Conflict", status: "True", reason: "PortConflict", message: conflict.message },
      ];
    default:
      return [ready("False", "Pending", "waiting for the hub")];
  }
}
