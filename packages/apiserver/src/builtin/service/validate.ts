import type { Service, ServicePort, ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { isEndpointAddress } from "@fairlead/base/netaddr/special.ts";
import { checkQualifiedName } from "#values/names.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import {
  duplicate,
  IMMUTABLE,
  invalid,
  notAllowed,
  notSupported,
  required,
  unlessInRange,
  unlessOneOf,
} from "#values/field-errors.ts";
import { address } from "../addresses.ts";
import { validateLabels } from "../labels.ts";
import { dnsLabel, portReference, subdomain } from "../names.ts";
import { validateClusterIps, validateClusterIpsUpdate } from "./validate-ips.ts";
import {
  isExternallyAccessible,
  isHeadless,
  needsClusterIp,
  needsHealthCheckNodePort,
  portsOf,
  specOf,
} from "./shape.ts";

/** Source: k8s.io/kubernetes, pkg/apis/core/validation, `ValidateService`. */

const TYPES = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS = ["SCTP", "TCP", "UDP"];
const POLICIES = ["Cluster", "Local"];
const DISTRIBUTIONS = ["PreferClose", "PreferSameZone", "PreferSameNode"];
const KUBELET_PORT = 10_250;
const ONLY_LOAD_BALANCER = "may only be used when `type` is 'LoadBalancer'";

export function validateService(object: ApiObject & Service): FieldError[] {
  const spec = specOf(object);
  return [
    ...validateType(spec),
    ...validatePorts(spec),
    ...validateLabels(spec.selector, "spec.selector"),
    ...validateAffinity(spec),
    ...validateClusterIps(spec),
    ...validateExternalIps(spec),
    ...validatePolicies(spec),
    ...validateLoadBalancerFields(spec),
  ];
}

export function validateServiceUpdate(object: ApiObject & Service, old: ApiObject & Service): FieldError[] {
  const spec = specOf(object);
  const before = specOf(old);
  const errors = [...validateClusterIpsUpdate(spec, before)];
  const isBalanced = spec.type === "LoadBalancer" && before.type === "LoadBalancer";
  if (isBalanced && spec.loadBalancerClass !== before.loadBalancerClass) {
    errors.push(invalid("spec.loadBalancerClass", spec.loadBalancerClass, "may not change once set"));
  }
  if (
    needsHealthCheckNodePort(spec) &&
    needsHealthCheckNodePort(before) &&
    spec.healthCheckNodePort !== before.healthCheckNodePort
  ) {
    errors.push(notAllowed("spec.healthCheckNodePort", IMMUTABLE));
  }
  return [...errors, ...validateClass(spec), ...validateService(object)];
}

function validateType(spec: ServiceSpec): FieldError[] {
  const errors = unlessOneOf("spec.type", spec.type, TYPES);
  if ((spec.type === "LoadBalancer" || spec.type === "NodePort") && isHeadless(spec)) {
    const detail = `may not be set to 'None' for ${spec.type} services`;
    errors.push(invalid("spec.clusterIPs[0]", "None", detail));
  }
  if (spec.type === "ExternalName") errors.push(...validateExternalName(spec));
  return errors;
}

function validateExternalName(spec: ServiceSpec): FieldError[] {
  const errors: FieldError[] = [];
  const detail = "may not be set for ExternalName services";
  if ((spec.clusterIPs ?? []).length > 0 || (spec.clusterIP ?? "") !== "") {
    errors.push(notAllowed("spec.clusterIPs", detail));
  }
  if ((spec.ipFamilies ?? []).length > 0) errors.push(notAllowed("spec.ipFamilies", detail));
  if (spec.ipFamilyPolicy !== undefined) errors.push(notAllowed("spec.ipFamilyPolicy", detail));
  const name = (spec.externalName ?? "").replace(/\.$/, "");
  if (name === "") return [...errors, required("spec.externalName")];
  return [...errors, ...subdomain(name, "spec.externalName")];
}

