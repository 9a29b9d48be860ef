import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { formatPrefix, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { invalid } from "#values/field-errors.ts";
import type { Rule } from "./rules.ts";

/** Addresses in fields. Source: k8s.io/kubernetes, pkg/apis/core/validation. */

export const ADDRESS_FORM = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const PREFIX_FORM = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/** An IPv4 address of which a part begins with 0, which some read as octal. */
const LEADING_ZEROES = /^(?=.*(?:^|\.)0\d)\d{1,3}(?:\.\d{1,3}){3}$/;

/** RFC 4291, 2.5.5.2: two programs may take it for two different addresses. */
const MAPPED = /^::ffff:\d+\./i;

export const address: Rule = (value, path) => {
  const text = typeof value === "string" ? value : "";
  if (LEADING_ZEROES.test(text)) return [invalid(path, text, "must not have leading 0s")];
  if (tryParseAddress(text) === undefined) return [invalid(path, text, ADDRESS_FORM)];
  return MAPPED.test(text) ? [invalid(path, text, "must not be an IPv4-mapped IPv6 address")] : [];
};

/** A range in the one form in which it is written. */
export const canonicalPrefix: Rule = (value, path) => {
  const text = typeof value === "string" ? value : "";
  const parsed = tryParsePrefix(text, { hostBits: "clear" });
  if (parsed === undefined) return [invalid(path, text, PREFIX_FORM)];
  if (tryParsePrefix(text) === undefined) {
    return [invalid(path, text, "must not have bits set beyond the prefix length")];
  }
  if (MAPPED.test(text)) return [invalid(path, text, "must not have an IPv4-mapped IPv6 address")];
  const canonical = formatPrefix(parsed);
  return canonical === text
    ? []
    : [invalid(path, text, `must be in canonical form (${JSON.stringify(canonical)})`)];
};

export const prefix: Rule = (value, path) => {
  const text = typeof value === "string" ? value : "";
  return tryParsePrefix(text, { hostBits: "clear" }) === undefined ? [invalid(path, text, PREFIX_FORM)] : [];
};
