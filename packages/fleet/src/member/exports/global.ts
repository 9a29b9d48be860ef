import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import type { ApiExport } from "#domain/exported-service.ts";
import { type GlobalSettings, readGlobalSettings } from "#domain/global-service.ts";
import { GLOBAL_NAMESPACE_ANNOTATION } from "#domain/global-namespace.ts";
import { ACCEPTED, GLOBAL_SERVICE, MCS_CONFLICT } from "#api/fairlead.dev/names.ts";
import { type ExportView, findProblem, hubCondition, isGone, refusalOf } from "./view.ts";

/** The export that the annotations of a Service ask for, and the condition that reports it. Pure. */

export interface GlobalExport {
  readonly settings: GlobalSettings;
  /** Undefined: other clusters do not use the endpoints of this one. */
  readonly exported: ApiExport | undefined;
  /** Why the Service is not global although its annotation says so. */
  readonly hindrance: Finding | undefined;
}

/** Undefined if the Service is not there, or not global. */
export function readGlobalExport(view: ExportView): GlobalExport | undefined {
  const { service, namespace, isGlobalNamespace = true } = view;
  if (isGone(service)) return undefined;
  const settings = readGlobalSettings(service);
  if (!settings.isGlobal) return undefined;
  const problem = findProblem(namespace, service, ["ExternalName"]);
  const local = {
    reason: "NamespaceNotGlobal",
    message: `namespace ${namespace} is not global: the annotation ${GLOBAL_NAMESPACE_ANNOTATION}: "true" makes it so`,
  };
  const ineligible = problem === undefined ? undefined : { reason: "ServiceIneligible", message: problem };
  const hindrance = ineligible ?? (isGlobalNamespace ? undefined : local);
  const isExported = hindrance === undefined && settings.isShared;
  const createdAt = service.metadata.creationTimestamp ?? "";
  return {
    settings,
    hindrance,
    exported: isExported ? { api: "global", createdAt, labels: {}, annotations: {} } : undefined,
  };
}

type Finding = Pick<NewCondition, "reason" | "message">;

export function globalCondition(
  view: Pick<ExportView, "current" | "refused" | "hasNodeAgents" | "hasWeights">,
  found: GlobalExport,
): NewCondition {
  const wrong = findWrong(view, found);
  if (wrong.length > 0)
    return say("False", {
      reason: wrong.map((it) => it.reason).join(","),
      message: wrong.map((it) => it.message).join("; "),
    });
  if (found.exported !== undefined && hubCondition(view, ACCEPTED) === undefined)
    return say("Unknown", { reason: "Pending", message: "waiting for the hub" });
  return say("True", found.settings.isShared ? SHARED : IMPORT_ONLY);
}

function say(status: NewCondition["status"], { reason, message }: Finding): NewCondition {
  return { type: GLOBAL_SERVICE, status, reason, message };
}

function findWrong(
  view: Pick<ExportView, "current" | "refused" | "hasNodeAgents" | "hasWeights">,
  { settings, exported, hindrance }: GlobalExport,
): Finding[] {
  return [
    ...(hindrance === undefined ? [] : [hindrance]),
    ...ignored(settings),
    ...(view.hasNodeAgents === false && hindrance === undefined ? withoutAgents(settings, view) : []),
    ...(exported === undefined ? [] : saidByHub(view)),
  ];
}

const SHARED: Finding = {
  reason: "Shared",
  message: "global Services of this name share their endpoints with this one",
};
const IMPORT_ONLY: Finding = {
  reason: "ImportOnly",
  message: "endpoints of other clusters are used here; those of this cluster are not shared",
};

function ignored({ problems }: GlobalSettings): Finding[] {
  return problems.length === 0 ? [] : [{ reason: "InvalidAnnotation", message: problems.join("; ") }];
}

/** What the cluster's service proxy does in the place of what is asked. */
function withoutAgents(
  { affinity, syncsSlices }: GlobalSettings,
  { hasWeights = false }: Pick<ExportView, "hasWeights">,
): Finding[] {
  const lost = [
    ...(affinity === "remote"
      ? ['affinity "remote": service proxies use endpoints of this cluster, too']
      : []),
    ...(hasWeights ? ["weights of EndpointSlices: service proxies know none"] : []),
    ...(syncsSlices ? [] : ["endpoints of other clusters are hidden from service proxies"]),
  ];
  if (lost.length === 0) return [];
  const message = `${lost.join("; ")}. Agents of the nodes do this, where fairlead node runs on all of them; spec.version of the ClusterMeshProfile has it installed`;
  return [{ reason: "NodeAgentsMissing", message }];
}

function saidByHub(view: Pick<ExportView, "current" | "refused">): Finding[] {
  const refused = refusalOf(view);
  const conflict = hubCondition(view, MCS_CONFLICT);
  // Ports may differ between global Services; behind an import of the other APIs they may not.
  const isConflict = conflict?.status === "True" && conflict.reason.includes("PortConflict");
  return [
    ...(refused === undefined ? [] : [{ reason: "Refused", message: `the hub refused it: ${refused}` }]),
    ...(isConflict
      ? [{ reason: "PortConflict", message: `for imports through other APIs: ${conflict.message}` }]
      : []),
  ];
}
