import { clusterOfMailbox, isReservedNamespace } from "#api/networking.fleet.azure.com/names.ts";
import type {
  EndpointSliceExport,
  InternalServiceExport,
  InternalServiceExportSpec,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { MCS_CONFLICT, TRAFFIC } from "#api/fairlead.dev/names.ts";
import type { NamespaceReport } from "#api/fairlead.dev/v1alpha1/types.ts";
import { readExport } from "#domain/exported-service.ts";
import { someOf } from "#domain/node-agents.ts";
import { findServed } from "#domain/served.ts";
import { byNaturalText } from "@fairlead/base/text.ts";

/** Why no request reaches the endpoints that a cluster exports, from what the hub knows. Pure. */

export interface ExportStatus extends ExportFacts {
  readonly cluster: string;
  /** The APIs by which it is exported. */
  readonly doors: readonly string[];
  readonly conflicts: readonly string[];
  readonly endpoints: number;
}

interface ExportFacts {
  /** Ready endpoints that have a port of the service and get new requests; those of drained members count. */
  readonly usable: number;
  /** Causes, and the remedies of those that are certain. */
  readonly problems: readonly string[];
}

/**
 * @param endpoints - Their number by "cluster/namespace/name".
 * @param slices - By the same.
 * @param refusing - Members whose connections are refused, by the same.
 */
export function summarizeExport(
  object: InternalServiceExport,
  endpoints: ReadonlyMap<string, number>,
  slices: ReadonlyMap<string, readonly EndpointSliceExport[]>,
  refusing: ReadonlyMap<string, readonly string[]>,
): ExportStatus {
  const cluster = clusterOfMailbox(object.metadata.namespace) ?? "";
  const reference = object.spec?.serviceReference;
  const find = (type: string, status: string) =>
    object.status?.conditions?.find((it) => it.type === type && it.status === status);
  const refused = object.status?.conditions?.find((it) => it.status === "False" && it.reason === "Refused");
  // Each kind of export words a conflict differently; the message of the MCS kind names all sides.
  const conflict = find(MCS_CONFLICT, "True") ?? find("Conflict", "True");
  const key = `${cluster}/${reference?.namespace}/${reference?.name}`;
  return {
    ...withRefusals(examineExport(object, slices.get(key) ?? []), refusing.get(key)),
    cluster,
    doors: readExport(object)?.apis.map((it) => it.api) ?? [],
    conflicts: [refused, conflict].flatMap((it) => it?.message ?? []),
    endpoints: endpoints.get(key) ?? 0,
  };
}

/** Where there are no endpoints, what was found of them before is old. */
function withRefusals(facts: ExportFacts, witnesses: readonly string[] = []): ExportFacts {
  const isKnown = facts.usable > 0 && witnesses.length > 0;
  return isKnown ? { ...facts, problems: [...facts.problems, whyRefused(witnesses)] } : facts;
}

function whyRefused(witnesses: readonly string[]): string {
  return `its endpoints refuse connections from ${someOf(witnesses)}: no process of the pods listens on the targetPort, or a policy rejects them; compare the targetPort with the pods`;
}

function examineExport(object: InternalServiceExport, slices: readonly EndpointSliceExport[]): ExportFacts {
  const traffic = object.status?.conditions?.find((it) => it.type === TRAFFIC && it.status === "False");
  const facts = findEndpoints(object.spec ?? {}, slices);
  return traffic === undefined ? facts : { ...facts, problems: [traffic.message, ...facts.problems] };
}

const NO_WEIGHT = "weight 0: its endpoints get no new requests; set the weight to 1 or more";

function findEndpoints(
  { ports = [], weight }: Partial<InternalServiceExportSpec>,
  slices: readonly EndpointSliceExport[],
): ExportFacts {
  const { usable, problems } = findServed(
    { ports },
    slices.map((it) => it.spec),
  );
  const messages = problems.map((it) => it.message);
  return weight === 0 ? { usable: 0, problems: [...messages, NO_WEIGHT] } : { usable, problems: messages };
}

export interface AbsentNamespace {
  readonly namespace: string;
  /** The members without it. */
  readonly clusters: readonly string[];
}

/** Namespaces of exported services that members do not have, and into which nothing is imported there. */
export function absentNamespaces(
  exports: readonly InternalServiceExport[],
  reports: readonly NamespaceReport[],
): readonly AbsentNamespace[] {
  const exported = new Set(exports.flatMap((it) => it.spec?.serviceReference.namespace ?? []));
  return [...exported]
    .filter((it) => !isReservedNamespace(it))
    .toSorted(byNaturalText)
    .flatMap((namespace) => {
      const clusters = reports
        .filter((it) => !it.spec.namespaces.includes(namespace))
        .map((it) => clusterOfMailbox(it.metadata.namespace) ?? it.metadata.name)
        .toSorted(byNaturalText);
      return clusters.length === 0 ? [] : [{ namespace, clusters }];
    });
}
