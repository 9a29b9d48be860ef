import {
  type Endpoint,
  type EndpointPort,
  type EndpointSlice,
  MANAGED_BY_LABEL as SLICE_MANAGER_LABEL,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import type { Applied } from "@fairlead/kube/types.ts";
import { SLICE_WEIGHT_ANNOTATION } from "#domain/global-service.ts";
import { GLOBAL_SERVICE_LABEL, GLOBAL_SLICE_MANAGER, TRAFFIC_ANNOTATIONS } from "#api/fairlead.dev/names.ts";
import {
  MCS_SERVICE_NAME_LABEL,
  MCS_SOURCE_CLUSTER_LABEL,
} from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { globalSliceName } from "#api/fairlead.dev/cluster-names.ts";
import type { GlobalUse } from "./global-choice.ts";
import type { SourceSlice } from "./import-plan.ts";

/** Slices of a headless Service (well-known label). */
const HEADLESS_LABEL = "service.kubernetes.io/headless";

/** Labels of EndpointSlices that their controllers set; a Service has other reasons for them. */
const SLICE_LABELS: ReadonlySet<string> = new Set([
  SERVICE_NAME_LABEL,
  SLICE_MANAGER_LABEL,
  HEADLESS_LABEL,
  MCS_SERVICE_NAME_LABEL,
  MCS_SOURCE_CLUSTER_LABEL,
  GLOBAL_SERVICE_LABEL,
]);

/**
 * A slice of another cluster next to those of a global Service (docs/adr/0040): with the numbers of the cluster's ports, under its names,
 * by which the Service here finds them. Pure.
 *
 * @param endpointsFor - By the traffic distribution of the Service.
 */
export function planGlobalSlice(
  { name, cluster, facts }: SourceSlice,
  { service, settings, serves, affinity }: GlobalUse,
  endpointsFor: (distribution: string | undefined) => Endpoint[],
): Applied<EndpointSlice> | undefined {
  const { addressType, weight } = facts;
  const ports = servedPorts(facts.ports ?? [], (port) => serves(cluster, addressType, port));
  // In maintenance, or not used.
  if (weight === 0 || ports === undefined) return undefined;
  const { namespace = "", name: serviceName, uid = "" } = service.metadata;
  return {
    metadata: {
      namespace,
      name: globalSliceName(name),
      labels: {
        ...ownLabels(service),
        ...(settings.syncsSlices ? { [SERVICE_NAME_LABEL]: serviceName } : {}),
        [GLOBAL_SERVICE_LABEL]: serviceName,
        [SLICE_MANAGER_LABEL]: GLOBAL_SLICE_MANAGER,
        [MCS_SOURCE_CLUSTER_LABEL]: cluster,
      },
      ...annotationsOf(weight, affinity),
      ownerReferences: [{ apiVersion: "v1", kind: "Service", name: serviceName, uid, controller: false }],
    },
    addressType,
    endpoints: endpointsFor(service.spec?.trafficDistribution),
    ports,
  };
}

/** For the agents of nodes: what other service proxies cannot do. */
function annotationsOf(
  weight: number | undefined,
  affinity: GlobalUse["affinity"],
): { annotations?: Record<string, string> } {
  const annotations = {
    ...(weight === undefined ? {} : { [SLICE_WEIGHT_ANNOTATION]: String(weight) }),
    ...(affinity === "remote" ? { [TRAFFIC_ANNOTATIONS.affinity]: affinity } : {}),
  };
  return Object.keys(annotations).length === 0 ? {} : { annotations };
}

/** Undefined if none is served. A headless Service may have no ports. */
function servedPorts(
  ports: readonly EndpointPort[],
  isServed: (port: string) => boolean,
): EndpointPort[] | undefined {
  const served = ports.filter((it) => isServed(it.name ?? ""));
  const isUsed = ports.length === 0 ? isServed("") : served.length > 0;
  return isUsed ? served : undefined;
}

/** As the controller of EndpointSlices copies them. */
function ownLabels({ metadata: { labels = {} }, spec }: GlobalUse["service"]): Record<string, string> {
  const copied = Object.entries(labels).filter(([key]) => !SLICE_LABELS.has(key));
  return { ...Object.fromEntries(copied), ...(spec?.clusterIP === "None" ? { [HEADLESS_LABEL]: "" } : {}) };
}
