import type { IPFamily, ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { familyOfText } from "@fairlead/base/netaddr/address.ts";
import type { FieldError } from "#status.ts";
import { duplicate, invalid, required, unlessOneOf } from "#values/field-errors.ts";
import { address } from "../addresses.ts";
import { HEADLESS, isHeadless } from "./shape.ts";

/** `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` belong together (KEP-563). */

const FAMILIES: readonly IPFamily[] = ["IPv4", "IPv6"];
const FAMILY_POLICIES = ["PreferDualStack", "RequireDualStack", "SingleStack"];

export function validateClusterIps(spec: ServiceSpec): FieldError[] {
  if (spec.type === "ExternalName") return [];
  const errors = [
    ...validateFirst(spec),
    ...validateFamilies(spec),
    ...unlessOneOf("spec.ipFamilyPolicy", spec.ipFamilyPolicy, FAMILY_POLICIES),
  ];
  const malformed = validateForms(spec);
  if (spec.clusterIPs !== undefined && spec.clusterIPs.length > 2) {
    errors.push(invalid("spec.clusterIPs", spec.clusterIPs, "may only hold up to 2 values"));
  }
  return [...errors, ...(malformed.length > 0 ? malformed : validateAddressFamilies(spec))];
}

function validateFamilies(spec: ServiceSpec): FieldError[] {
  const seen = new Set<IPFamily>();
  return (spec.ipFamilies ?? []).flatMap((family, index) => {
    const path = `spec.ipFamilies[${index}]`;
    const isSeen = seen.has(family);
    seen.add(family);
    return [...unlessOneOf(path, family, FAMILIES), ...(isSeen ? [duplicate(path, family)] : [])];
  });
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
  for (const [index, ip] of clusterIPs.entries()) {
    if (index === 0 && ip === HEADLESS) {
      if (clusterIPs.length === 1) continue;
      errors.push(invalid(path, clusterIPs, "'None' must be the first and only value"));
    } else errors.push(...address(ip, `${path}[${index}]`));
  }
  return errors;
}

function validateAddressFamilies({ clusterIPs = [], ipFamilies = [] }: ServiceSpec): FieldError[] {
  if (clusterIPs[0] === HEADLESS) return [];
  const path = "spec.clusterIPs";
  const families = clusterIPs.map(familyOfText);
  const errors: FieldError[] = [];
  if (clusterIPs.length > 1 && new Set(families).size === 1) {
    errors.push(invalid(path, clusterIPs, "may specify no more than one IP for each IP family"));
  }
  for (const [index, ip] of clusterIPs.entries()) {
    const wanted = ipFamilies[index];
    const isOther = wanted === "IPv4" ? families[index] === "IPv6" : families[index] !== "IPv6";
    // A family that is not one is refused as such.
    if ((wanted !== "IPv4" && wanted !== "IPv6") || !isOther) continue;
    const detail = `expected an ${wanted} value as indicated by \`ipFamilies[${index}]\``;
    errors.push(invalid(`${path}[${index}]`, ip, detail));
  }
  return errors;
}

const SET_ONCE = "may not change once set";

/** Addresses and families stay: a second one may come and go, by way of `ipFamilyPolicy`. */
export function validateClusterIpsUpdate(spec: ServiceSpec, old: ServiceSpec): FieldError[] {
  if (spec.type === "ExternalName" || old.type === "ExternalName") return [];
  const [after, before] = [isHeadless(spec), isHeadless(old)];
  if (after && before) return [];
  return [...validateIpsChange(spec, old), ...(after || before ? [] : validateFamiliesChange(spec, old))];
}

function validateIpsChange(spec: ServiceSpec, old: ServiceSpec): FieldError[] {
  const after = spec.clusterIPs ?? [];
  const before = old.clusterIPs ?? [];
  const path = "spec.clusterIPs";
  if (before.length > 0 && after.length === 0) {
    return [invalid(`${path}[0]`, after, "primary clusterIP can not be unset")];
  }
  const compared = before.length === after.length ? before : before.slice(0, 1);
  const errors = compared.flatMap((ip, index) =>
    ip === after[index] ? [] : [invalid(`${path}[${index}]`, after, SET_ONCE)],
  );
  return [...errors, ...unlessReleased(spec, after.length < before.length, "clusterIP")];
}

function validateFamiliesChange(spec: ServiceSpec, old: ServiceSpec): FieldError[] {
  const after = spec.ipFamilies ?? [];
  const before = old.ipFamilies ?? [];
  const path = "spec.ipFamilies[0]";
  if (after.length === before.length) {
    return before.flatMap((it, index) => (it === after[index] ? [] : [invalid(path, after, SET_ONCE)]));
  }
  // Upstream shows the addresses here.
  const isChanged = after.length > 0 && before.length > 0 && after[0] !== before[0];
  const errors = isChanged ? [invalid(path, spec.clusterIPs, SET_ONCE)] : [];
  return [...errors, ...unlessReleased(spec, after.length < before.length, "ipFamily")];
}

function unlessReleased(spec: ServiceSpec, isReleased: boolean, what: string): FieldError[] {
  if (!isReleased || spec.ipFamilyPolicy === "SingleStack") return [];
  const detail = `must be set to 'SingleStack' when releasing the secondary ${what}`;
  return [invalid("spec.ipFamilyPolicy", spec.ipFamilyPolicy, detail)];
}
