import { createSecretKey, hkdfSync, type KeyObject } from "node:crypto";
import { sharedSecret } from "@fairlead/os/wireguard/keys.ts";

/** Use of a key. Keys of different purposes differ. */
export type ControlPurpose = "relay" | "probe";

const KEY_BYTES = 32;

/**
 * The key that authenticates control datagrams between the owners of two key pairs of WireGuard. A KeyObject, with which an HMAC takes a
 * fifth of the time that it takes with the bytes.
 *
 * @throws {FleetError} `OPTION_INVALID` if a key is not one of X25519, or the public one is a point of small order.
 */
export function controlKey(purpose: ControlPurpose, ownPrivate: string, otherPublic: string): KeyObject {
  const secret = sharedSecret(ownPrivate, otherPublic);
  const key = hkdfSync("sha256", secret, Buffer.alloc(0), `fairlead ${purpose} v1`, KEY_BYTES);
  return createSecretKey(Buffer.from(key));
}
