import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { clusterOfMailbox, isReservedNamespace } from "#api/networking.fleet.azure.com/names.ts";
import type {
  EndpointSliceExport,
  InternalServiceExport,
  InternalServiceExportSpec,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { EXPORTS_SERVED, MCS_CONFLICT, TRAFFIC } from "#api/fairlead.dev/names.ts";
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

/** Facts about exports; keys are "cluster/namespace/name". */
export interface FoundOfExports {
  /** Their number. */
  readonly endpoints: ReadonlyMap<string, number>;
  readonly slices: ReadonlyMap<string, readonly EndpointSliceExport[]>;
  /** Members whose connections are refused. */
  readonly refusing: ReadonlyMap<string, readonly string[]>;
  /** Why there are no requests, as the exporter says. */
  readonly unserved: ReadonlyMap<string, string>;
}

export function summarizeExport(object: InternalServiceExport, found: FoundOfExports): ExportStatus {
  const { endpoints, slices, refusing, unserved } = found;
  const cluster = clusterOfMailbox(object.metadata.namespace) ?? "";
  const reference = object.spec?.serviceReference;
  const find = (type: string, status: string) =>
    object.status?.conditions?.find((it) => it.type === type && it.status === status);
  const refused = object.status?.conditions?.find((it) => it.status === "False" && it.reason === "Refused");
  // Each kind of export words a conflict differently; the message of the MCS kind names all sides.
  const conflict = find(MCS_CONFLICT, "True") ?? find("Conflict", "True");
  const key = `${cluster}/${reference?.namespace}/${reference?.name}`;
  const facts = examineExport(object, slices.get(key) ?? [], unserved.get(key));
  return {
    ...withRefusals(facts, refusing.get(key)),
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

function examineExport(
  object: InternalServiceExport,
  slices: readonly EndpointSliceExport[],
  reported: string | undefined,
): ExportFacts {
  const traffic = object.status?.conditions?.find((it) => it.type === TRAFFIC && it.status === "False");
  const facts = findEndpoints(object.spec ?? {}, slices, reported);
  return traffic === undefined ? facts : { ...facts, problems: [traffic.message, ...facts.problems] };
}

const NO_WEIGHT = "weight 0: its endpoints get no new requests; set the weight to 1 or more";

function findEndpoints(
  { ports = [], weight }: Partial<InternalServiceExportSpec>,
  slices: readonly EndpointSliceExport[],
  reported: string | undefined,
): ExportFacts {
  const { usable, problems } = findServed(
    { ports },
    slices.map((it) => it.spec),
  );
  // The exporter sees its pods.
  const messages = problems.map((it) => (it.reason === "NoSuchPort" ? it.message : (reported ?? it.message)));
  return weight === 0 ? { usable: 0, problems: [...messages, NO_WEIGHT] } : { usable, problems: messages };
}

/** An export that the hub does not have, and that gets no requests. */
export interface WithdrawnExport {
  readonly cluster: string;
  readonly namespace: string;
  readonly name: string;
  readonly why: string;
}

/** The causes why exports get no requests, as their clusters report them, by "cluster/namespace/name". */
export function unservedExports(members: readonly MemberCluster[]): ReadonlyMap<string, string> {
  const reports = members.flatMap(({ metadata, status }) =>
    (status?.agentStatus ?? [])
      .flatMap((it) => it.conditions?.find(({ type }) => type === EXPORTS_SERVED) ?? [])
      .filter((it) => it.status === "False")
      .flatMap((it) => it.message.split("\n").flatMap(readReport))
      .map(([key, why]) => [`${metadata.name}/${key}`, why] as const),
  );
  return new Map(reports);
}

function readReport(line: string): (readonly [key: string, why: string])[] {
  const end = line.indexOf(": ");
  const key = line.slice(0, Math.max(end, 0));
  return key.split("/").length === 2 ? [[key, line.slice(end + 2)]] : [];
}

/** @param known - Exports that the hub has. */
export function withdrawnExports(
  unserved: ReadonlyMap<string, string>,
  known: ReadonlySet<string>,
): readonly WithdrawnExport[] {
  return [...unserved].flatMap(([key, why]) => {
    const [cluster = "", namespace = "", name = ""] = key.split("/");
    return known.has(key) ? [] : [{ cluster, namespace, name, why }];
  });
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
