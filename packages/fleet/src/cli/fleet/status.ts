import { defined } from "@fairlead/base/defined.ts";
import {
  type AgentStatus,
  type DrainMode,
  INTERNAL_MEMBER_CLUSTERS,
  type InternalMemberCluster,
  MEMBER_CLUSTERS,
  type MemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES, type Lease } from "@fairlead/kube/api/coordination/v1/types.ts";
import { parseClaims } from "#domain/claim.ts";
import { drainedMembers, drainModeOf } from "#domain/drain.ts";
import { EXPORTS_VALID } from "#api/fairlead.dev/names.ts";
import { CROSS_CLUSTER_POLICY, NODE_AGENTS_CONDITION } from "#api/fairlead.dev/node-agents.ts";
import {
  IMPORTED_SERVICES,
  type ImportedService,
  NAMESPACE_REPORTS,
  type NamespaceReport,
} from "#api/fairlead.dev/v1alpha1/types.ts";
import {
  CLUSTER_MESH_PROFILES,
  type ClusterMeshProfile,
  type Gateway,
  GATEWAYS,
  type NetworkMode,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import type { ServiceImportPort } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  clusterOfMailbox,
  mailboxOf,
  SERVICE_IN_USE_BY_ANNOTATION,
} from "#api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  type EndpointSliceExport,
  FLEET_SERVICE_IMPORTS,
  type FleetServiceImport,
  INTERNAL_SERVICE_EXPORTS,
  type InternalServiceExport,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { byNaturalText } from "@fairlead/base/text.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { HubProgram } from "./hub-program.ts";
import { type CutLink, cutLinks, refusedBy } from "./links.ts";
import { summarizePaths } from "./paths.ts";
import {
  type AbsentNamespace,
  absentNamespaces,
  type ExportStatus,
  type FoundOfExports,
  summarizeExport,
  unservedExports,
  type WithdrawnExport,
  withdrawnExports,
} from "./export-status.ts";

/** The state of a fleet, as seen from its hub. */

export interface FleetStatus {
  /** Undefined if it was not checked. */
  readonly hub?: HubProgram;
  readonly clusters: readonly ClusterStatus[];
  readonly services: readonly ServiceStatus[];
  /** Links between members that pass nothing. Undefined if these were not checked. */
  readonly links?: readonly CutLink[];
  /** Exports that members withdrew, as those of weight 0. */
  readonly withdrawn: readonly WithdrawnExport[];
  /** Namespaces of services into which members cannot import. */
  readonly absentNamespaces: readonly AbsentNamespace[];
  /** ClusterMeshProfiles. */
  readonly networks: readonly NetworkStatus[];
}

interface NetworkStatus {
  readonly profile: string;
  readonly mode: NetworkMode;
  readonly members: number;
  /** What is wrong; empty if nothing is. */
  readonly problems: readonly string[];
}

export interface ClusterStatus {
  readonly name: string;
  readonly joined: "True" | "False" | "Unknown";
  readonly healthy: "True" | "False" | "Unknown";
  /** The network that its InternalMemberCluster names, if any. */
  readonly network?: { readonly profile: string; readonly mode: NetworkMode };
  /** The mode of its drain, if any. */
  readonly drained?: DrainMode;
  /** Why it is not joined or not healthy. */
  readonly message: string;
  readonly exports: number;
  readonly imports: number;
  readonly endpoints: number;
  /** Those of them that new requests are sent to: without those of weight 0, and of drained members where others serve. */
  readonly serving: number;
  /** Exports of this member that cannot be, each with the reason. */
  readonly invalidExports: readonly string[];
  /** Why node agents of this member do not do their part. */
  readonly nodeProblems: readonly string[];
  /** When it last reported. RFC 3339. */
  readonly lastSync: string | undefined;
  readonly since: string | undefined;
}

export interface ServiceStatus {
  readonly namespace: string;
  readonly name: string;
  readonly type: string;
  /** As "http:TCP/80". */
  readonly ports: readonly string[];
  readonly exports: readonly ExportStatus[];
  readonly importedBy: readonly string[];
  /** The member whose MultiClusterService has it. */
  readonly loadBalancer: string | undefined;
  readonly endpoints: number;
  /** As in `ClusterStatus`. */
  readonly serving: number;
}

