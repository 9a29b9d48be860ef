import type {
  EndpointSliceExportSpec,
  InternalServiceExportSpec,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";

/** What can be sent to legacy agents and hubs: their kinds, without Fairlead's additions. */

type SliceFacts = Pick<EndpointSliceExportSpec, "addressType" | "endpoints" | "ports" | "weight">;

/**
 * Endpoints as legacy agents understand them: they assume that every endpoint is ready, and know only IPv4. Undefined: nothing
 * can be sent.
 */
export function endpointsForOthers<T extends SliceFacts>(spec: T): Omit<T, "weight"> | undefined {
  if (spec.addressType !== "IPv4") return undefined;
  const endpoints = spec.endpoints
    .filter((it) => it.conditions?.ready !== false)
    .map(({ addresses }) => ({ addresses }));
  const { weight: _unknown, ...known } = spec;
  return { ...known, endpoints };
}

type ExportFacts = Omit<InternalServiceExportSpec, "serviceReference">;

/** Why an export must not be sent to a legacy hub; undefined if it may. */
export function findHindrance(spec: ExportFacts): string | undefined {
  if (spec.headless === true) return "the hub of this fleet does not support headless services";
  if (spec.exportTo !== undefined)
    return "the hub of this fleet does not support exports to some members only";
  // The hub would keep sending traffic here: it uses weights for its traffic managers only.
  if (spec.weight === 0) return "weight 0 withdraws the export";
  return undefined;
}

/** The published fields that Fairlead sets. */
const PUBLISHED = ["type", "weight", "isInternalLoadBalancer"] as const;

export function exportForOthers(spec: ExportFacts): ExportFacts {
  const known = PUBLISHED.filter((it) => spec[it] !== undefined).map((it) => [it, spec[it]] as const);
  return { ports: spec.ports, ...Object.fromEntries(known) };
}
