import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { type EndpointSlice, SERVICE_NAME_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { AttachMode } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";

/** Label of pods and namespaces: "true" or "false". A pod's label is stronger than its namespace's, and both than the rest. */
export const ATTACH_LABEL = "fairlead.dev/attach";

/** Why a pod has a fleet address. */
export type AttachReason = "label" | "export" | "import" | "all";

export interface AttachScope {
  readonly mode: AttachMode;
  /** The value of the label `fairlead.dev/attach` of the pod's namespace. */
  readonly namespaceLabel: string | undefined;
  /** Whether the pod's namespace has a ServiceImport or a global Service. */
  readonly isImporting: boolean;
  /** UIDs of the pods behind exported Services: `exportedPods`. */
  readonly exported: ReadonlySet<string>;
}

/** Returns why the pod has a fleet address; undefined if it has none. Pure. */
export function attachReason(pod: Pod, scope: AttachScope): AttachReason | undefined {
  if (pod.spec?.hostNetwork === true || isFinished(pod)) return undefined;
  const label = readLabel(pod.metadata.labels?.[ATTACH_LABEL]) ?? readLabel(scope.namespaceLabel);
  if (label !== undefined) return label ? "label" : undefined;
  return reasonWithoutLabel(pod.metadata, scope);
}

function reasonWithoutLabel(pod: Pod["metadata"], scope: AttachScope): AttachReason | undefined {
  const { uid = "", namespace = "" } = pod;
  if (scope.exported.has(uid)) return "export";
  if (scope.isImporting) return "import";
  return scope.mode === "all" && !SYSTEM_NAMESPACES.has(namespace) ? "all" : undefined;
}

/** Pods there are not workloads: they run the cluster, or Fairlead itself. */
const SYSTEM_NAMESPACES: ReadonlySet<string> = new Set([
  "kube-system",
  "kube-public",
  "kube-node-lease",
  FLEET_SYSTEM_NAMESPACE,
]);

function isFinished({ status }: Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/** Undefined for a value that is neither: it changes nothing. */
function readLabel(value: string | undefined): boolean | undefined {
  return value === "true" ? true : value === "false" ? false : undefined;
}

/**
 * Returns the UIDs of the pods behind exported Services, whatever their readiness: a pod is attached before it serves.
 *
 * @param isExported - Whether the Service of that namespace and name is exported.
 */
export function exportedPods(
  slices: Iterable<EndpointSlice>,
  isExported: (namespace: string, service: string) => boolean,
): ReadonlySet<string> {
  const uids = new Set<string>();
  for (const { metadata, endpoints } of slices) {
    const service = metadata.labels?.[SERVICE_NAME_LABEL];
    if (service === undefined || !isExported(metadata.namespace ?? "", service)) continue;
    for (const { targetRef } of endpoints)
      if (targetRef?.kind === "Pod" && targetRef.uid !== undefined) uids.add(targetRef.uid);
  }
  return uids;
}
