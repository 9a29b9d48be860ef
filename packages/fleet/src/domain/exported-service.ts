import { isObject } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import type { IPFamily, Protocol, Service, ServicePort } from "@fairlead/kube/api/core/v1/types.ts";
import { MCS_GROUP } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  type ExportDoor,
  FLEET_NETWORKING_GROUP,
  type InternalServiceExport,
  type InternalServiceExportSpec,
  type LocalityAffinity,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { GLOBAL_SERVICE_GROUP } from "./global-service.ts";
import { loadBalancerFacts } from "./load-balancer.ts";

/**
 * The one model of an exported service that the middle of the pipeline works on. Each API is translated to and from it:
 * InternalServiceExports carry it to the hub.
 */
export interface ExportedService {
  readonly cluster: string;
  readonly namespace: string;
  readonly name: string;
  readonly headless: boolean;
  readonly ports: readonly ModelPort[];
  /** Fleet API: whether ports are united with those of other clusters, where this export is the oldest. */
  readonly unitesPorts: boolean;
  readonly ipFamilies: readonly IPFamily[];
  readonly sessionAffinity: "None" | "ClientIP" | undefined;
  /** Unit: seconds. */
  readonly affinityTimeoutSeconds: number | undefined;
  readonly internalTrafficPolicy: "Cluster" | "Local" | undefined;
  readonly trafficDistribution: string | undefined;
  /** Share of the requests. Undefined: 1. */
  readonly weight: number | undefined;
  /** Lower serves first. Undefined: 0. */
  readonly priority: number | undefined;
  /** Undefined if the export does not specify it. */
  readonly affinity: LocalityAffinity | undefined;
  /** The members that import from this cluster. Undefined: all. */
  readonly exportTo: readonly string[] | undefined;
  /** What exports it, of one API each: ServiceExports, and the Service itself. Never empty. Sorted by API. */
  readonly apis: readonly ApiExport[];
  /** The oldest ServiceExport's creation: who is oldest wins. RFC 3339. */
  readonly createdAt: string;
}

export interface ModelPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  readonly appProtocol: string | undefined;
  readonly targetPort: number | string | undefined;
}

/** "global": annotations of the Service itself. */
type ExportApi = "fleet" | "mcs" | "global";

export interface ApiExport {
  readonly api: ExportApi;
  readonly createdAt: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

const GROUP_OF: Readonly<Record<ExportApi, string>> = {
  fleet: FLEET_NETWORKING_GROUP,
  mcs: MCS_GROUP,
  global: GLOBAL_SERVICE_GROUP,
};
const APIS: ReadonlyMap<string, ExportApi> = new Map(
  (["fleet", "mcs", "global"] as const).map((api) => [GROUP_OF[api], api]),
);

/** Parses an InternalServiceExport. Undefined if it has no spec. */
export function readExport(object: InternalServiceExport): ExportedService | undefined {
  const spec = object.spec;
  if (spec === undefined) return undefined;
  const fallback: ApiExport = {
    api: "fleet",
    createdAt: object.metadata.creationTimestamp ?? "",
    labels: {},
    annotations: {},
  };
  const known = (spec.doors ?? []).flatMap(readDoor).toSorted((a, b) => byText(a.api, b.api));
  const apis = known.length === 0 ? [fallback] : known;
  return {
    cluster: spec.serviceReference.clusterId,
    namespace: spec.serviceReference.namespace,
    name: spec.serviceReference.name,
    headless: spec.headless === true,
    ports: spec.ports.map(readPort),
    unitesPorts: spec.portPolicy === "Union",
    ipFamilies: spec.ipFamilies ?? [],
    sessionAffinity: spec.sessionAffinity,
    affinityTimeoutSeconds: spec.sessionAffinityConfig?.clientIP?.timeoutSeconds,
    internalTrafficPolicy: spec.internalTrafficPolicy,
    trafficDistribution: spec.trafficDistribution,
    weight: spec.weight,
    priority: spec.priority,
    affinity: spec.affinity,
    exportTo: spec.exportTo,
    apis,
    createdAt: apis.map((it) => it.createdAt).toSorted(byText)[0] ?? "",
  };
}

function readDoor(door: ExportDoor): ApiExport[] {
  const api = APIS.get(door.group);
  if (api === undefined) return [];
  return [
    {
      api,
      createdAt: door.createdAt,
      labels: door.exportedLabels ?? {},
      annotations: door.exportedAnnotations ?? {},
    },
  ];
}

export function readPort(port: ServicePort): ModelPort {
  return {
    name: port.name ?? "",
    protocol: port.protocol ?? "TCP",
    port: port.port,
    appProtocol: port.appProtocol,
    targetPort: port.targetPort,
  };
}

/** Whether the Service is global in its cluster, and shared. */
export function isGlobalExport({ apis }: Pick<ExportedService, "apis">): boolean {
  return apis.some((it) => it.api === "global");
}

/** The facts of a Service for its InternalServiceExport; the reference and what steers traffic are the caller's. */
export function writeExportFacts(
  service: Service,
  apis: readonly ApiExport[],
): Omit<InternalServiceExportSpec, "serviceReference" | "weight"> {
  const spec = service.spec ?? {};
  const timeoutSeconds = spec.sessionAffinityConfig?.clientIP?.timeoutSeconds;
  return {
    ports: (spec.ports ?? []).map((it) => ({
      ...(it.name === undefined || it.name === "" ? {} : { name: it.name }),
      protocol: it.protocol ?? "TCP",
      ...(it.appProtocol === undefined ? {} : { appProtocol: it.appProtocol }),
      port: it.port,
      ...(it.targetPort === undefined ? {} : { targetPort: it.targetPort }),
    })),
    type: spec.type ?? "ClusterIP",
    ...loadBalancerFacts(service),
    doors: apis.map(writeDoor),
    headless: spec.clusterIP === "None",
    ...(spec.ipFamilies === undefined ? {} : { ipFamilies: spec.ipFamilies }),
    ...(spec.sessionAffinity === undefined ? {} : { sessionAffinity: spec.sessionAffinity }),
    ...(timeoutSeconds === undefined ? {} : { sessionAffinityConfig: { clientIP: { timeoutSeconds } } }),
    ...(spec.internalTrafficPolicy === undefined
      ? {}
      : { internalTrafficPolicy: spec.internalTrafficPolicy }),
    ...(spec.trafficDistribution === undefined ? {} : { trafficDistribution: spec.trafficDistribution }),
  };
}

function writeDoor(exported: ApiExport): ExportDoor {
  return {
    group: GROUP_OF[exported.api],
    createdAt: exported.createdAt,
    ...(isEmpty(exported.labels) ? {} : { exportedLabels: { ...exported.labels } }),
    ...(isEmpty(exported.annotations) ? {} : { exportedAnnotations: { ...exported.annotations } }),
  };
}

function isEmpty(value: unknown): boolean {
  return !isObject(value) || Object.keys(value).length === 0;
}

/** Oldest first; equal seconds by cluster name, so that every hub orders them alike. */
export function byAge(a: ExportedService, b: ExportedService): number {
  return byText(a.createdAt, b.createdAt) || byText(a.cluster, b.cluster);
}

/** Whether a member imports from the cluster of this export: it does always from itself. */
export function isFor({ cluster, exportTo }: ExportedService, member: string): boolean {
  return exportTo === undefined || cluster === member || exportTo.includes(member);
}
