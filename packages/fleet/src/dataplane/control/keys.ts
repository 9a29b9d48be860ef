import { createPrivateKey, createPublicKey, diffieHellman, hkdfSync, type KeyObject } from "node:crypto";
import { FleetError } from "@fairlead/base/errors.ts";

/** WireGuard's keys (X25519, 32 bytes, Base64) and what is derived from them for control datagrams. */

const KEY_BYTES = 32;
/** What precedes the 32 bytes of a key in PKCS #8 and SubjectPublicKeyInfo (RFC 8410, section 7). */
const PRIVATE_HEAD = Buffer.from("302e020100300506032b656e04220420", "hex");
const PUBLIC_HEAD = Buffer.from("302a300506032b656e032100", "hex");
/** Base64 of 32 bytes: `wg` accepts no other spelling. */
const BASE64 = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;

/** Use of a key. Keys of different purposes differ. */
export type ControlPurpose = "relay" | "probe";

/**
 * The key that authenticates control datagrams between the owners of two key pairs.
 *
 * @throws {FleetError} `OPTION_INVALID` if a key is not one of X25519, or the public one is a point of small order.
 */
export function controlKey(purpose: ControlPurpose, ownPrivate: string, otherPublic: string): Buffer {
  const privateKey = privateKeyOf(ownPrivate);
  const publicKey = createPublicKey({
    key: Buffer.concat([PUBLIC_HEAD, keyBytes("public", otherPublic)]),
    format: "der",
    type: "spki",
  });
  let secret: Buffer;
  try {
    secret = diffieHellman({ privateKey, publicKey });
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", "the public key is a point of small order", { cause });
  }
  return Buffer.from(hkdfSync("sha256", secret, Buffer.alloc(0), `fairlead ${purpose} v1`, KEY_BYTES));
}

/** The public key of a private one. Both Base64. */
export function publicKeyOf(ownPrivate: string): string {
  const der = createPublicKey(privateKeyOf(ownPrivate)).export({ format: "der", type: "spki" });
  return der.subarray(PUBLIC_HEAD.length).toString("base64");
}

/** Whether the text is a key as WireGuard writes it. */
export function isKey(text: string): boolean {
  return BASE64.test(text);
}

function privateKeyOf(text: string): KeyObject {
  const key = Buffer.concat([PRIVATE_HEAD, keyBytes("private", text)]);
  return createPrivateKey({ key, format: "der", type: "pkcs8" });
}

function keyBytes(what: "private" | "public", text: string): Buffer {
  if (isKey(text)) return Buffer.from(text, "base64");
  throw new FleetError("OPTION_INVALID", `the ${what} key is not 32 bytes in Base64`);
}