export interface FleetSnapshot {
  readonly members: readonly MemberCluster[];
  readonly leases: readonly Lease[];
  readonly exports: readonly InternalServiceExport[];
  readonly sliceExports: readonly EndpointSliceExport[];
  readonly serviceImports: readonly FleetServiceImport[];
  readonly importedServices: readonly ImportedService[];
  readonly reports: readonly NamespaceReport[];
  readonly internalMembers: readonly InternalMemberCluster[];
  readonly profiles: readonly ClusterMeshProfile[];
  /** In mailboxes, and copies in views. */
  readonly gateways: readonly Gateway[];
}

export async function readFleet(hub: KubeClient, signal: AbortSignal): Promise<FleetSnapshot> {
  const [
    members,
    leases,
    exports,
    sliceExports,
    serviceImports,
    importedServices,
    reports,
    ofMembers,
    profiles,
    gateways,
  ] = await Promise.all([
    hub.list(MEMBER_CLUSTERS, { signal }),
    hub.list(LEASES, { signal }),
    hub.list(INTERNAL_SERVICE_EXPORTS, { signal }),
    hub.list(ENDPOINT_SLICE_EXPORTS, { signal }),
    hub.list(FLEET_SERVICE_IMPORTS, { signal }),
    hub.list(IMPORTED_SERVICES, { signal }),
    hub.list(NAMESPACE_REPORTS, { signal }),
    hub.list(INTERNAL_MEMBER_CLUSTERS, { signal }),
    // An older hub does not have these kinds.
    hub.list(CLUSTER_MESH_PROFILES, { signal }).catch(orNone),
    hub.list(GATEWAYS, { signal }).catch(orNone),
  ]);
  return {
    members: members.items,
    leases: leases.items,
    exports: exports.items,
    sliceExports: sliceExports.items,
    serviceImports: serviceImports.items,
    importedServices: importedServices.items,
    reports: reports.items,
    internalMembers: ofMembers.items,
    profiles: profiles.items,
    gateways: gateways.items,
  };
}

/** For kinds that older hubs do not have. */
export function orNone(error: unknown): { readonly items: [] } {
  if (!hasCode(error, "API_NOT_FOUND")) throw error;
  return { items: [] };
}

export function summarizeFleet(snapshot: FleetSnapshot): FleetStatus {
  const endpoints = countEndpoints(snapshot.sliceExports);
  const unserved = unservedExports(snapshot.members);
  const services = summarizeServices(snapshot, {
    endpoints: endpoints.byExport,
    slices: Map.groupBy(snapshot.sliceExports, exportOfSlice),
    refusing: refusedBy(snapshot.leases, membersThatRenew(snapshot.members)),
    unserved,
  });
  const known = services.flatMap((it) => it.exports.map((at) => `${at.cluster}/${it.namespace}/${it.name}`));
  const { exports, reports } = snapshot;
  const exportsOf = Map.groupBy(snapshot.exports, (it) => it.metadata.namespace ?? "");
  const imports = countImports(snapshot);
  const drains: Drains = new Map(drainedMembers(snapshot.members).map((it) => [it.cluster, it.mode]));
  const leases = new Map(snapshot.leases.map((it) => [`${it.metadata.namespace}/${it.metadata.name}`, it]));
  const networks = new Map(snapshot.internalMembers.map((it) => [it.metadata.name, it.spec.network]));
  return {
    absentNamespaces: absentNamespaces(exports, reports),
    withdrawn: withdrawnExports(unserved, new Set(known)),
    networks: snapshot.profiles.map(summarizeNetwork).toSorted((a, b) => byNaturalText(a.profile, b.profile)),
    clusters: snapshot.members
      .map((member) => {
        const name = member.metadata.name;
        const mailbox = mailboxOf(name);
        const drained = drainModeOf(member);
        const network = networks.get(name);
        return {
          ...healthOf(member),
          ...defined({ network, drained }),
          name,
          exports: exportsOf.get(mailbox)?.length ?? 0,
          imports: imports.get(name) ?? 0,
          endpoints: endpoints.byCluster.get(name) ?? 0,
          serving: services.reduce((sum, it) => sum + (servingOf(it, drains).get(name) ?? 0), 0),
          invalidExports: (member.status?.agentStatus ?? []).flatMap(invalidExportsOf),
          nodeProblems: (member.status?.agentStatus ?? []).flatMap(nodeProblemsOf),
          lastSync: lastSync(member, leases.get(`${mailbox}/${name}`)),
          since: member.metadata.creationTimestamp,
        };
      })
      .toSorted((a, b) => byNaturalText(a.name, b.name)),
    services: services.map((it) => ({
      ...it,
      serving: [...servingOf(it, drains).values()].reduce((sum, count) => sum + count, 0),
    })),
  };
}

