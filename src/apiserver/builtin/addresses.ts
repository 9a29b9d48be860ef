import { tryParseAddress } from "#netaddr/address.ts";
import { tryParsePrefix } from "#netaddr/prefix.ts";
import { invalid } from "./field-errors.ts";
import type { Rule } from "./rules.ts";

/** Addresses in fields. Source: k8s.io/kubernetes, pkg/apis/core/validation. */

export const ADDRESS_FORM = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const PREFIX_FORM = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

export const address: Rule = (value, path) => {
  const text = typeof value === "string" ? value : "";
  return tryParseAddress(text) === undefined ? [invalid(path, text, ADDRESS_FORM)] : [];
};

export const prefix: Rule = (value, path) => {
  const text = typeof value === "string" ? value : "";
  return tryParsePrefix(text, { hostBits: "clear" }) === undefined ? [invalid(path, text, PREFIX_FORM)] : [];
};
