import {
  dnsLabelProblems,
  formText,
  type NameProblems,
  subdomainProblems,
  tooLong,
  wholly,
} from "#values/names.ts";
import { invalid, required } from "#values/field-errors.ts";
import { type Rule, text } from "./rules.ts";

/**
 * Forms of names beyond those that every kind shares (`values/names.ts`). Texts as upstream's: k8s.io/apimachinery,
 * pkg/util/validation.
 */

export const dnsLabel: Rule = text(dnsLabelProblems);
export const subdomain: Rule = text(subdomainProblems);

/** A port's name as targets refer to it: an IANA service name (RFC 6335). */
export function portNameProblems(name: string): NameProblems {
  const charset = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
  return [
    ...tooLong(name, 15, "characters"),
    ...(/^[-a-z0-9]+$/.test(name) ? [] : [charset]),
    ...(/[a-z]/.test(name) ? [] : ["must contain at least one letter (a-z)"]),
    ...(name.includes("--") ? ["must not contain consecutive hyphens"] : []),
    ...(/^-|-$/.test(name) ? ["must not begin or end with a hyphen"] : []),
  ];
}

/** A port by its number, or by the name that the container gives it. */
export const portReference: Rule = (value, path) => {
  if (typeof value === "string") return portNameProblems(value).map((it) => invalid(path, value, it));
  const port = typeof value === "number" ? value : 0;
  return port >= 1 && port <= 65_535 ? [] : [invalid(path, port, "must be between 1 and 65535, inclusive")];
};

const NO_PROBLEMS: NameProblems = [];
const DATA_KEY_FORM = "[-._a-zA-Z0-9]+";
const DATA_KEY = wholly(DATA_KEY_FORM);

/** A key of ConfigMaps and Secrets. */
export function dataKeyProblems(key: string): NameProblems {
  if (key.length <= 253 && !key.startsWith(".") && DATA_KEY.test(key)) return NO_PROBLEMS;
  const what = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
  const form = DATA_KEY.test(key) ? [] : [formText(what, DATA_KEY_FORM, "key.name", "KEY_NAME", "key-name")];
  return [...tooLong(key, 253, "characters"), ...form, ...climbs(key)];
}

function climbs(name: string): NameProblems {
  if (name === "." || name === "..") return [`must not be '${name}'`];
  return name.startsWith("..") ? ["must not start with '..'"] : [];
}

export function environmentNameProblems(name: string): NameProblems {
  if (name === "") return ["environment variable name must be non-empty"];
  if (/^[ -<>-~]+$/.test(name)) return [];
  return ["a valid environment variable name must consist only of printable ASCII characters other than '='"];
}

const HEADER_NAME = "[-A-Za-z0-9]+";

export function headerNameProblems(name: string): NameProblems {
  const what = "a valid HTTP header must consist of alphanumeric characters or '-'";
  return wholly(HEADER_NAME).test(name) ? [] : [formText(what, HEADER_NAME, "X-Header-Name")];
}

const WILDCARD = "\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

/** `*.example.com`. */
export function wildcardProblems(name: string): NameProblems {
  const what =
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower " +
    "case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
  const isRight = wholly(WILDCARD).test(name);
  return [
    ...tooLong(name, 253, "characters"),
    ...(isRight ? [] : [formText(what, WILDCARD, "*.example.com")]),
  ];
}

const HTTP_PATH = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";

/** `example.com/path`. */
export const domainPrefixedPath: Rule = (value, path) => {
  const read = typeof value === "string" ? value : "";
  if (read === "") return [required(path)];
  const slash = read.indexOf("/");
  const host = read.slice(0, Math.max(slash, 0));
  const rest = read.slice(slash + 1);
  if (host === "" || rest === "") {
    return [invalid(path, read, 'must be a domain-prefixed path (such as "acme.io/foo")')];
  }
  const errors = [...subdomain(host, path)];
  const form = `Invalid path (regex used for validation is '${HTTP_PATH}')`;
  return wholly(HTTP_PATH).test(rest) ? errors : [...errors, invalid(path, rest, form)];
};

const PERCENT = "[0-9]+%";

/** A count, or a percentage. */
export const share: Rule = (value, path) => {
  if (typeof value !== "string") {
    const count = typeof value === "number" ? value : 0;
    return count >= 0 ? [] : [invalid(path, count, "must be greater than or equal to 0")];
  }
  if (wholly(PERCENT).test(value)) return [];
  const what = "a valid percent string must be a numeric string followed by an ending '%'";
  return [invalid(path, value, formText(what, PERCENT, "1%", "93%"))];
};