/** The services of one namespace; of hub, clusters and networks all. */
export function inNamespace(status: FleetStatus, namespace: string): FleetStatus {
  return {
    ...status,
    services: status.services.filter((it) => it.namespace === namespace),
    absentNamespaces: status.absentNamespaces.filter((it) => it.namespace === namespace),
    withdrawn: status.withdrawn.filter((it) => it.namespace === namespace),
  };
}

/** @param nowMs - Unit: milliseconds since the Unix epoch. */
export function findCutLinks(snapshot: FleetSnapshot, nowMs: number): readonly CutLink[] {
  return cutLinks(snapshot.leases, summarizePaths(snapshot, nowMs), membersThatRenew(snapshot.members));
}

function membersThatRenew(members: readonly MemberCluster[]): ReadonlySet<string> {
  return new Set(members.filter((it) => healthOf(it).healthy === "True").map((it) => it.metadata.name));
}

function summarizeNetwork({ metadata, spec, status }: ClusterMeshProfile): NetworkStatus {
  const isWrong = (it: Condition): boolean =>
    (it.type === "Ready" && it.status === "False") || (it.type === "Conflict" && it.status === "True");
  return {
    profile: metadata.name,
    mode: spec.network.mode,
    members: status?.members ?? 0,
    problems: (status?.conditions ?? []).filter(isWrong).map((it) => `${it.reason}: ${it.message}`),
  };
}

/** Whether hub, members and links are as they should be. What users export is not looked at, nor are drains. */
export function isFleetHealthy({ hub, clusters, links = [] }: FleetStatus): boolean {
  if (hub?.state === "Dead" || links.length > 0) return false;
  return clusters.every((it) => it.message === LEAVING || (it.joined === "True" && it.healthy !== "False"));
}

export const LEAVING = "leaving";

type Drains = ReadonlyMap<string, DrainMode>;

/**
 * The number of endpoints that get new requests, by cluster. A service that only drained clusters export keeps its endpoints,
 * except in clusters that are drained hard.
 */
function servingOf({ exports }: Pick<ServiceStatus, "exports">, drains: Drains): ReadonlyMap<string, number> {
  const ready = exports.filter((it) => it.usable > 0 && drains.get(it.cluster) !== "Hard");
  const open = ready.filter((it) => !drains.has(it.cluster));
  return new Map((open.length > 0 ? open : ready).map((it) => [it.cluster, it.usable]));
}

function invalidExportsOf({ conditions }: AgentStatus): readonly string[] {
  const invalid = conditions?.find((it) => it.type === EXPORTS_VALID && it.status === "False");
  return invalid === undefined ? [] : invalid.message.split("\n");
}

/** Clusters without node agents, or with a plugin that enforces policies, may be meant to be so. */
const NODE_PROBLEMS: ReadonlySet<string> = new Set(["NodesWithoutAgent", "NodesFailing", "NodesNotReady"]);

function nodeProblemsOf({ conditions = [] }: AgentStatus): readonly string[] {
  return conditions
    .filter(
      ({ type, status, reason }) => NODE_TYPES.has(type) && status === "False" && NODE_PROBLEMS.has(reason),
    )
    .map((it) => it.message);
}

const NODE_TYPES: ReadonlySet<string> = new Set([NODE_AGENTS_CONDITION, CROSS_CLUSTER_POLICY]);

/** The members that import a service: the owner of its member namespace, or members that read the view and have its namespace. */
function importersOf(
  { metadata, spec }: ImportedService,
  reports: readonly NamespaceReport[],
): readonly string[] {
  const owner = clusterOfMailbox(metadata.namespace);
  if (owner !== undefined) return [owner];
  return reports
    .filter(
      (it) => it.spec.view === metadata.namespace && it.spec.namespaces.includes(spec.service.namespace),
    )
    .map((it) => it.metadata.name);
}

function countImports({ importedServices, reports }: FleetSnapshot): ReadonlyMap<string, number> {
  const services = new Map<string, Set<string>>();
  for (const it of importedServices)
    for (const cluster of importersOf(it, reports))
      services.set(cluster, (services.get(cluster) ?? new Set()).add(serviceKey(it.spec.service)));
  return new Map([...services].map(([cluster, keys]) => [cluster, keys.size]));
}

function healthOf(member: MemberCluster): Pick<ClusterStatus, "joined" | "healthy" | "message"> {
  const find = (type: string) => member.status?.conditions?.find((it) => it.type === type);
  const [joined, healthy] = [find("Joined"), find("Healthy")];
  const wrong = [joined, healthy].find((it) => it?.status !== "True");
  return {
    joined: joined?.status ?? "Unknown",
    healthy: healthy?.status ?? "Unknown",
    message: member.metadata.deletionTimestamp === undefined ? (wrong?.message ?? "") : LEAVING,
  };
}

