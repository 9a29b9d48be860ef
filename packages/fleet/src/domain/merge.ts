import { sameJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import type { IPFamily } from "@fairlead/kube/api/core/v1/types.ts";
import type { ServiceImportPort } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import type { ImportedCluster, ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import {
  type ExportedService,
  type ApiExport,
  type ModelPort,
  byAge,
  isGlobalExport,
} from "./exported-service.ts";

/** The multi-cluster API (KEP-1645, "Constraints and conflict resolution"): union of ports, the oldest wins a conflict. */

export type ConflictReason =
  | "AnnotationsConflict"
  | "IPFamilyConflict"
  | "InternalTrafficPolicyConflict"
  | "LabelsConflict"
  | "PortConflict"
  | "SessionAffinityConfigConflict"
  | "SessionAffinityConflict"
  | "TrafficDistributionConflict"
  | "TypeConflict";

interface Conflict {
  readonly reason: ConflictReason;
  /** What differs, between which clusters, and which one wins. */
  readonly message: string;
}

export interface MergedService {
  readonly spec: Omit<ImportedService["spec"], "service">;
  /** Reported to every export of the service. Sorted by reason. */
  readonly conflicts: readonly Conflict[];
  /** Which cluster asks for which locality, if exports differ in it. KEP-1645 has no reason for it. */
  readonly affinityConflict: string | undefined;
}

/**
 * Merges the exports of one service; undefined without exports. The order of `exports` is irrelevant.
 *
 * @param isTold - Of which exports conflicts may report details. Default: of all.
 */
export function mergeExports(
  exports: readonly ExportedService[],
  isReported: (of: ExportedService) => boolean = () => true,
): MergedService | undefined {
  const ordered = exports.toSorted(byAge);
  const [oldest] = ordered;
  if (oldest === undefined) return undefined;
  const ports = unionOfPorts(ordered);
  const locality = ordered.find((it) => it.affinity !== undefined)?.affinity;
  // Fleet exports cannot carry labels: they abstain.
  const metadata = ordered.map(mcsExport).find((it) => it !== undefined);
  return {
    spec: {
      type: oldest.headless ? "Headless" : "ClusterSetIP",
      ports: ports.map(writePort),
      ipFamilies: [...commonFamilies(ordered)],
      ...affinity(oldest),
      ...(oldest.internalTrafficPolicy === undefined
        ? {}
        : { internalTrafficPolicy: oldest.internalTrafficPolicy }),
      ...(oldest.trafficDistribution === undefined
        ? {}
        : { trafficDistribution: oldest.trafficDistribution }),
      ...(locality === undefined || locality === "none" ? {} : { affinity: locality }),
      ...(metadata === undefined ? {} : { labels: metadata.labels, annotations: metadata.annotations }),
      clusters: ordered
        .map((it) => ({
          cluster: it.cluster,
          ports: exposedPorts(it.ports, ports),
          ...shareOf(it),
          ...(isGlobalExport(it) ? { global: true } : {}),
        }))
        .toSorted((a, b) => byText(a.cluster, b.cluster)),
    },
    conflicts: findConflicts(ordered, isReported),
    affinityConflict: findAffinityConflict(ordered, isReported),
  };
}

/** The properties that differ from the defaults. */
function shareOf({
  weight = 1,
  priority = 0,
}: ExportedService): Pick<ImportedCluster, "weight" | "priority"> {
  return { ...(weight === 1 ? {} : { weight }), ...(priority === 0 ? {} : { priority }) };
}

/** An export without the annotation has no opinion: the oldest that has one decides. */
function findAffinityConflict(
  ordered: readonly ExportedService[],
  isReported: (of: ExportedService) => boolean,
): string | undefined {
  const said = ordered.flatMap((of) => (of.affinity === undefined ? [] : [{ of, value: of.affinity }]));
  return describeConflict("affinities", said, isReported);
}

/** Oldest to newest: a port joins when neither its name nor its protocol and number is taken. */
export function unionOfPorts(ordered: readonly ExportedService[]): ModelPort[] {
  const union: ModelPort[] = [];
  const names = new Set<string>();
  const numbers = new Set<string>();
  for (const port of ordered.flatMap((it) => it.ports)) {
    if (names.has(port.name) || numbers.has(numberOf(port))) continue;
    names.add(port.name);
    numbers.add(numberOf(port));
    union.push(port);
  }
  return union;
}

type NumberedPort = Pick<ModelPort, "name" | "protocol" | "port">;

/**
 * The ports of the import that a cluster with these ports truly serves: those with their protocol and number. A port of the
 * same name but another number is not one of them, and gets no traffic.
 */
export function exposedPorts(
  ports: readonly NumberedPort[],
  union: readonly NumberedPort[],
): ImportedCluster["ports"] {
  const byNumber = new Map(union.map((it) => [numberOf(it), it]));
  return ports.flatMap((port) => {
    const merged = byNumber.get(numberOf(port));
    return merged === undefined ? [] : [{ name: port.name, importedAs: merged.name }];
  });
}

function numberOf(port: Pick<ModelPort, "protocol" | "port">): string {
  return `${port.protocol}/${port.port}`;
}

function writePort(port: ModelPort): ServiceImportPort {
  return {
    ...(port.name === "" ? {} : { name: port.name }),
    protocol: port.protocol,
    ...(port.appProtocol === undefined ? {} : { appProtocol: port.appProtocol }),
    port: port.port,
  };
}

function affinity(
  oldest: ExportedService,
): Pick<ImportedService["spec"], "sessionAffinity" | "sessionAffinityConfig"> {
  if (oldest.sessionAffinity === undefined) return {};
  const timeoutSeconds = oldest.affinityTimeoutSeconds;
  if (oldest.sessionAffinity === "None" || timeoutSeconds === undefined)
    return { sessionAffinity: oldest.sessionAffinity };
  return { sessionAffinity: "ClientIP", sessionAffinityConfig: { clientIP: { timeoutSeconds } } };
}

/** The families that every export with families serves, in the order of the oldest; if they share none, those of the oldest. */
export function commonFamilies(ordered: readonly ExportedService[]): readonly IPFamily[] {
  const said = ordered.filter((it) => it.ipFamilies.length > 0);
  const first = said[0]?.ipFamilies ?? [];
  const common = first.filter((family) => said.every((it) => it.ipFamilies.includes(family)));
  return common.length > 0 ? common : first;
}

/** A property of an export, as a value that can be compared and shown. Undefined if the export does not specify it. */
type Property = (of: ExportedService) => unknown;

const RULES: readonly { readonly reason: ConflictReason; readonly what: string; readonly of: Property }[] = [
  { reason: "TypeConflict", what: "type", of: (it) => (it.headless ? "Headless" : "ClusterSetIP") },
  { reason: "PortConflict", what: "ports", of: portSet },
  { reason: "SessionAffinityConflict", what: "sessionAffinity", of: (it) => it.sessionAffinity },
  {
    reason: "SessionAffinityConfigConflict",
    what: "sessionAffinityConfig timeoutSeconds",
    of: (it) => (it.sessionAffinity === "ClientIP" ? (it.affinityTimeoutSeconds ?? null) : undefined),
  },
  {
    reason: "InternalTrafficPolicyConflict",
    what: "internalTrafficPolicy",
    of: (it) => it.internalTrafficPolicy,
  },
  {
    reason: "TrafficDistributionConflict",
    what: "trafficDistribution",
    // An absent preference differs from a stated one, but agents that do not send it send no families either.
    of: (it) => (it.ipFamilies.length === 0 ? it.trafficDistribution : (it.trafficDistribution ?? null)),
  },
  {
    reason: "IPFamilyConflict",
    what: "ipFamilies",
    of: (it) => (it.ipFamilies.length === 0 ? undefined : it.ipFamilies.toSorted(byText)),
  },
  { reason: "LabelsConflict", what: "exportedLabels", of: (it) => mcsExport(it)?.labels },
  { reason: "AnnotationsConflict", what: "exportedAnnotations", of: (it) => mcsExport(it)?.annotations },
];

function mcsExport(of: ExportedService): ApiExport | undefined {
  return of.apis.find((it) => it.api === "mcs");
}

function portSet(of: ExportedService): string[] {
  return of.ports
    .map((it) => `${it.name}:${numberOf(it)}${it.appProtocol === undefined ? "" : `:${it.appProtocol}`}`)
    .toSorted(byText);
}

function findConflicts(
  ordered: readonly ExportedService[],
  isReported: (of: ExportedService) => boolean,
): Conflict[] {
  return RULES.flatMap(({ reason, what, of: property }) => {
    const said = ordered.flatMap((of) => {
      const value = property(of);
      return value === undefined ? [] : [{ of, value }];
    });
    const message = describeConflict(what, said, isReported);
    return message === undefined ? [] : [{ reason, message }];
  }).toSorted((a, b) => byText(a.reason, b.reason));
}

interface Opinion {
  readonly of: ExportedService;
  readonly value: unknown;
}

/** @param said - The winner first. */
function describeConflict(
  what: string,
  said: readonly Opinion[],
  isReported: (of: ExportedService) => boolean,
): string | undefined {
  const [winner] = said;
  const others = said.filter((it) => !sameJson(it.value, winner?.value));
  if (winner === undefined || others.length === 0) return undefined;
  const report = ({ of, value }: Opinion): string =>
    isReported(of) ? `${of.cluster} has ${show(value)}` : "a cluster that does not export here has others";
  return `${what} differ: ${report(winner)} and wins; ${[...new Set(others.map(report))].join(", ")}`;
}

function show(value: unknown): string {
  if (value === null) return "none";
  if (typeof value === "string") return value;
  return JSON.stringify(value);
}
