import {
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  type KeyObject,
} from "node:crypto";
import { FleetError } from "@fairlead/base/errors.ts";

/** Keys of WireGuard: 32 bytes of X25519 (RFC 7748), as base64 with padding. */
export interface WireguardKeyPair {
  readonly privateKey: string;
  readonly publicKey: string;
}

/** 32 bytes: 43 digits, of which the last has two zero bits, and one character of padding. */
const KEY = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;

/** DER of what precedes the 32 bytes of a key. Source: RFC 8410. */
const PRIVATE_HEADER = Buffer.from("302e020100300506032b656e04220420", "hex");
const PUBLIC_HEADER = Buffer.from("302a300506032b656e032100", "hex");

export function generateKeyPair(): WireguardKeyPair {
  const { privateKey } = generateKeyPairSync("x25519");
  const raw = privateKey.export({ format: "der", type: "pkcs8" }).subarray(PRIVATE_HEADER.length);
  const text = clamp(raw).toString("base64");
  return { privateKey: text, publicKey: publicKeyOf(text) };
}

export function publicKeyOf(privateKey: string): string {
  const der = createPublicKey(privateObject(privateKey)).export({ format: "der", type: "spki" });
  return der.subarray(PUBLIC_HEADER.length).toString("base64");
}

/**
 * The secret that the owners of two keys share, to derive other keys from.
 *
 * @throws {FleetError} `OPTION_INVALID` for malformed keys, and for public keys that give everybody the same secret.
 */
export function sharedSecret(privateKey: string, publicKey: string): Buffer {
  const key = Buffer.concat([PUBLIC_HEADER, keyBytes(publicKey, "the public key")]);
  try {
    return diffieHellman({
      privateKey: privateObject(privateKey),
      publicKey: createPublicKey({ key, format: "der", type: "spki" }),
    });
  } catch (cause) {
    // OpenSSL refuses points of small order (RFC 7748, section 6.1).
    throw new FleetError("OPTION_INVALID", "the public key is not usable: it is a point of small order", {
      cause,
    });
  }
}

/**
 * The 32 bytes of a key.
 *
 * @param what - Subject of the message, such as "peers[0].publicKey". The message does not show the key.
 * @throws {FleetError} `OPTION_INVALID`
 */
export function keyBytes(text: string, what: string): Buffer {
  if (KEY.test(text)) return Buffer.from(text, "base64");
  throw new FleetError("OPTION_INVALID", `${what} is not a WireGuard key: 32 bytes in base64, 44 characters`);
}

/** A private key as WireGuard returns it: some bits are fixed (RFC 7748, section 5). */
export function clampedPrivateKey(text: string): string {
  return clamp(keyBytes(text, "privateKey")).toString("base64");
}

function clamp(raw: Buffer): Buffer {
  const key = Buffer.from(raw);
  key[0] = (key[0] ?? 0) & 248;
  key[31] = ((key[31] ?? 0) & 127) | 64;
  return key;
}

function privateObject(privateKey: string): KeyObject {
  const key = Buffer.concat([PRIVATE_HEADER, keyBytes(privateKey, "the private key")]);
  return createPrivateKey({ key, format: "der", type: "pkcs8" });
}
