import { formatAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { checkPathSegment } from "#values/names.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { ADDRESS_FORM, canonicalPrefix } from "../addresses.ts";
import { IMMUTABLE, invalid, required } from "#values/field-errors.ts";
import { fieldsAt, stringsAt } from "@fairlead/base/fields.ts";
import { subdomain } from "../names.ts";
import { fields, filled, immutable, optional, type Rule } from "../rules.ts";

/** IPAddresses and ServiceCIDRs (KEP-1880). Source: k8s.io/kubernetes, pkg/apis/networking/validation. */

const segment: Rule = (value, path) => {
  const problem = checkPathSegment(String(value));
  return problem === undefined ? [] : [invalid(path, value, problem)];
};

const parent: Rule = fields({
  group: optional(subdomain),
  resource: filled("", segment),
  name: filled("", segment),
  namespace: optional(segment),
});

function validateIpAddress(object: ApiObject): readonly FieldError[] {
  const reference = fieldsAt(fieldsAt(object, "spec"), "parentRef");
  return reference === undefined ? [required("spec.parentRef")] : parent(reference, "spec.parentRef");
}

/** The name is the address, in the one form in which it is written (RFC 5952). */
function addressProblems(name: string): readonly string[] {
  const address = tryParseAddress(name);
  if (address === undefined) return [ADDRESS_FORM];
  const canonical = formatAddress(address);
  return canonical === name ? [] : [`must be in canonical form (${JSON.stringify(canonical)})`];
}

export const ipAddressStrategy: Partial<Strategy> = {
  generation: "none",
  checkName: addressProblems,
  validateCreate: validateIpAddress,
  validateUpdate: (object, old) => [
    ...validateIpAddress(object),
    ...immutable(fieldsAt(object, "spec"), fieldsAt(old, "spec"), "spec.", "parentRef"),
  ],
};

const PATH = "spec.cidrs";

function validateServiceCidr(object: ApiObject): readonly FieldError[] {
  const cidrs = stringsAt(fieldsAt(object, "spec"), "cidrs");
  if (cidrs.length === 0) return [required(PATH, "at least one CIDR required")];
  if (cidrs.length > 2) return [invalid(PATH, cidrs, "may only hold up to 2 values")];
  const families = cidrs.map((it) => tryParsePrefix(it)?.family);
  const errors: FieldError[] = [];
  if (families.length === 2 && families[0] !== undefined && families[0] === families[1]) {
    errors.push(
      invalid(
        PATH,
        cidrs,
        "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
      ),
    );
  }
  return [...errors, ...cidrs.flatMap((it, at) => canonicalPrefix(it, `${PATH}[${at}]`))];
}

function validateServiceCidrUpdate(object: ApiObject, old: ApiObject): readonly FieldError[] {
  const cidrs = stringsAt(fieldsAt(object, "spec"), "cidrs");
  const before = stringsAt(fieldsAt(old, "spec"), "cidrs");
  if (cidrs.length === 1 && before.length === 2) return [invalid(PATH, cidrs, IMMUTABLE)];
  if (cidrs.length !== before.length && cidrs.length !== 2) return [invalid(PATH, cidrs, IMMUTABLE)];
  const changed = before.flatMap((it, at) =>
    it === cidrs[at] ? [] : [invalid(`${PATH}[${at}]`, cidrs[at], IMMUTABLE)],
  );
  return [...validateServiceCidr(object), ...changed];
}

export const serviceCidrStrategy: Partial<Strategy> = {
  generation: "none",
  validateCreate: validateServiceCidr,
  validateUpdate: validateServiceCidrUpdate,
};
