/**
 * The way of a service through the fleet as its planners see it, without API servers: what each member sends, what the
 * hub decides, what each member makes of it.
 */

import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { ImportedService } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import {
  MCS_DERIVED_SERVICE_ANNOTATION,
  MCS_SOURCE_CLUSTER_LABEL,
  type ServiceExport,
  type ServiceImport,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import type { InternalServiceExport } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { MANAGED_BY_LABEL } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { planService } from "@fairlead/fleet/hub/services/plan.ts";
import { planImportedSlices } from "@fairlead/fleet/member/endpoints/import-plan.ts";
import { planExport } from "@fairlead/fleet/member/exports/plan.ts";
import { planDerivedService, planMcsImport } from "@fairlead/fleet/member/imports/mcs-import-plan.ts";
import type { Applied } from "@fairlead/kube/types.ts";
import {
  CONFLICT_REASONS,
  type ConflictReason,
  type OracleExport,
  showPort,
  type Verdict,
} from "./oracle.ts";

const NAMESPACE = "work";
const NAME = "hello";

/** What the planners make of it, in the oracle's words. */
export interface Outcome extends Verdict {
  /** By cluster: whether its export has a conflict. */
  readonly isReported: ReadonlyMap<string, boolean>;
  /** The Service that carries the VIP; undefined for headless imports. */
  readonly derived: Applied<Service> | undefined;
}

function serviceOf(it: OracleExport): Service | undefined {
  if (it.service === "none") return undefined;
  return {
    metadata: { namespace: NAMESPACE, name: NAME, uid: `service-${it.cluster}`, labels: { own: "label" } },
    spec: {
      type: it.service === "ExternalName" ? "ExternalName" : "ClusterIP",
      ...(it.service === "Headless" ? { clusterIP: "None" } : {}),
      ports: it.ports.map(({ name, appProtocol, ...port }) => ({
        ...port,
        ...(name === "" ? {} : { name }),
        ...(appProtocol === undefined ? {} : { appProtocol }),
        targetPort: port.port + 8000,
      })),
      ipFamilies: [...it.families],
      sessionAffinity: it.sessionAffinity,
      ...(it.affinityTimeout === undefined
        ? {}
        : { sessionAffinityConfig: { clientIP: { timeoutSeconds: it.affinityTimeout } } }),
      internalTrafficPolicy: it.internalTrafficPolicy,
      ...(it.trafficDistribution === undefined ? {} : { trafficDistribution: it.trafficDistribution }),
    },
  };
}

function dateOf({ createdAt }: OracleExport): string {
  return new Date(createdAt * 1000).toISOString().replace(".000Z", "Z");
}

function exportOf(it: OracleExport): ServiceExport {
  return {
    metadata: {
      namespace: NAMESPACE,
      name: NAME,
      labels: { own: "label" },
      creationTimestamp: dateOf(it),
    },
    spec: { exportedLabels: it.exportedLabels, exportedAnnotations: it.exportedAnnotations },
  };
}

/** What its agent sends to the hub. */
export function sent(it: OracleExport): InternalServiceExport | undefined {
  const view = { namespace: NAMESPACE, name: NAME, fleet: undefined, current: undefined };
  const { spec } = planExport({ ...view, mcs: exportOf(it), service: serviceOf(it) });
  if (spec === undefined) return undefined;
  const service = { namespace: NAMESPACE, name: NAME, namespacedName: `${NAMESPACE}/${NAME}` };
  const version = { kind: "Service", uid: "u", resourceVersion: "1", generation: 1 };
  return {
    metadata: {
      namespace: `fleet-member-${it.cluster}`,
      name: `${NAMESPACE}-${NAME}`,
      creationTimestamp: dateOf(it),
    },
    spec: { ...spec, serviceReference: { clusterId: it.cluster, ...service, ...version } },
  };
}

/** Takes the exports of a service all the way. */
export function runPipeline(exports: readonly OracleExport[]): Outcome {
  const all = new Map(exports.map((it) => [it.cluster, sent(it)] as const));
  const plan = planService({
    exports: [...all.values()].filter((it) => it !== undefined),
    imports: [],
    serviceImport: undefined,
    members: new Set(exports.map((it) => it.cluster)),
  });
  const answered = exports.map((it) => {
    const object = all.get(it.cluster);
    const planned = plan.exports.find((one) => one.object === object);
    const current =
      object === undefined || planned === undefined
        ? undefined
        : { ...object, status: { conditions: planned.conditions.map((one) => dated(one)) } };
    const view = { namespace: NAMESPACE, name: NAME, fleet: undefined, current };
    const { mcs = [] } = planExport({ ...view, mcs: exportOf(it), service: serviceOf(it) });
    return { cluster: it.cluster, conditions: mcs };
  });
  const { everyone } = plan.audiences.get("") ?? {};
  const spec =
    everyone === undefined ? undefined : { ...everyone, service: { namespace: NAMESPACE, name: NAME } };
  return { ...readConditions(answered), ...readImport(spec, exports) };
}

function dated(condition: NewCondition): Condition {
  return { ...condition, lastTransitionTime: "2026-01-01T00:00:00Z" };
}

function readConditions(
  answered: readonly { readonly cluster: string; readonly conditions: readonly NewCondition[] }[],
): Pick<Outcome, "valid" | "conflicts" | "isReported"> {
  const find = (of: readonly NewCondition[], type: string) => of.find((it) => it.type === type);
  const conflicts = answered.map((it) => find(it.conditions, "Conflict"));
  return {
    valid: new Map(
      answered.map((it) => [it.cluster, find(it.conditions, "Valid")?.reason as "Valid"] as const),
    ),
    conflicts: new Set(
      conflicts
        .filter((it) => it?.status === "True")
        .flatMap((it) => it?.reason.split(",") ?? [])
        .map((it) => parseReason(it)),
    ),
    isReported: new Map(answered.map((it, at) => [it.cluster, conflicts[at]?.status === "True"] as const)),
  };
}

function parseReason(text: string): ConflictReason {
  const found = CONFLICT_REASONS.find((it) => it === text);
  if (found === undefined) throw new Error(`${text} is not a reason of KEP-1645`);
  return found;
}

function readImport(
  spec: ImportedService["spec"] | undefined,
  exports: readonly OracleExport[],
): Pick<Outcome, "import" | "servedBy" | "derived"> {
  if (spec === undefined) return { import: undefined, servedBy: new Map(), derived: undefined };
  const written = planMcsImport(spec, undefined);
  const object: ServiceImport = { metadata: { name: NAME, namespace: NAMESPACE, uid: "import" } };
  const isVirtual = spec.type === "ClusterSetIP";
  const derived = isVirtual ? planDerivedService(spec, object, undefined) : undefined;
  const ports = (spec.ports ?? []).map((it) => ({
    name: it.name ?? "",
    protocol: it.protocol ?? "TCP",
    port: it.port,
    appProtocol: it.appProtocol,
  }));
  // What a proxy does: a port of the Service leads to the slices that have a port of its name.
  const proxied = (derived?.spec?.ports ?? spec.ports).map((it) => it.name ?? "");
  const slices = exports.flatMap((it) => importSlice(it, spec, object));
  return {
    derived,
    import: {
      type: spec.type,
      ports: new Set(ports.map((it) => showPort(it))),
      sessionAffinity: spec.sessionAffinity ?? "None",
      affinityTimeout: spec.sessionAffinityConfig?.clientIP?.timeoutSeconds,
      internalTrafficPolicy: spec.internalTrafficPolicy ?? "Cluster",
      trafficDistribution: spec.trafficDistribution,
      labels: without(written.metadata.labels, MANAGED_BY_LABEL),
      annotations: without(written.metadata.annotations, MCS_DERIVED_SERVICE_ANNOTATION),
      clusters: new Set(spec.clusters.map((it) => it.cluster)),
    },
    servedBy: new Map(
      ports.map((port, at) => [
        showPort(port),
        new Set(
          slices
            .filter((slice) => slice.ports?.some((it) => (it.name ?? "") === proxied[at]))
            .map((slice) => slice.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] ?? ""),
        ),
      ]),
    ),
  };
}

/** All but what the implementation itself puts there. */
export function without(
  map: Readonly<Record<string, string | undefined>> | undefined,
  key: string,
): Readonly<Record<string, string>> {
  const pairs = Object.entries(map ?? {}).filter(([name]) => name !== key);
  return Object.fromEntries(pairs.map(([name, value]) => [name, value ?? ""]));
}

/** The slice of an exporting cluster as the importers have it. */
function importSlice(
  it: OracleExport,
  spec: ImportedService["spec"],
  object: ServiceImport,
): ReturnType<typeof planImportedSlices> {
  if (serviceOf(it) === undefined) return [];
  return planImportedSlices({
    source: {
      name: `${it.cluster}-slice`,
      cluster: it.cluster,
      isLocal: false,
      facts: {
        addressType: it.families[0] ?? "IPv4",
        endpoints: [{ addresses: ["10.0.0.1"], conditions: { ready: true } }],
        ports: it.ports.map(({ name, protocol, port }) => ({ name, protocol, port: port + 8000 })),
      },
    },
    isAlive: () => true,
    serves: () => true,
    servesBalanced: () => true,
    mcs: { spec, object },
    loadBalancer: undefined,
  });
}