function validatePorts(spec: ServiceSpec): FieldError[] {
  const ports = portsOf(spec);
  if (ports.length === 0) {
    return isHeadless(spec) || spec.type === "ExternalName" ? [] : [required("spec.ports")];
  }
  const each = ports.flatMap((port, index) => {
    const path = `spec.ports[${index}]`;
    return [...validatePort(port, path, ports.length > 1), ...validatePortForType(port, path, spec.type)];
  });
  return [...each, ...validateUniquePorts(ports)];
}

function validatePortForType(port: ServicePort, path: string, type: ServiceSpec["type"]): FieldError[] {
  if (type === "LoadBalancer" && port.port === KUBELET_PORT) {
    const detail = "may not expose port 10250 externally since it is used by kubelet";
    return [invalid(`${path}.port`, port.port, detail)];
  }
  if (type !== "ClusterIP" || (port.nodePort ?? 0) === 0) return [];
  return [notAllowed(`${path}.nodePort`, "may not be used when `type` is 'ClusterIP'")];
}

function validateUniquePorts(ports: readonly ServicePort[]): FieldError[] {
  const names = new Set<string>();
  const pairs = new Set<string>();
  const nodePorts = new Set<string>();
  return ports.flatMap(({ name = "", protocol, port, nodePort = 0 }, index) => {
    const path = `spec.ports[${index}]`;
    const errors: FieldError[] = [];
    if (name !== "" && !addNew(names, name)) errors.push(duplicate(`${path}.name`, name));
    if (!addNew(pairs, `${protocol}/${port}`)) errors.push(duplicate(path, { protocol, port }));
    if (nodePort !== 0 && !addNew(nodePorts, `${protocol}/${nodePort}`)) {
      errors.push(duplicate(`${path}.nodePort`, nodePort));
    }
    return errors;
  });
}

function addNew(seen: Set<string>, value: string): boolean {
  if (seen.has(value)) return false;
  seen.add(value);
  return true;
}

function validatePort(port: ServicePort, path: string, needsName: boolean): FieldError[] {
  const errors: FieldError[] = [];
  const name = port.name ?? "";
  if (name === "") {
    if (needsName) errors.push(required(`${path}.name`));
  } else {
    errors.push(...dnsLabel(name, `${path}.name`));
  }
  errors.push(...unlessInRange(`${path}.port`, port.port, 1, 65_535));
  errors.push(...unlessOneOf(`${path}.protocol`, port.protocol, PROTOCOLS));
  errors.push(...portReference(port.targetPort, `${path}.targetPort`));
  if (port.appProtocol !== undefined) {
    const problem = checkQualifiedName(port.appProtocol);
    if (problem !== undefined) errors.push(invalid(`${path}.appProtocol`, port.appProtocol, problem));
  }
  return errors;
}

function validateAffinity(spec: ServiceSpec): FieldError[] {
  const { sessionAffinity, sessionAffinityConfig } = spec;
  if (sessionAffinity === undefined) return [required("spec.sessionAffinity")];
  const errors = unlessOneOf("spec.sessionAffinity", sessionAffinity, ["ClientIP", "None"]);
  if (sessionAffinity === "ClientIP") {
    const timeout = sessionAffinityConfig?.clientIP?.timeoutSeconds ?? 0;
    if (timeout <= 0 || timeout > 86_400) {
      const path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
      errors.push(invalid(path, timeout, "must be greater than 0 and less than 86400"));
    }
  } else if (sessionAffinityConfig !== undefined) {
    const detail = "must not be set when session affinity is None";
    errors.push(notAllowed("spec.sessionAffinityConfig", detail));
  }
  return errors;
}

function validateExternalIps(spec: ServiceSpec): FieldError[] {
  return (spec.externalIPs ?? []).flatMap((text, index) => {
    const path = `spec.externalIPs[${index}]`;
    const malformed = address(text, path);
    if (malformed.length > 0) return malformed;
    const parsed = tryParseAddress(text);
    if (parsed !== undefined && isEndpointAddress(parsed)) return [];
    return [invalid(path, text, "may not be unspecified, loopback, link-local or multicast")];
  });
}

