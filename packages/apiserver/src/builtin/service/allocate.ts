import type { IPFamily, Service, ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { ApiObject } from "#values/object.ts";
import { type FieldError, internalError, invalid as invalidObject } from "#status.ts";
import { invalid } from "#values/field-errors.ts";
import type { ServiceAllocations } from "./allocations.ts";
import { chooseFamilies, keepsPreferredDualStack } from "./families.ts";
import { alignClusterIps, dropForType, inheritAllocated } from "./inherit.ts";
import { choosePorts, choosePortsAgain } from "./node-ports.ts";
import { HEADLESS, specOf } from "./shape.ts";

/**
 * Gives a Service its families, addresses and ports as far as it does not name them, and refuses it where another holds
 * what it does name: before anything else of it is checked, as upstream does.
 * Source: k8s.io/kubernetes, pkg/registry/core/service/storage/alloc.go.
 *
 * @throws {StatusError} 422 for what it cannot have, 500 when a range is used up.
 */
export function allocateService(
  object: ApiObject & Service,
  old: (ApiObject & Service) | undefined,
  allocations: ServiceAllocations,
): void {
  const spec = specOf(object);
  const before = old === undefined ? undefined : specOf(old);
  const key = keyOf(object);
  const insist = (errors: readonly FieldError[]): void => {
    if (errors.length > 0) throw invalidObject("", "Service", object.metadata.name, errors);
  };
  if (before !== undefined) inheritAllocated(spec, before);
  alignClusterIps(spec, before);
  const isKept = keepsPreferredDualStack(spec, before);
  if (spec.type !== "ExternalName" && !isKept) {
    insist(chooseFamilies(spec, before, allocations));
    insist(chooseClusterIps(spec, positions(spec, before), key, allocations));
  }
  insist(
    before === undefined
      ? choosePorts(spec, key, allocations)
      : choosePortsAgain(spec, before, key, allocations),
  );
  if (before !== undefined) dropForType(spec, before);
  if (spec.type === "ExternalName") delete spec.internalTrafficPolicy;
}

/** Which of its addresses, by position, the Service has to be given or asks for now. */
function positions(spec: ServiceSpec, old: ServiceSpec | undefined): readonly number[] {
  const families = (spec.ipFamilies ?? []).map((_, at) => at);
  if (old === undefined || old.type === "ExternalName") {
    return spec.clusterIPs?.[0] === HEADLESS ? [] : families;
  }
  if (old.clusterIPs?.[0] === HEADLESS) return [];
  const isUpgraded = (old.ipFamilies ?? []).length === 1 && families.length === 2;
  return isUpgraded ? [1] : [];
}

function chooseClusterIps(
  spec: ServiceSpec,
  at: readonly number[],
  key: ObjectKey,
  allocations: ServiceAllocations,
): FieldError[] {
  if (at.length === 0) return [];
  const ips = (spec.ipFamilies ?? []).map((_, position) => spec.clusterIPs?.[position] ?? "");
  for (const position of at) {
    const named = ips[position] ?? "";
    const why = named === "" ? undefined : allocations.refuseIp(named, key);
    if (why !== undefined) return [invalid("spec.clusterIPs", ips, `failed to allocate IP ${named}: ${why}`)];
    const family = spec.ipFamilies?.[position];
    if (named === "" && family !== undefined) ips[position] = chooseIp(family, key, allocations);
  }
  spec.clusterIPs = ips;
  spec.clusterIP = ips[0] ?? "";
  return [];
}

function chooseIp(family: IPFamily, key: ObjectKey, allocations: ServiceAllocations): string {
  const ip = allocations.chooseIp(family, key);
  if (ip !== undefined) return ip;
  const name = key.slice(key.indexOf("/") + 1);
  throw internalError(`failed to allocate a serviceIP for Service ${JSON.stringify(name)}: range is full`);
}
