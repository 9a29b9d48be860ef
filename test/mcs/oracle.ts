/**
 * The rules of the Multi-Cluster Services API (KEP-1645, "Constraints and Conflict Resolution") for a service that several
 * clusters export: written from its text alone, for the tests to compare the planners with. It shares no code with them.
 *
 * Where the KEP leaves a choice, these were made: exports of one second are ordered by the name of their cluster; a port is
 * what clients see of it, its protocol and number; a Service without affinity has no configuration of affinity that others
 * could disagree with; and all families count that any of the clusters offers, because an address once given stays.
 */

export type Family = "IPv4" | "IPv6";

export interface OraclePort {
  readonly name: string;
  readonly protocol: "TCP" | "UDP" | "SCTP";
  readonly port: number;
  readonly appProtocol: string | undefined;
}

type TextMap = Readonly<Record<string, string>>;

/** One cluster's ServiceExport, and the Service of its name. */
export interface OracleExport {
  readonly cluster: string;
  /** `metadata.creationTimestamp` of the ServiceExport. Unit: seconds. */
  readonly createdAt: number;
  /** "none": there is no such Service. */
  readonly service: "ClusterIP" | "Headless" | "ExternalName" | "none";
  readonly ports: readonly OraclePort[];
  readonly sessionAffinity: "None" | "ClientIP";
  /** Only with ClientIP. Unit: seconds. */
  readonly affinityTimeout: number | undefined;
  readonly internalTrafficPolicy: "Cluster" | "Local";
  readonly trafficDistribution: string | undefined;
  readonly families: readonly Family[];
  readonly exportedLabels: TextMap;
  readonly exportedAnnotations: TextMap;
}

export const CONFLICT_REASONS = [
  "PortConflict",
  "TypeConflict",
  "SessionAffinityConflict",
  "SessionAffinityConfigConflict",
  "LabelsConflict",
  "AnnotationsConflict",
  "InternalTrafficPolicyConflict",
  "TrafficDistributionConflict",
  "IPFamilyConflict",
] as const;
export type ConflictReason = (typeof CONFLICT_REASONS)[number];

export interface OracleImport {
  readonly type: "ClusterSetIP" | "Headless";
  /** As a set: the KEP does not define an order. */
  readonly ports: ReadonlySet<string>;
  readonly sessionAffinity: "None" | "ClientIP";
  readonly affinityTimeout: number | undefined;
  readonly internalTrafficPolicy: "Cluster" | "Local";
  readonly trafficDistribution: string | undefined;
  readonly labels: TextMap;
  readonly annotations: TextMap;
  /** The clusters that serve it. */
  readonly clusters: ReadonlySet<string>;
}

export interface Verdict {
  /** Of each cluster that has an export: the condition `Valid` and, if it is False, why. */
  readonly valid: ReadonlyMap<string, "Valid" | "NoService" | "InvalidServiceType">;
  /** Undefined if no cluster has an export that can be imported. */
  readonly import: OracleImport | undefined;
  /** The same for all exports that count: "will be set on all ServiceExports for the conflicted service". */
  readonly conflicts: ReadonlySet<ConflictReason>;
  /** Clusters that answer for a port of the import, by `showPort`. */
  readonly servedBy: ReadonlyMap<string, ReadonlySet<string>>;
}

/** A port as text, its name first: what of it can be seen from outside the Service. */
export function showPort(it: OraclePort): string {
  return `${it.name}=${it.protocol}/${it.port}/${it.appProtocol ?? ""}`;
}

