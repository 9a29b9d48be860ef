import { isIPv4, isIPv6 } from "node:net";

/**
 * The formats of strings that custom resources' schemas are checked for; others mean nothing. Source: kube-openapi,
 * pkg/validation/strfmt; apiextensions-apiserver, "supported formats".
 */

const RFC3339 =
  /^(\d{4})-(\d\d)-(\d\d)[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$/;
const DATE = /^(\d{4})-(\d\d)-(\d\d)$/;
const HOSTNAME =
  /^(?=.{1,253}$)[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*$/;
const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const SUBDOMAIN = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const EMAIL = /^[^\s@<>]+@[^\s@<>]+$/;
const MAC = /^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$/;
/** Go's time.ParseDuration. */
const GO_DURATION = /^[-+]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$/;
/** Words of strfmt: "2 days". */
const WORD_DURATION =
  /^\d+\s*(ns|nano\w*|us|µs|micro\w*|ms|milli\w*|s|sec\w*|m|min\w*|h|hr|hour\w*|d|day\w*|w|wk|week\w*)$/;

function isDay(parts: RegExpExecArray | null): boolean {
  if (parts === null) return false;
  const [year, month, day] = [Number(parts[1]), Number(parts[2]), Number(parts[3])];
  return (
    month >= 1 && month <= 12 && new Date(Date.UTC(year, month - 1, day)).getUTCDate() === day && day >= 1
  );
}

function isUri(text: string): boolean {
  return text.startsWith("/") || URL.canParse(text);
}

/** "10.0.0.0/8": an address and the length of its prefix. */
function isCidr(text: string): boolean {
  const [, address = "", length = ""] = /^(.+)\/(\d{1,3})$/.exec(text) ?? [];
  if (isIPv4(address)) return Number(length) <= 32;
  return isIPv6(address) && Number(length) <= 128;
}

function isUuid(version: string): (text: string) => boolean {
  const form = new RegExp(
    `^[0-9a-f]{8}-?[0-9a-f]{4}-?${version}[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$`,
    "i",
  );
  return (text) => form.test(text);
}

const dateTime = (text: string): boolean => isDay(RFC3339.exec(text));

const CHECKS: ReadonlyMap<string, (text: string) => boolean> = new Map<string, (text: string) => boolean>([
  ["date-time", dateTime],
  ["datetime", dateTime],
  ["date", (text) => isDay(DATE.exec(text))],
  ["duration", (text) => GO_DURATION.test(text) || WORD_DURATION.test(text)],
  ["ipv4", isIPv4],
  ["ipv6", isIPv6],
  ["cidr", isCidr],
  ["mac", (text) => MAC.test(text)],
  ["hostname", (text) => HOSTNAME.test(text)],
  ["email", (text) => EMAIL.test(text)],
  ["uri", isUri],
  ["uuid", isUuid("[0-9a-f]")],
  ["uuid3", isUuid("3")],
  ["uuid4", isUuid("4")],
  ["uuid5", isUuid("5")],
  ["byte", (text) => BASE64.test(text)],
  ["k8s-short-name", (text) => LABEL.test(text)],
  ["k8s-long-name", (text) => SUBDOMAIN.test(text)],
]);

/** Whether a string has the format; true for unknown formats. */
export function isOfFormat(text: string, format: string): boolean {
  return CHECKS.get(format)?.(text) ?? true;
}

/** Formats that are taken without being checked. */
const UNCHECKED = [
  "bsonobjectid",
  "isbn",
  "isbn10",
  "isbn13",
  "creditcard",
  "ssn",
  "hexcolor",
  "rgbcolor",
  "password",
];
const KNOWN_TEXTS = new Set([...CHECKS.keys(), ...UNCHECKED].map(normalized));
const KNOWN_NUMBERS = new Map([
  ["integer", ["int32", "int64"]],
  ["number", ["float", "double"]],
]);

function normalized(format: string): string {
  return format.replaceAll("-", "");
}

/** Whether the format means something for values of the type. */
export function isKnownFormat(format: string, type: string | undefined): boolean {
  if (type === undefined || type === "string") return KNOWN_TEXTS.has(normalized(format));
  return KNOWN_NUMBERS.get(type)?.includes(format) ?? false;
}
