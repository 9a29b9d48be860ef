import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { ACCEPTED } from "#api/fairlead.dev/names.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { ServiceExport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { isReservedNamespace } from "#api/networking.fleet.azure.com/names.ts";
import type { InternalServiceExport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { FleetServiceExport } from "#api/networking.fleet.azure.com/v1beta1/types.ts";

/** What a cluster knows of one service that it may export. Pure. */

export interface ExportView {
  readonly namespace: string;
  readonly name: string;
  readonly fleet: FleetServiceExport | undefined;
  readonly mcs: ServiceExport | undefined;
  readonly service: Service | undefined;
  /** Its EndpointSlices in this cluster. Default: not known. */
  readonly slices?: readonly EndpointSlice[];
  /** Why the Service has no ready endpoints. Default: not known. */
  readonly cause?: string | undefined;
  /** Whether the namespace of the Service is global. Default: true. */
  readonly isGlobalNamespace?: boolean;
  /** Whether slices of the service have weights other than 1. Default: false. */
  readonly hasWeights?: boolean;
  /** Whether the profile has agents of nodes installed. Default: true. */
  readonly hasNodeAgents?: boolean;
  /** The export on the hub, with the conditions that the hub wrote. */
  readonly current: InternalServiceExport | undefined;
  /** By name: the cluster leaves its fleet, or has left. */
  readonly left?: string | undefined;
  /** Why the hub's API server did not take what was sent last, in its words. */
  readonly refused?: string | undefined;
}

export function isGone(service: Service | undefined): service is undefined {
  return service === undefined || service.metadata.deletionTimestamp !== undefined;
}

export function findProblem(
  namespace: string,
  service: Service,
  refused: readonly ("ExternalName" | "headless")[],
): string | undefined {
  if (isReservedNamespace(namespace)) return `namespace ${namespace} is reserved for the fleet`;
  if (service.spec?.type === "ExternalName")
    return "a Service of type ExternalName has no endpoints to export";
  if (service.spec?.clusterIP === "None" && refused.includes("headless"))
    return "a headless Service has no virtual address; a ServiceExport of multicluster.x-k8s.io exports it";
  return undefined;
}

export function hubCondition(view: Pick<ExportView, "current">, type: string): Condition | undefined {
  return view.current?.status?.conditions?.find((it) => it.type === type);
}

/** By the hub's API server, or by its controllers. */
export function refusalOf(view: Pick<ExportView, "current" | "refused">): string | undefined {
  const accepted = hubCondition(view, ACCEPTED);
  return view.refused ?? (accepted?.status === "False" ? accepted.message : undefined);
}
