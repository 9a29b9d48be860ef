import { defined } from "@fairlead/base/defined.ts";
import type { IPFamily, Node, Pod, Service, ServicePort } from "@fairlead/kube/api/core/v1/types.ts";
import type { Endpoint, EndpointPort } from "@fairlead/kube/api/discovery/v1/types.ts";
import { byText } from "@fairlead/base/text.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { isReady, isTerminal } from "../pods.ts";
import { familiesOf } from "../services.ts";

/** What a Service's endpoints are to be. Source: k8s.io/endpointslice, and the API documentation of EndpointSlice. */

/** Endpoints that share family and ports, and so may share slices. */
export interface EndpointGroup {
  readonly family: IPFamily;
  readonly ports: readonly EndpointPort[];
  readonly endpoints: readonly Endpoint[];
}

export interface EndpointsView {
  readonly service: Service;
  /** Those that the selector matches. */
  readonly pods: Iterable<Pod>;
  readonly nodeOf: (name: string) => Node | undefined;
}

const ZONE_LABEL = "topology.kubernetes.io/zone";

/** The groups of each family, one for every set of ports: a named target port may differ from pod to pod. */
export function endpointGroups(view: EndpointsView): EndpointGroup[] {
  const groups = new Map<string, EndpointGroup & { endpoints: Endpoint[] }>();
  const families = familiesOf(view.service);
  const pods = [...view.pods].filter((pod) => !isTerminal(pod) && (pod.status?.podIPs ?? []).length > 0);
  for (const pod of pods.toSorted((a, b) => byText(a.metadata.name, b.metadata.name))) {
    const node = view.nodeOf(pod.spec?.nodeName ?? "");
    // The pods of a deleted node no longer run; only their objects remain.
    if (node === undefined && view.service.spec?.publishNotReadyAddresses !== true) continue;
    const ports = portsFor(view.service, pod);
    for (const family of families) {
      const addresses = addressesOf(pod, family);
      if (addresses.length === 0) continue;
      const key = groupKey(family, ports);
      const group = groups.get(key) ?? { family, ports, endpoints: [] };
      group.endpoints.push(endpointOf(view.service, pod, { node, addresses }));
      groups.set(key, group);
    }
  }
  for (const family of families) {
    const isEmpty = [...groups.values()].every((group) => group.family !== family);
    // A slice without endpoints says: the Service is known, and has none.
    if (isEmpty) groups.set(groupKey(family, []), { family, ports: [], endpoints: [] });
  }
  return [...groups.values()];
}

/** Equal for groups whose endpoints may share a slice. */
export function groupKey(family: string, ports: readonly EndpointPort[]): string {
  const texts = ports.map((it) =>
    [it.name ?? "", it.protocol ?? "TCP", it.port, it.appProtocol ?? ""].join("/"),
  );
  return `${family} ${texts.toSorted(byText).join(",")}`;
}

function addressesOf(pod: Pod, family: IPFamily): string[] {
  const isV6 = family === "IPv6";
  return (pod.status?.podIPs ?? []).map((it) => it.ip).filter((ip) => ip.includes(":") === isV6);
}

function portsFor(service: Service, pod: Pod): EndpointPort[] {
  return (service.spec?.ports ?? []).flatMap((port) => {
    const number = targetPort(port, pod);
    // A pod that has no port of that name does not serve this one; it may serve the others.
    if (number === undefined) return [];
    const { name = "", protocol = "TCP", appProtocol } = port;
    return [{ name, protocol, port: number, ...defined({ appProtocol }) }];
  });
}

function targetPort(port: ServicePort, pod: Pod): number | undefined {
  const { targetPort: target = port.port, protocol = "TCP" } = port;
  if (typeof target === "number") return target === 0 ? port.port : target;
  const containers = [...(pod.spec?.containers ?? []), ...(pod.spec?.initContainers ?? [])];
  const named = containers
    .flatMap((container) => container.ports ?? [])
    .find((it) => it.name === target && (it.protocol ?? "TCP") === protocol);
  return named?.containerPort;
}

function endpointOf(
  service: Service,
  pod: Pod,
  at: { readonly node: Node | undefined; readonly addresses: string[] },
): Endpoint {
  const { name, namespace = "", uid = "" } = pod.metadata;
  const conditions = conditionsOf(service, pod);
  const place = placeOf(pod, at.node);
  const hints = conditions.ready ? hintsOf(service, place) : undefined;
  const { hostname = "", subdomain } = pod.spec ?? {};
  return {
    addresses: at.addresses,
    conditions,
    // A name below the Service's name, for a pod that requests it.
    ...(hostname !== "" && subdomain === service.metadata.name ? { hostname } : {}),
    targetRef: { kind: "Pod", namespace, name, uid },
    ...place,
    ...defined({ hints }),
  };
}

function placeOf(pod: Pod, node: Node | undefined): Pick<Endpoint, "nodeName" | "zone"> {
  const { nodeName = "" } = pod.spec ?? {};
  const zone = node?.metadata.labels?.[ZONE_LABEL];
  return { ...(nodeName === "" ? {} : { nodeName }), ...defined({ zone }) };
}

function conditionsOf(service: Service, pod: Pod) {
  const serving = isReady(pod);
  const terminating = isDeleting(pod);
  const ready = service.spec?.publishNotReadyAddresses === true || (serving && !terminating);
  return { ready, serving, terminating };
}

type Hints = Endpoint["hints"] | undefined;

/** `trafficDistribution` (KEP-4444, KEP-3015): each endpoint is for those who are as near to it as the Service asks. */
function hintsOf(service: Service, { zone, nodeName }: Pick<Endpoint, "nodeName" | "zone">): Hints {
  const distribution = service.spec?.trafficDistribution;
  const forZones = zone === undefined ? {} : { forZones: [{ name: zone }] };
  if (distribution === "PreferClose" || distribution === "PreferSameZone")
    return zone === undefined ? undefined : forZones;
  if (distribution !== "PreferSameNode" || nodeName === undefined) return undefined;
  return { ...forZones, forNodes: [{ name: nodeName }] };
}
