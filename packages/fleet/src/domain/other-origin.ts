import type {
  EndpointSliceExportSpec,
  InternalServiceExportSpec,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";

/** What agents and hubs of other origin can be sent: their kinds without our additions. */

type SliceFacts = Pick<EndpointSliceExportSpec, "addressType" | "endpoints" | "ports">;

/**
 * Endpoints as others understand them: they take every endpoint for ready and know IPv4 only. Undefined: nothing can be
 * sent.
 */
export function endpointsForOthers<T extends SliceFacts>(spec: T): T | undefined {
  if (spec.addressType !== "IPv4") return undefined;
  const endpoints = spec.endpoints
    .filter((it) => it.conditions?.ready !== false)
    .map(({ addresses }) => ({ addresses }));
  return { ...spec, endpoints };
}

type ExportFacts = Omit<InternalServiceExportSpec, "serviceReference">;

/** Why a hub of other origin must not be sent an export, in words; undefined where it may. */
export function findHindrance(spec: ExportFacts): string | undefined {
  if (spec.headless === true) return "the hub of this fleet does not know headless services";
  if (spec.exportTo !== undefined) return "the hub of this fleet cannot export to some members only";
  // It would go on sending traffic here: it knows weights for its traffic managers alone.
  if (spec.weight === 0) return "weight 0 withdraws the export";
  return undefined;
}

/** The published fields that we fill. */
const PUBLISHED = ["type", "weight", "isInternalLoadBalancer"] as const;

export function exportForOthers(spec: ExportFacts): ExportFacts {
  const known = PUBLISHED.filter((it) => spec[it] !== undefined).map((it) => [it, spec[it]] as const);
  return { ports: spec.ports, ...Object.fromEntries(known) };
}
