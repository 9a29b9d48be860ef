import type { IPFamily, ServiceSpec } from "#api/core/v1/types.ts";
import { familyOfText } from "#netaddr/address.ts";
import type { FieldError } from "../../status.ts";
import { duplicate, invalid, notSupported, required, unlessOneOf } from "../field-errors.ts";
import type { ServiceAllocations } from "./allocations.ts";
import { HEADLESS, isHeadless } from "./shape.ts";

/** `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` belong together (KEP-563). */

const FAMILIES: readonly IPFamily[] = ["IPv4", "IPv6"];
const FAMILY_POLICIES = ["PreferDualStack", "RequireDualStack", "SingleStack"];

export function validateClusterIps(spec: ServiceSpec, allocations: ServiceAllocations): FieldError[] {
  if (spec.type === "ExternalName") return [];
  const errors = [
    ...validateFamilies(spec, allocations),
    ...unlessOneOf("spec.ipFamilyPolicy", spec.ipFamilyPolicy, FAMILY_POLICIES),
    ...validatePolicy(spec, allocations),
    ...validateFirst(spec),
  ];
  const malformed = validateForms(spec);
  if (malformed.length > 0) return [...errors, ...malformed];
  return [...errors, ...validateAddressFamilies(spec)];
}

function validateFamilies(spec: ServiceSpec, allocations: ServiceAllocations): FieldError[] {
  const seen = new Set<IPFamily>();
  return (spec.ipFamilies ?? []).flatMap((family, index) => {
    const path = `spec.ipFamilies[${index}]`;
    if (!FAMILIES.includes(family)) return [notSupported(path, family, FAMILIES)];
    if (seen.has(family)) return [duplicate(path, family)];
    seen.add(family);
    // Endpoints of a headless Service without selector are not ours, and may be of any family.
    if (allocations.families.includes(family) || isHeadless(spec)) return [];
    return [invalid(path, family, "not configured on this cluster")];
  });
}

function validatePolicy(spec: ServiceSpec, allocations: ServiceAllocations): FieldError[] {
  const path = "spec.ipFamilyPolicy";
  if (spec.ipFamilyPolicy === "RequireDualStack") {
    if (allocations.families.length > 1 || isHeadless(spec)) return [];
    return [invalid(path, spec.ipFamilyPolicy, "this cluster is not configured for dual-stack services")];
  }
  if (spec.ipFamilyPolicy !== "SingleStack") return [];
  const detail = "must be RequireDualStack or PreferDualStack when multiple";
  const errors: FieldError[] = [];
  if ((spec.ipFamilies ?? []).length > 1) {
    errors.push(invalid(path, spec.ipFamilyPolicy, `${detail} \`ipFamilies\` are specified`));
  }
  if ((spec.clusterIPs ?? []).length > 1) {
    errors.push(invalid(path, spec.ipFamilyPolicy, `${detail} \`clusterIPs\` are specified`));
  }
  return errors;
}

function validateFirst({ clusterIP = "", clusterIPs = [] }: ServiceSpec): FieldError[] {
  const path = "spec.clusterIPs";
  if (clusterIP === "") {
    if (clusterIPs.length === 0) return [];
    return [invalid(path, clusterIPs, "must be empty when `clusterIP` is not specified")];
  }
  if (clusterIPs.length === 0) return [required(path)];
  if (clusterIPs[0] === clusterIP) return [];
  return [invalid(path, clusterIPs, "first value must match `clusterIP`")];
}

function validateForms({ clusterIPs = [] }: ServiceSpec): FieldError[] {
  const path = "spec.clusterIPs";
  const errors: FieldError[] = [];
  if (clusterIPs.length > 2) errors.push(invalid(path, clusterIPs, "may only hold up to 2 values"));
  for (const [index, ip] of clusterIPs.entries()) {
    if (index === 0 && ip === HEADLESS) {
      if (clusterIPs.length === 1) continue;
      errors.push(invalid(path, clusterIPs, "'None' must be the first and only value"));
    } else if (familyOfText(ip) === undefined) {
      const detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
      errors.push(invalid(`${path}[${index}]`, ip, detail));
    }
  }
  return errors;
}

function validateAddressFamilies({ clusterIPs = [], ipFamilies = [] }: ServiceSpec): FieldError[] {
  if (clusterIPs[0] === HEADLESS) return [];
  const path = "spec.clusterIPs";
  const families = clusterIPs.map(familyOfText);
  if (new Set(families).size < families.length) {
    return [invalid(path, clusterIPs, "may specify no more than one IP for each IP family")];
  }
  return clusterIPs.flatMap((ip, index) => {
    const wanted = ipFamilies[index];
    if (wanted === undefined || wanted === families[index]) return [];
    const detail = `expected an ${wanted} value as indicated by \`ipFamilies[${index}]\``;
    return [invalid(`${path}[${index}]`, ip, detail)];
  });
}

const SET_ONCE = "may not change once set";

/** Addresses and families stay: a second one may come and go, by way of `ipFamilyPolicy`. */
export function validateClusterIpsUpdate(spec: ServiceSpec, old: ServiceSpec): FieldError[] {
  if (spec.type === "ExternalName" || old.type === "ExternalName") return [];
  if (isHeadless(spec) && isHeadless(old)) return [];
  return [...validateIpsChange(spec, old), ...validateFamiliesChange(spec, old)];
}

function validateIpsChange(spec: ServiceSpec, old: ServiceSpec): FieldError[] {
  const after = spec.clusterIPs ?? [];
  const before = old.clusterIPs ?? [];
  const path = "spec.clusterIPs";
  if (before.length > 0 && after.length === 0) {
    return [invalid(`${path}[0]`, after, "primary clusterIP can not be unset")];
  }
  const errors = before.slice(0, after.length).flatMap((ip, index) => {
    return ip === after[index] ? [] : [invalid(`${path}[${index}]`, after, SET_ONCE)];
  });
  if (before.length > after.length && after.length === 1 && spec.ipFamilyPolicy !== "SingleStack") {
    const detail = "must be set to 'SingleStack' when releasing the secondary clusterIP";
    errors.push(invalid("spec.ipFamilyPolicy", spec.ipFamilyPolicy, detail));
  }
  return errors;
}

function validateFamiliesChange(spec: ServiceSpec, old: ServiceSpec): FieldError[] {
  const after = spec.ipFamilies ?? [];
  const before = old.ipFamilies ?? [];
  const path = "spec.ipFamilies";
  if (before.length > 0 && after.length === 0) {
    return [invalid(`${path}[0]`, after, "primary ipFamily can not be unset")];
  }
  return before
    .slice(0, after.length)
    .flatMap((family, index) =>
      family === after[index] ? [] : [invalid(`${path}[${index}]`, after, SET_ONCE)],
    );
}
