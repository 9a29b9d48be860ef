import { defined } from "@fairlead/base/defined.ts";
import type { Service, ServicePort } from "@fairlead/kube/api/core/v1/types.ts";
import {
  type EndpointSlice,
  MANAGED_BY_LABEL,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { type ObjectKey, keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { GLOBAL_SERVICE_LABEL, GLOBAL_SLICE_MANAGER, TRAFFIC_ANNOTATIONS } from "#api/fairlead.dev/names.ts";
import { readinessOfEndpoints } from "#domain/eligible.ts";
import { chooseSides, isGlobalService, type SideHealth, sliceWeight } from "#domain/global-service.ts";
import type { NodePlace, SliceShare } from "../service-proxy/backends.ts";
import { type PlannedElement, planService } from "../service-proxy/plan.ts";
import { GLOBAL_SETS } from "./table.ts";

/**
 * The elements of one global Service in the node's own table: of those that ask for what the cluster's service proxy cannot do. The
 * member decides that, and the slices say so. Pure.
 */

export interface GlobalView {
  readonly service: Service;
  /** Of the Service, and those that only this agent reads. */
  readonly slices: readonly EndpointSlice[];
  /** Its addresses are those of NodePorts. */
  readonly node: NodePlace & { readonly addresses: readonly string[] };
}

/** Headless Services have no virtual address, so that their slices do not matter. */
export function serviceOfSlice({ metadata: { namespace, labels } }: EndpointSlice): ObjectKey | undefined {
  const name = labels?.[GLOBAL_SERVICE_LABEL] ?? labels?.[SERVICE_NAME_LABEL];
  return name === undefined ? undefined : objectKey(namespace, name);
}

function isRemote({ metadata: { labels } }: EndpointSlice): boolean {
  return labels?.[MANAGED_BY_LABEL] === GLOBAL_SLICE_MANAGER;
}

export function planGlobalService({ service, slices, node }: GlobalView): readonly PlannedElement[] {
  if (!needsAgent(service, slices)) return [];
  const {
    clusterIP,
    clusterIPs = clusterIP === undefined ? [] : [clusterIP],
    ports = [],
  } = service.spec ?? {};
  const prefersOthers = prefersRemote(slices);
  const elements = clusterIPs.flatMap((address) =>
    ports.flatMap((port) =>
      planService({
        service: withOnly(service, address, port),
        slices: usedSlices(slicesAt(slices, address, port), prefersOthers),
        node,
        ...(slices.some(hasWeight) ? { shareOf } : {}),
      }),
    ),
  );
  return elements.filter((it) => GLOBAL_SETS.has(it.set));
}

/**
 * One of its addresses and ports: which clusters are used is decided for each. Where NodePorts lead to pods of the own node only, the
 * cluster's proxy has all of these.
 */
function withOnly({ metadata, spec = {} }: Service, address: string, port: ServicePort): Service {
  const { sessionAffinity, sessionAffinityConfig, internalTrafficPolicy, externalTrafficPolicy } = spec;
  const hasNodePort = port.nodePort !== undefined && externalTrafficPolicy !== "Local";
  return {
    metadata,
    spec: {
      clusterIPs: [address],
      ports: [port],
      ...(hasNodePort ? { type: "NodePort" as const } : {}),
      ...defined({ sessionAffinity, sessionAffinityConfig, internalTrafficPolicy }),
    },
  };
}

function slicesAt(
  slices: readonly EndpointSlice[],
  address: string,
  { name = "" }: ServicePort,
): EndpointSlice[] {
  const family = address.includes(":") ? "IPv6" : "IPv4";
  return slices.filter(
    (it) => it.addressType === family && it.ports?.some((port) => (port.name ?? "") === name) === true,
  );
}

/** Without those in maintenance. */
function usedSlices(slices: readonly EndpointSlice[], prefersOthers: boolean): EndpointSlice[] {
  const open = slices.filter((it) => !isInMaintenance(it));
  if (!prefersOthers) return open;
  const health = (isSide: (it: EndpointSlice) => boolean): SideHealth => {
    const found = new Set(open.filter(isSide).map((it) => readinessOfEndpoints(it.endpoints, () => true)));
    return { isActive: found.has("ready"), isHealthy: found.has("ready") || found.has("serving") };
  };
  const sides = chooseSides(
    "remote",
    health((it) => !isRemote(it)),
    health(isRemote),
  );
  return open.filter((it) => (isRemote(it) ? sides.remote : sides.local));
}

/** The weight is that of each endpoint. */
function shareOf(slice: EndpointSlice): SliceShare {
  const usable = slice.endpoints.filter(({ conditions }) => conditions?.ready !== false).length;
  return {
    group: keyOf(slice),
    weight: (sliceWeight(slice.metadata.annotations) ?? 1) * Math.max(1, usable),
  };
}

/** Whether other service proxies see too much, too little, or weights that they do not know. */
function needsAgent(service: Service, slices: readonly EndpointSlice[]): boolean {
  if (isGlobalService(service) && slices.some(isInMaintenance)) return true;
  const remote = slices.filter(isRemote);
  const isHidden = remote.some((it) => it.metadata.labels?.[SERVICE_NAME_LABEL] === undefined);
  return remote.length > 0 && (isHidden || prefersRemote(slices) || slices.some(hasWeight));
}

function isInMaintenance({ metadata: { annotations } }: EndpointSlice): boolean {
  return sliceWeight(annotations) === 0;
}

/** Whether the slice may ask for something that only this agent does. */
export function mayNeedAgent(slice: EndpointSlice): boolean {
  return isRemote(slice) || isInMaintenance(slice);
}

function hasWeight({ metadata: { annotations } }: EndpointSlice): boolean {
  return sliceWeight(annotations) !== undefined;
}

/** The affinity that the member carries out: that of the Service, but while its cluster is drained. */
function prefersRemote(slices: readonly EndpointSlice[]): boolean {
  return slices.some(
    (it) => isRemote(it) && it.metadata.annotations?.[TRAFFIC_ANNOTATIONS.affinity] === "remote",
  );
}