function lastSync(member: MemberCluster, lease: Lease | undefined): string | undefined {
  const received = (member.status?.agentStatus ?? []).flatMap((it) => it.lastReceivedHeartbeat ?? []);
  return [lease?.spec?.renewTime ?? [], received].flat().toSorted(byNaturalText).at(-1);
}

/** As "cluster/namespace/name". */
function exportOfSlice({ metadata, spec: { ownerServiceReference: of } }: EndpointSliceExport): string {
  return `${clusterOfMailbox(metadata.namespace) ?? ""}/${of.namespace}/${of.name}`;
}

interface Counts {
  readonly byCluster: ReadonlyMap<string, number>;
  /** By "cluster/namespace/name". */
  readonly byExport: ReadonlyMap<string, number>;
}

/** Endpoints that may get traffic. A dual-stack pod is in a slice of each family, and counts once. */
function countEndpoints(slices: readonly EndpointSliceExport[]): Counts {
  const perFamily = new Map<string, Map<string, number>>();
  for (const slice of slices) {
    const key = exportOfSlice(slice);
    const counts = perFamily.get(key) ?? new Map<string, number>();
    perFamily.set(key, counts);
    const ready = slice.spec.endpoints.filter((it) => it.conditions?.ready !== false).length;
    counts.set(slice.spec.addressType, (counts.get(slice.spec.addressType) ?? 0) + ready);
  }
  const byExport = new Map([...perFamily].map(([key, counts]) => [key, Math.max(...counts.values())]));
  const byCluster = new Map<string, number>();
  for (const [key, count] of byExport) {
    const cluster = key.slice(0, key.indexOf("/"));
    byCluster.set(cluster, (byCluster.get(cluster) ?? 0) + count);
  }
  return { byCluster, byExport };
}

function summarizeServices(
  snapshot: FleetSnapshot,
  found: FoundOfExports,
): readonly Omit<ServiceStatus, "serving">[] {
  const imports = new Map(snapshot.serviceImports.map((it) => [serviceKey(it.metadata), it]));
  const views = Map.groupBy(snapshot.importedServices, (it) => serviceKey(it.spec.service));
  const exports = Map.groupBy(
    snapshot.exports.filter((it) => it.spec !== undefined),
    (it) => serviceKey(it.spec?.serviceReference ?? { name: "" }),
  );
  return [...exports]
    .toSorted(([a], [b]) => byNaturalText(a, b))
    .map(([key, objects]) =>
      summarizeService(key, {
        views: views.get(key) ?? [],
        importedBy: new Set((views.get(key) ?? []).flatMap((it) => importersOf(it, snapshot.reports))),
        imported: imports.get(key),
        exported: objects.map((it) => summarizeExport(it, found)),
      }),
    );
}

function summarizeService(
  key: string,
  of: {
    readonly views: readonly ImportedService[];
    readonly importedBy: ReadonlySet<string>;
    readonly imported: FleetServiceImport | undefined;
    readonly exported: readonly ExportStatus[];
  },
): Omit<ServiceStatus, "serving"> {
  const { views, importedBy, imported, exported } = of;
  const slash = key.indexOf("/");
  // There is none where all exports are meant for members without the namespace.
  const view = views[0]?.spec ?? imported?.status ?? {};
  return {
    namespace: key.slice(0, slash),
    name: key.slice(slash + 1),
    type: view.type ?? "",
    ports: (view.ports ?? []).map(showPort),
    exports: exported.toSorted((a, b) => byNaturalText(a.cluster, b.cluster)),
    importedBy: [...importedBy].toSorted(byNaturalText),
    loadBalancer: balancersOf(imported?.metadata.annotations?.[SERVICE_IN_USE_BY_ANNOTATION]),
    endpoints: exported.reduce((sum, it) => sum + it.endpoints, 0),
  };
}

function balancersOf(annotation: string | undefined): string | undefined {
  const clusters = parseClaims(annotation).map((it) => it.cluster);
  return clusters.length === 0 ? undefined : clusters.join(",");
}

function showPort({ name, protocol = "TCP", port }: ServiceImportPort): string {
  return `${name === undefined ? "" : `${name}:`}${protocol}/${port}`;
}

function serviceKey(of: { readonly namespace?: string; readonly name: string }): string {
  return `${of.namespace ?? ""}/${of.name}`;
}
