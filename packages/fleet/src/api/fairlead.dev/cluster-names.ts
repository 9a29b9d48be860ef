import { hash } from "node:crypto";
import { withoutTrailing } from "@fairlead/base/text.ts";

/** Names of derived objects: deterministic, valid, and never the same for two different sources. */

const BASE32_HEX = "0123456789abcdefghijklmnopqrstuv";

/** The first `length` characters of SHA-256 in base32hex (RFC 4648, section 7), lower case. 5 bits each. */
export function shortHash(text: string, length: number): string {
  const digest = hash("sha256", text, "buffer");
  let out = "";
  for (let at = 0; at < length; at += 1) {
    const bit = at * 5;
    const pair = ((digest[bit >> 3] ?? 0) << 8) | (digest[(bit >> 3) + 1] ?? 0);
    out += BASE32_HEX.charAt((pair >> (11 - (bit & 7))) & 31);
  }
  return out;
}

const HASH_LENGTH = 10;
const HASHED = /-[0-9a-v]{10}$/;
const DNS_LABEL = /^[a-z]([-a-z0-9]*[a-z0-9])?$/;
/** RFC 1123 subdomain and RFC 1035 label. Unit: characters. */
const SUBDOMAIN_LIMIT = 253;
const LABEL_LIMIT = 63;

/**
 * "namespace-name", as legacy agents write it, if it cannot be ambiguous; otherwise with a hash appended, because `a-b/c`
 * and `a/b-c` would share a name.
 */
function joined(namespace: string, name: string, limit: number): string {
  const plain = `${namespace}-${name}`;
  const unambiguous = !namespace.includes("-") && !HASHED.test(name);
  if (unambiguous && plain.length <= limit) return plain;
  const head = withoutTrailing(plain.slice(0, limit - HASH_LENGTH - 1), "-.");
  return `${head}-${shortHash(`${namespace}/${name}`, HASH_LENGTH)}`;
}

/** Name of the mailbox objects of a service: InternalServiceExport, InternalServiceImport, ImportedService. */
export function mailboxName(namespace: string, name: string): string {
  return joined(namespace, name, SUBDOMAIN_LIMIT);
}

/** Name, in `fleet-system`, of the Service behind a MultiClusterService: a DNS label that starts with a letter. */
export function loadBalancerServiceName(namespace: string, name: string): string {
  const plain = joined(namespace, name, LABEL_LIMIT);
  if (DNS_LABEL.test(plain)) return plain;
  const head = withoutTrailing(`s-${namespace}-${name}`.slice(0, LABEL_LIMIT - HASH_LENGTH - 1), "-");
  return `${head}-${shortHash(`${namespace}/${name}`, HASH_LENGTH)}`;
}

/** The name of the Service that carries the VIP of a multi-cluster ServiceImport. Same as the reference controller's. */
export function derivedServiceName(namespace: string, name: string): string {
  return `derived-${shortHash(`${namespace}/${name}`, HASH_LENGTH)}`;
}

const SLICE_HASH_LENGTH = 13;
/** 253 - 63 (cluster) - 63 (namespace) - 13 (hash) - 3 (dashes), less one. Unit: characters. */
const SLICE_NAME_LIMIT = 110;

/**
 * Name of the EndpointSliceExport of a slice, and of everything made from it. It begins with the cluster's name, which
 * people and tests look for, and ends in 65 bits of hash over all three parts.
 */
export function sliceExportName(cluster: string, namespace: string, slice: string): string {
  const head = withoutTrailing(`${cluster}-${namespace}-${slice.slice(0, SLICE_NAME_LIMIT)}`, "-.");
  return `${head}-${shortHash(`${cluster}/${namespace}/${slice}`, SLICE_HASH_LENGTH)}`;
}

export const GLOBAL_SLICE_SUFFIX = "-global";

/** The name of the slice next to those of a global Service: the one behind the import, in the same namespace, has that of the source. */
export function globalSliceName(source: string): string {
  return `${source}${GLOBAL_SLICE_SUFFIX}`;
}

/** Whether a cluster can have this name: a label of RFC 1123, which also fits a label value and a DNS name. */
export function isClusterName(text: string): boolean {
  return text.length <= LABEL_LIMIT && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(text);
}

/** Whether a Service can have this name: an RFC 1123 label, and an RFC 1035 one before Kubernetes 1.34. */
export function isServiceName(text: string): boolean {
  return isClusterName(text);
}
