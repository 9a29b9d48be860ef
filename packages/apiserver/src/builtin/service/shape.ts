import type { IPFamily, Service, ServicePort, ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import type { ApiObject } from "#values/object.ts";

/** Properties of Services that the rules depend on. Source: k8s.io/kubernetes, pkg/registry/core/service/storage. */

export const HEADLESS = "None";

/** The spec of a Service, made when absent. */
export function specOf(object: ApiObject & Service): ServiceSpec {
  object.spec ??= {};
  return object.spec;
}

export function portsOf(spec: ServiceSpec): readonly ServicePort[] {
  return spec.ports ?? [];
}

export function isHeadless(spec: ServiceSpec): boolean {
  return spec.clusterIPs?.[0] === HEADLESS || (spec.clusterIPs === undefined && spec.clusterIP === HEADLESS);
}

export function hasSelector(spec: ServiceSpec): boolean {
  return Object.keys(spec.selector ?? {}).length > 0;
}

export function needsClusterIp(spec: ServiceSpec): boolean {
  return spec.type === "ClusterIP" || spec.type === "NodePort" || spec.type === "LoadBalancer";
}

/** Whether its ports may be held on nodes. */
export function isOnNodes({ type }: ServiceSpec): boolean {
  return type === "NodePort" || type === "LoadBalancer";
}

/** Whether a port on nodes is given to each of its ports. */
export function needsNodePort(spec: ServiceSpec): boolean {
  if (spec.type === "NodePort") return true;
  return spec.type === "LoadBalancer" && spec.allocateLoadBalancerNodePorts !== false;
}

export function needsHealthCheckNodePort(spec: ServiceSpec): boolean {
  return spec.type === "LoadBalancer" && spec.externalTrafficPolicy === "Local";
}

/** Whether clients outside of the cluster can reach it. */
export function isExternallyAccessible(spec: ServiceSpec): boolean {
  if (isOnNodes(spec)) return true;
  return spec.type === "ClusterIP" && (spec.externalIPs ?? []).length > 0;
}

export function otherFamily(family: IPFamily): IPFamily {
  return family === "IPv4" ? "IPv6" : "IPv4";
}

/** Every port on the nodes that the Service holds, the one for health checks included; an ExternalName may name some, and holds none. */
export function nodePortsOf(spec: ServiceSpec): readonly number[] {
  if (spec.type === "ExternalName") return [];
  const ports = portsOf(spec).map((it) => it.nodePort ?? 0);
  return [...ports, spec.healthCheckNodePort ?? 0].filter((it) => it > 0);
}

/** The addresses of the Service; none for headless ones. */
export function clusterIpsOf(spec: ServiceSpec): readonly string[] {
  return (spec.clusterIPs ?? []).filter((it) => it !== HEADLESS && it !== "");
}
