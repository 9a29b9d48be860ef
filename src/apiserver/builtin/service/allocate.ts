import type { IPFamily, Service, ServiceSpec } from "#api/core/v1/types.ts";
import { keyOf, type ObjectKey } from "#api/meta/key.ts";
import { sameJson } from "#base/json.ts";
import { familyOfText } from "#netaddr/address.ts";
import type { ApiObject } from "../../registry/types.ts";
import { internalError } from "../../status.ts";
import type { ServiceAllocations } from "./allocations.ts";
import { alignClusterIps, dropForType, inheritAllocated, trimToSingleStack } from "./inherit.ts";
import {
  clusterIpsOf,
  hasSelector,
  HEADLESS,
  isDualStack,
  isHeadless,
  needsClusterIp,
  needsHealthCheckNodePort,
  needsNodePort,
  nodePortsOf,
  otherFamily,
  portsOf,
  specOf,
} from "./shape.ts";

/**
 * Gives a Service its families, addresses and ports as far as it does not name them. What it does name is checked by
 * validation, also against what others hold. Source: k8s.io/kubernetes, pkg/registry/core/service/storage/alloc.go.
 *
 * @throws {StatusError} 500 when a range is used up.
 */
export function allocateService(
  object: ApiObject & Service,
  old: (ApiObject & Service) | undefined,
  allocations: ServiceAllocations,
): void {
  const spec = specOf(object);
  if (old !== undefined) {
    dropForType(spec, specOf(old));
    inheritAllocated(spec, specOf(old));
  }
  alignClusterIps(spec, old?.spec);
  if (spec.type === "ExternalName") return;
  if (old !== undefined) trimToSingleStack(spec, specOf(old));
  chooseFamilies(spec, old?.spec, allocations);
  const key = keyOf(object);
  if (needsClusterIp(spec) && !isHeadless(spec)) chooseClusterIps(spec, old?.spec, key, allocations);
  choosePorts(spec, key, allocations);
}

/** Fills in `ipFamilyPolicy` and `ipFamilies`, never changing between one and two families without being told to. */
function chooseFamilies(
  spec: ServiceSpec,
  old: ServiceSpec | undefined,
  allocations: ServiceAllocations,
): void {
  if (keepsPreferredDualStack(spec, old)) return;
  const isFree = isHeadless(spec) && !hasSelector(spec);
  // A headless Service without selector has no addresses of ours: its endpoints may be of both families.
  spec.ipFamilyPolicy ??= old?.ipFamilyPolicy ?? (isFree ? "RequireDualStack" : "SingleStack");
  const [first = allocations.defaultFamily, ...others] = namedFamilies(spec);
  const second = otherFamily(first);
  const takesSecond =
    others.length === 0 && isDualStack(spec) && (isFree || allocations.families.includes(second));
  spec.ipFamilies = [first, ...(takesSecond ? [second] : others)];
}

/** Those that the spec lists, and behind them those of addresses that it names. */
function namedFamilies(spec: ServiceSpec): IPFamily[] {
  const families: IPFamily[] = [...(spec.ipFamilies ?? [])];
  for (const ip of clusterIpsOf(spec).slice(families.length)) {
    const family = familyOfText(ip);
    if (family !== undefined) families.push(family);
  }
  return families;
}

/** A `PreferDualStack` Service does not gain or lose an address because the cluster did. */
function keepsPreferredDualStack(spec: ServiceSpec, old: ServiceSpec | undefined): boolean {
  if (old?.ipFamilyPolicy !== "PreferDualStack" || spec.ipFamilyPolicy !== "PreferDualStack") return false;
  if (!needsClusterIp(old)) return false;
  return sameJson(spec.clusterIPs, old.clusterIPs) && sameJson(spec.ipFamilies, old.ipFamilies);
}

function chooseClusterIps(
  spec: ServiceSpec,
  old: ServiceSpec | undefined,
  key: ObjectKey,
  allocations: ServiceAllocations,
): void {
  const named = spec.clusterIPs ?? [];
  if (named.includes(HEADLESS) || changesFirstIp(named, old?.clusterIPs ?? [])) return;
  const missing = (spec.ipFamilies ?? []).slice(named.length, isDualStack(spec) ? 2 : 1);
  if (missing.length === 0 || !missing.every((it) => allocations.families.includes(it))) return;
  const ips = [...named, ...missing.map((it) => chooseIp(it, key, allocations))];
  spec.clusterIPs = ips;
  if (named.length === 0 && ips[0] !== undefined) spec.clusterIP = ips[0];
}

/** Validation refuses that, and shall speak of nothing else. */
function changesFirstIp([first]: readonly string[], [oldFirst]: readonly string[]): boolean {
  return first !== undefined && oldFirst !== undefined && first !== oldFirst;
}

function chooseIp(family: IPFamily, key: ObjectKey, allocations: ServiceAllocations): string {
  const ip = allocations.chooseIp(family, key);
  if (ip !== undefined) return ip;
  throw internalError("failed to allocate a serviceIP: range is full");
}

function choosePorts(spec: ServiceSpec, key: ObjectKey, allocations: ServiceAllocations): void {
  const used = new Set(nodePortsOf(spec));
  const choose = (): number => {
    const port = allocations.choosePort(key, used);
    if (port === undefined) throw internalError("failed to allocate a nodePort: range is full");
    used.add(port);
    return port;
  };
  if (needsNodePort(spec)) {
    for (const port of portsOf(spec)) if ((port.nodePort ?? 0) === 0) port.nodePort = choose();
  }
  if (needsHealthCheckNodePort(spec) && (spec.healthCheckNodePort ?? 0) === 0) {
    spec.healthCheckNodePort = choose();
  }
}
