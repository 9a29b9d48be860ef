import { createHash, createPrivateKey, createPublicKey, sign } from "node:crypto";

/** The digests of files, as `sha256sum --check` reads them. */
export function sumsOf(files: ReadonlyMap<string, Uint8Array>): string {
  return [...files]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, data]) => `${createHash("sha256").update(data).digest("hex")}  ${name}\n`)
    .join("");
}

export interface Signature {
  /** Ed25519 (RFC 8032), 64 bytes, as `openssl pkeyutl -verify -rawin` reads it. */
  readonly signature: Uint8Array;
  /** Of the key that signed, as PEM. */
  readonly publicKey: string;
}

/** @param key - An Ed25519 private key as PEM, such as `openssl genpkey -algorithm ed25519` makes. */
export function signSums(sums: string, key: string): Signature {
  const privateKey = createPrivateKey(key);
  if (privateKey.asymmetricKeyType !== "ed25519")
    throw new Error(
      `cannot sign the release: the key is ${privateKey.asymmetricKeyType}, and must be Ed25519`,
    );
  const publicKey = createPublicKey(privateKey).export({ type: "spki", format: "pem" });
  return { signature: sign(null, Buffer.from(sums), privateKey), publicKey: String(publicKey) };
}
