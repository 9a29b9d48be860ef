import { X509Certificate } from "node:crypto";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;

/** The certificates in a PEM text, in order; other blocks are ignored. */
function readBundle(pem: string): readonly X509Certificate[] {
  return [...pem.matchAll(CERTIFICATE)].flatMap(([block]) => {
    try {
      return [new X509Certificate(block)];
    } catch {
      return [];
    }
  });
}

/** Whether every certificate of `part` is in `whole`; false for a part without any. */
export function isPartOf(part: string, whole: string): boolean {
  const known = fingerprints(whole);
  const asked = fingerprints(part);
  return asked.size > 0 && asked.isSubsetOf(known);
}

/** Whether two bundles have a certificate in common. */
export function isRelated(a: string, b: string): boolean {
  return !fingerprints(a).isDisjointFrom(fingerprints(b));
}

/** Whether two bundles hold the same certificates. */
export function isSameBundle(a: string, b: string): boolean {
  const [left, right] = [fingerprints(a), fingerprints(b)];
  return left.size === right.size && left.isSubsetOf(right);
}

/** Whether one of the authorities in `bundle` signed the certificate. */
export function isSignedByOneOf(bundle: string, cert: string): boolean {
  const [leaf] = readBundle(cert);
  return (
    leaf !== undefined && readBundle(bundle).some((it) => leaf.checkIssued(it) && leaf.verify(it.publicKey))
  );
}

function fingerprints(pem: string): ReadonlySet<string> {
  return new Set(readBundle(pem).map((it) => it.fingerprint256));
}