function showMap(map: TextMap): string {
  const pairs = Object.entries(map);
  return JSON.stringify(pairs.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function validity(it: OracleExport): "Valid" | "NoService" | "InvalidServiceType" {
  if (it.service === "none") return "NoService";
  return it.service === "ExternalName" ? "InvalidServiceType" : "Valid";
}

/** "precedence based on each ServiceExport's creationTimestamp, from oldest to newest" */
function byPrecedence(a: OracleExport, b: OracleExport): number {
  if (a.createdAt !== b.createdAt) return a.createdAt - b.createdAt;
  return a.cluster < b.cluster ? -1 : 1;
}

/**
 * "the clusterset service will expose the union of service ports declared on its constituent services": no two of one name
 * ("including unnamed/empty name"), no two of one protocol and number; existing ones stay.
 */
function unite(exports: readonly OracleExport[]): readonly OraclePort[] {
  const names = new Set<string>();
  const numbers = new Set<string>();
  const union: OraclePort[] = [];
  for (const one of exports)
    for (const port of one.ports) {
      const number = `${port.protocol}:${port.port}`;
      if (names.has(port.name) || numbers.has(number)) continue;
      names.add(port.name);
      numbers.add(number);
      union.push(port);
    }
  return union;
}

function isDivided(exports: readonly OracleExport[], valueOf: (it: OracleExport) => unknown): boolean {
  const values = exports.map((it) => valueOf(it)).filter((it) => it !== undefined);
  return new Set(values.map((it) => JSON.stringify(it))).size > 1;
}

/**
 * "differing families could make traffic reach only part of the backends depending on IP version": some family by which
 * the service may be reached is one that a cluster behind it does not have.
 */
function isPartlyReached(exports: readonly OracleExport[]): boolean {
  const reachable = new Set(exports.flatMap((it) => it.families));
  return exports.some((it) => [...reachable].some((family) => !it.families.includes(family)));
}

/** Properties that "can not simply be merged"; undefined: the export has no such property. */
const PROPERTIES: readonly (readonly [ConflictReason, (it: OracleExport) => unknown])[] = [
  ["PortConflict", (it) => it.ports.map((port) => showPort(port)).toSorted()],
  ["TypeConflict", (it) => it.service === "Headless"],
  ["SessionAffinityConflict", (it) => it.sessionAffinity],
  ["SessionAffinityConfigConflict", (it) => it.affinityTimeout],
  ["LabelsConflict", (it) => showMap(it.exportedLabels)],
  ["AnnotationsConflict", (it) => showMap(it.exportedAnnotations)],
  ["InternalTrafficPolicyConflict", (it) => it.internalTrafficPolicy],
  ["TrafficDistributionConflict", (it) => it.trafficDistribution ?? "no preference"],
];

/** What has to be so for these exports. */
export function judge(exports: readonly OracleExport[]): Verdict {
  const valid = new Map(exports.map((it) => [it.cluster, validity(it)] as const));
  const counted = exports.filter((it) => validity(it) === "Valid").toSorted(byPrecedence);
  const [oldest] = counted;
  if (oldest === undefined) return { valid, import: undefined, conflicts: new Set(), servedBy: new Map() };
  const conflicts = new Set<ConflictReason>();
  for (const [reason, valueOf] of PROPERTIES) if (isDivided(counted, valueOf)) conflicts.add(reason);
  if (isPartlyReached(counted)) conflicts.add("IPFamilyConflict");
  const ports = unite(counted);
  return {
    valid,
    conflicts,
    import: {
      type: oldest.service === "Headless" ? "Headless" : "ClusterSetIP",
      ports: new Set(ports.map((it) => showPort(it))),
      sessionAffinity: oldest.sessionAffinity,
      affinityTimeout: oldest.affinityTimeout,
      internalTrafficPolicy: oldest.internalTrafficPolicy,
      trafficDistribution: oldest.trafficDistribution,
      labels: oldest.exportedLabels,
      annotations: oldest.exportedAnnotations,
      clusters: new Set(counted.map((it) => it.cluster)),
    },
    servedBy: new Map(
      ports.map((port) => [
        showPort(port),
        new Set(counted.filter((it) => offers(it, port)).map((it) => it.cluster)),
      ]),
    ),
  };
}

/** "Traffic to a port should reach only endpoints of clusters that really expose that port." */
function offers(one: OracleExport, port: OraclePort): boolean {
  return one.ports.some((it) => it.protocol === port.protocol && it.port === port.port);
}
