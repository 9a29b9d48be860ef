import type { ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { cloneJson, sameJson } from "@fairlead/base/json.ts";
import {
  isExternallyAccessible,
  isOnNodes,
  needsClusterIp,
  needsHealthCheckNodePort,
  needsNodePort,
  portsOf,
} from "./shape.ts";

/** The fields that an update inherits from the stored Service. Source: k8s.io/kubernetes, pkg/registry/core/service. */

/** Fills in what was allocated before and is missing now: clients that write the whole spec do not know it. */
export function inheritAllocated(spec: ServiceSpec, old: ServiceSpec): void {
  if (needsClusterIp(spec) && needsClusterIp(old)) inheritClusterIps(spec, old);
  if (needsNodePort(spec) && needsNodePort(old)) inheritNodePorts(spec, old);
  if (needsHealthCheckNodePort(spec) && needsHealthCheckNodePort(old)) {
    if ((spec.healthCheckNodePort ?? 0) === 0) copy(spec, old, "healthCheckNodePort");
  }
}

function inheritClusterIps(spec: ServiceSpec, old: ServiceSpec): void {
  if ((spec.clusterIP ?? "") === "") copy(spec, old, "clusterIP");
  if ((spec.clusterIPs ?? []).length === 0) copy(spec, old, "clusterIPs");
}

/** By the name of the port: whatever else of it changed, it keeps its node port unless another port took that. */
function inheritNodePorts(spec: ServiceSpec, old: ServiceSpec): void {
  const before = new Map(portsOf(old).map((it) => [it.name ?? "", it.nodePort ?? 0]));
  const used = new Set(portsOf(spec).map((it) => it.nodePort ?? 0));
  for (const port of portsOf(spec)) {
    if ((port.nodePort ?? 0) !== 0) continue;
    const previous = before.get(port.name ?? "") ?? 0;
    if (previous === 0 || used.has(previous)) continue;
    port.nodePort = previous;
    used.add(previous);
  }
}

/** A need of some types, and what is wiped by a change to a type without it. */
interface TypeDependent {
  readonly has: (spec: ServiceSpec) => boolean;
  readonly fields: readonly (keyof ServiceSpec)[];
}

const TYPE_DEPENDENT: readonly TypeDependent[] = [
  { has: needsClusterIp, fields: ["ipFamilies", "ipFamilyPolicy"] },
  { has: needsHealthCheckNodePort, fields: ["healthCheckNodePort"] },
  {
    has: (it) => it.type === "LoadBalancer",
    fields: ["allocateLoadBalancerNodePorts", "loadBalancerClass"],
  },
  { has: isExternallyAccessible, fields: ["externalTrafficPolicy"] },
];

/** Wipes what the new type has no use for, where the client left it as it was. */
export function dropForType(spec: ServiceSpec, old: ServiceSpec): void {
  if (needsClusterIp(old) && !needsClusterIp(spec) && sameClusterIps(spec, old)) {
    delete spec.clusterIP;
    delete spec.clusterIPs;
  }
  if (isOnNodes(old) && !isOnNodes(spec) && sameNodePorts(spec, old)) {
    for (const port of spec.ports ?? []) delete port.nodePort;
  }
  for (const { has, fields } of TYPE_DEPENDENT) {
    if (has(old) && !has(spec)) dropIfSame(spec, old, ...fields);
  }
}

function sameClusterIps(spec: ServiceSpec, old: ServiceSpec): boolean {
  return sameJson(spec.clusterIPs ?? old.clusterIPs, old.clusterIPs) && spec.clusterIP === old.clusterIP;
}

/** Ports may come, go and change, as long as none brings a node port of its own. */
function sameNodePorts(spec: ServiceSpec, old: ServiceSpec): boolean {
  const before = new Set(portsOf(old).map((it) => it.nodePort ?? 0));
  return portsOf(spec).every((it) => (it.nodePort ?? 0) === 0 || before.has(it.nodePort ?? 0));
}

/** `clusterIP` and `clusterIPs` say the same: clients that know only the first set it alone. */
export function alignClusterIps(spec: ServiceSpec, old: ServiceSpec | undefined): void {
  const ip = spec.clusterIP ?? "";
  const isListed = (spec.clusterIPs ?? []).length > 0;
  if (old === undefined) {
    if (ip !== "" && !isListed) spec.clusterIPs = [ip];
    return;
  }
  const before = old.clusterIP ?? "";
  if (ip === before) {
    if (!isListed) copy(spec, old, "clusterIPs");
  } else if (sameJson(spec.clusterIPs, old.clusterIPs)) {
    if (ip === "") delete spec.clusterIPs;
    else spec.clusterIPs = [ip];
  }
}

function dropIfSame(spec: ServiceSpec, old: ServiceSpec, ...keys: readonly (keyof ServiceSpec)[]): void {
  for (const key of keys) if (sameJson(spec[key], old[key])) delete spec[key];
}

function copy(spec: ServiceSpec, old: ServiceSpec, key: keyof ServiceSpec): void {
  if (old[key] !== undefined) Object.assign(spec, { [key]: cloneJson(old[key]) });
}
