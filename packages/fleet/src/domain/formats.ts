/**
 * Formats that Kubernetes asks of what exports bring into other clusters. An API server there would refuse the whole object,
 * and with it what others brought. Sources: apimachinery, pkg/util/validation; core and discovery validation.
 */

const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const NAME = /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;
/** IANA service names: what a `targetPort` may be called. */
const PORT_NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;

/** RFC 1123 label. */
export function isDnsLabel(text: string): boolean {
  return text.length <= 63 && LABEL.test(text);
}

/** RFC 1123 subdomain. */
export function isSubdomain(text: string): boolean {
  return text.length <= 253 && text.split(".").every((it) => LABEL.test(it));
}

/** "prefix/name", the prefix optional: keys of labels and annotations, application protocols. */
export function isQualifiedName(text: string): boolean {
  if (text.length > 317) return false;
  const slash = text.indexOf("/");
  const name = text.slice(slash + 1);
  return name.length <= 63 && NAME.test(name) && (slash < 0 || isSubdomain(text.slice(0, slash)));
}

/** Keys of annotations may be in upper case: their prefix is read in lower case. */
export function isAnnotationKey(text: string): boolean {
  return isQualifiedName(text.toLowerCase());
}

export function isLabelValue(text: string): boolean {
  return text === "" || (text.length <= 63 && NAME.test(text));
}

/** A name of a container's port. */
export function isPortName(text: string): boolean {
  return text.length <= 15 && PORT_NAME.test(text) && !text.includes("--") && /[a-z]/.test(text);
}

export function isPortNumber(value: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= 65_535;
}

/** Formats an untrusted value for a message: short, and on one line. */
export function shown(value: unknown): string {
  return JSON.stringify(typeof value === "string" ? value.slice(0, 60) : value) ?? "nothing";
}