function validatePolicies(spec: ServiceSpec): FieldError[] {
  const errors = unlessOneOf("spec.internalTrafficPolicy", spec.internalTrafficPolicy, POLICIES);
  if (spec.internalTrafficPolicy === undefined && needsClusterIp(spec)) {
    errors.push(required("spec.internalTrafficPolicy"));
  }
  const external = spec.externalTrafficPolicy;
  if (isExternallyAccessible(spec)) {
    if (external === undefined) errors.push(required("spec.externalTrafficPolicy"));
    errors.push(...unlessOneOf("spec.externalTrafficPolicy", external, POLICIES));
  } else if (external !== undefined) {
    const detail = "may only be set for externally-accessible services";
    errors.push(invalid("spec.externalTrafficPolicy", external, detail));
  }
  const healthPort = spec.healthCheckNodePort ?? 0;
  if (healthPort !== 0 && !needsHealthCheckNodePort(spec)) {
    const detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
    errors.push(invalid("spec.healthCheckNodePort", healthPort, detail));
  }
  if (spec.trafficDistribution !== undefined && !DISTRIBUTIONS.includes(spec.trafficDistribution)) {
    errors.push(notSupported("spec.trafficDistribution", spec.trafficDistribution, DISTRIBUTIONS));
  }
  return errors;
}

function validateLoadBalancerFields(spec: ServiceSpec): FieldError[] {
  const errors: FieldError[] = [];
  const { type, loadBalancerSourceRanges = [] } = spec;
  if (type !== "LoadBalancer") {
    if (loadBalancerSourceRanges.length > 0) {
      errors.push(notAllowed("spec.LoadBalancerSourceRanges", ONLY_LOAD_BALANCER));
    }
    if (spec.allocateLoadBalancerNodePorts !== undefined) {
      errors.push(notAllowed("spec.allocateLoadBalancerNodePorts", ONLY_LOAD_BALANCER));
    }
    return [...errors, ...validateClass(spec)];
  }
  for (const [index, range] of loadBalancerSourceRanges.entries()) {
    if (tryParsePrefix(range.trim(), { hostBits: "clear" }) !== undefined) continue;
    const detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    errors.push(invalid(`spec.LoadBalancerSourceRanges[${index}]`, range, detail));
  }
  return [...errors, ...validateClass(spec)];
}

function validateClass({ type, loadBalancerClass }: ServiceSpec): FieldError[] {
  if (loadBalancerClass === undefined) return [];
  const path = "spec.loadBalancerClass";
  if (type !== "LoadBalancer") return [notAllowed(path, ONLY_LOAD_BALANCER)];
  const problem = checkQualifiedName(loadBalancerClass);
  return problem === undefined ? [] : [invalid(path, loadBalancerClass, problem)];
}

const MODES = ["Proxy", "VIP"];

/** Validates the load balancer status of a Service. */
export function validateServiceStatus(object: ApiObject & Service): readonly FieldError[] {
  const path = "status.loadBalancer.ingress";
  const ingress = object.status?.loadBalancer?.ingress ?? [];
  if (ingress.length > 0 && specOf(object).type !== "LoadBalancer") {
    return [notAllowed(path, "may only be used when `spec.type` is 'LoadBalancer'")];
  }
  return ingress.flatMap(({ ip = "", hostname = "", ipMode }, at) => {
    const mode = `${path}[${at}].ipMode`;
    const errors = ip === "" ? [] : [...address(ip, `${path}[${at}].ip`)];
    if (ipMode === undefined) {
      if (ip !== "") errors.push(required(mode, "must be specified when `ip` is set"));
    } else if (ip === "") errors.push(notAllowed(mode, "may not be specified when `ip` is not set"));
    else errors.push(...unlessOneOf(mode, ipMode, MODES));
    return [...errors, ...balancerName(hostname, `${path}[${at}].hostname`)];
  });
}

function balancerName(hostname: string, path: string): readonly FieldError[] {
  if (hostname === "") return [];
  const isAddress = tryParseAddress(hostname) !== undefined;
  const wrong = isAddress ? [invalid(path, hostname, "must be a DNS name, not an IP address")] : [];
  return [...subdomain(hostname, path), ...wrong];
}
