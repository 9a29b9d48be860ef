import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from "node:crypto";

/** A certificate with its private key, both in PEM. */
export interface CertificatePair {
  readonly cert: string;
  /** PKCS #8. */
  readonly key: string;
}

/**
 * A new P-256 private key in PEM (PKCS #8). P-256 because a handshake with it costs a tenth of what RSA 2048 costs, and
 * clients of an API server open connections often.
 */
export function generatePrivateKey(): string {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return pemOf(privateKey, "pkcs8");
}

/** The public half of a private key, in PEM (SPKI). */
export function publicKeyOf(privateKey: string): string {
  return pemOf(createPublicKey(createPrivateKey(privateKey)), "spki");
}

function pemOf(key: KeyObject, type: "pkcs8" | "spki"): string {
  const text = type === "pkcs8" ? key.export({ type, format: "pem" }) : key.export({ type, format: "pem" });
  return text.toString();
}
