/** Checks which texts of API objects may become DNS labels. The API server checks most of them; other sources are not trusted. */

const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/** Dashed IPv6 addresses begin or end with a dash where the address has `::` at its end. */
const DASHED = /^[a-z0-9-]{1,63}$/;

/** Whether `text` is an RFC 1123 label: names of Services, namespaces, ports, clusters and hosts. */
export function isLabel(text: string): boolean {
  return LABEL.test(text);
}

/** Whether `text` is one or more RFC 1123 labels joined by dots: a cluster id may be `name.context` (KEP-2149). */
export function isSubdomain(text: string): boolean {
  return text.length <= 253 && text.split(".").every(isLabel);
}

/** An address as a label: "10-1-2-3", "fd00--1". A colon at an end gets a zero, as CoreDNS writes it. */
export function dashedAddress(text: string): string {
  const dashed = text.replaceAll(/[.:]/g, "-");
  const padded = `${dashed.startsWith("-") ? "0" : ""}${dashed}${dashed.endsWith("-") ? "0" : ""}`;
  return DASHED.test(padded) ? padded : "";
}
