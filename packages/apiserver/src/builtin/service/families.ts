import type { IPFamily, ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { familyOfText } from "@fairlead/base/netaddr/address.ts";
import type { FieldError } from "#status.ts";
import { invalid } from "#values/field-errors.ts";
import type { ServiceAllocations } from "./allocations.ts";
import { hasSelector, HEADLESS, isHeadless, needsClusterIp, otherFamily } from "./shape.ts";
import { validateClusterIps } from "./validate-ips.ts";

/** Which families a Service has (KEP-563). */

const POLICY = "spec.ipFamilyPolicy";

/** A `PreferDualStack` Service does not gain or lose an address because the cluster did. */
export function keepsPreferredDualStack(spec: ServiceSpec, old: ServiceSpec | undefined): boolean {
  if (old?.ipFamilyPolicy !== "PreferDualStack" || spec.ipFamilyPolicy !== "PreferDualStack") return false;
  if (!needsClusterIp(spec) || spec.type !== old.type) return false;
  return sameJson(spec.clusterIPs, old.clusterIPs) && sameJson(spec.ipFamilies, old.ipFamilies);
}

/**
 * Fills in `ipFamilyPolicy` and `ipFamilies`; never changes between single-stack and dual-stack unless the spec requests it.
 *
 * @returns Errors of the families that the Service requests.
 */
export function chooseFamilies(
  spec: ServiceSpec,
  old: ServiceSpec | undefined,
  allocations: ServiceAllocations,
): readonly FieldError[] {
  // A headless Service without selector has no allocated addresses: its endpoints may be of both families.
  const isFree = isHeadless(spec) && !hasSelector(spec);
  const usual = isFree ? "RequireDualStack" : "SingleStack";
  spec.ipFamilyPolicy ??= old?.ipFamilyPolicy ?? usual;
  const malformed = validateClusterIps(spec);
  if (malformed.length > 0) return malformed;
  const errors = [...release(spec, old), ...checkSingleStack(spec), ...addNamedFamilies(spec, allocations)];
  if (errors.length > 0) return errors;
  const unserved = isFree ? [] : checkServed(spec, allocations);
  if (unserved.length > 0) return unserved;
  addFamilies(spec, isFree, allocations);
  return [];
}

function addFamilies(spec: ServiceSpec, isFree: boolean, allocations: ServiceAllocations): void {
  const [first = allocations.defaultFamily, ...others] = spec.ipFamilies ?? [];
  const hasBoth = isFree || allocations.families.length === 2;
  const takesSecond = others.length === 0 && spec.ipFamilyPolicy !== "SingleStack" && hasBoth;
  spec.ipFamilies = [first, ...(takesSecond ? [otherFamily(first)] : others)];
}

/** A dual-stack Service that becomes single-stack gives up its second address and family, and no other does. */
function release(spec: ServiceSpec, old: ServiceSpec | undefined): FieldError[] {
  if (old === undefined) return [];
  if (spec.ipFamilyPolicy === "SingleStack") {
    if (sameJson(spec.clusterIPs, old.clusterIPs)) setFirst(spec, "clusterIPs");
    if (sameJson(spec.ipFamilies, old.ipFamilies)) setFirst(spec, "ipFamilies");
    return [];
  }
  const isReduced = (key: "clusterIPs" | "ipFamilies"): boolean => {
    const count = spec[key]?.length ?? 0;
    return count > 0 && count < (old[key]?.length ?? 0);
  };
  const refuse = (what: string): FieldError =>
    invalid(POLICY, spec.ipFamilyPolicy, `must be 'SingleStack' to release the secondary ${what}`);
  return [
    ...(isReduced("clusterIPs") ? [refuse("cluster IP")] : []),
    ...(isReduced("ipFamilies") ? [refuse("IP family")] : []),
  ];
}

function setFirst(spec: ServiceSpec, key: "clusterIPs" | "ipFamilies"): void {
  if ((spec[key]?.length ?? 0) > 1) Object.assign(spec, { [key]: spec[key]?.slice(0, 1) });
}

function checkSingleStack(spec: ServiceSpec): FieldError[] {
  if (spec.ipFamilyPolicy !== "SingleStack") return [];
  const refuse = (what: string): FieldError => {
    const detail = `must be 'RequireDualStack' or 'PreferDualStack' when multiple ${what} are specified`;
    return invalid(POLICY, spec.ipFamilyPolicy, detail);
  };
  return [
    ...(spec.clusterIPs?.length === 2 ? [refuse("cluster IPs")] : []),
    ...(spec.ipFamilies?.length === 2 ? [refuse("IP families")] : []),
  ];
}

/** Behind the families that the Service lists come those of the addresses that it names. */
function addNamedFamilies(spec: ServiceSpec, allocations: ServiceAllocations): FieldError[] {
  const families: IPFamily[] = [...(spec.ipFamilies ?? [])];
  const errors: FieldError[] = [];
  for (const [at, ip] of (spec.clusterIPs ?? []).entries()) {
    const family = familyOfText(ip);
    if (ip === HEADLESS || family === undefined || at < families.length) continue;
    if (allocations.families.includes(family)) families.push(family);
    else
      errors.push(
        invalid(`spec.clusterIPs[${at}]`, spec.clusterIPs, `${family} is not configured on this cluster`),
      );
  }
  if (families.length > 0) spec.ipFamilies = families;
  return errors;
}

function checkServed(spec: ServiceSpec, allocations: ServiceAllocations): FieldError[] {
  const errors: FieldError[] = [];
  if (spec.ipFamilyPolicy === "RequireDualStack" && allocations.families.length < 2) {
    errors.push(
      invalid(POLICY, spec.ipFamilyPolicy, "this cluster is not configured for dual-stack services"),
    );
  }
  for (const [at, family] of (spec.ipFamilies ?? []).entries()) {
    if (allocations.families.includes(family)) continue;
    errors.push(invalid(`spec.ipFamilies[${at}]`, family, "not configured on this cluster"));
  }
  return errors;
}
