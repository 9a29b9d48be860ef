import { expect, it } from "vitest";
import { clampedPrivateKey, generateKeyPair, keyBytes, publicKeyOf, sharedSecret } from "./keys.ts";

/** Pairs as `wg genkey` and `wg pubkey` print them; the last private key has bits that are not used. */
const PAIRS = [
  ["8JLxW3+taLylGpV3DdqtCUTiYhLw4NJt+UodM+fkEno=", "e5HxD8IpzkbVl2pegQ6hbn1L1kUHTVDZkitI1Ep3gQY="],
  ["iPKMzRttbSBDod5bbCGTct1p8X15hAjT+kXxe0NLGHM=", "Bt02ySe+zfYv4lXXWmK1/g/hWad9P+8ubzMc8RoE+gY="],
  ["//////////////////////////////////////////8=", "hHwNLDdSNPNl5mCVUYejc1oPdhPRYJ06ak2MU66qWiI="],
] as const;
const [[privateKey, publicKey]] = PAIRS;

it.each(PAIRS)("the public key of %s is that of wg pubkey", (own, other) => {
  expect(publicKeyOf(own)).toBe(other);
  expect(publicKeyOf(clampedPrivateKey(own))).toBe(other);
});

it("a generated private key is as WireGuard keeps it, and new each time", () => {
  const pair = generateKeyPair();
  expect(clampedPrivateKey(pair.privateKey)).toBe(pair.privateKey);
  expect(publicKeyOf(pair.privateKey)).toBe(pair.publicKey);
  expect(generateKeyPair().privateKey).not.toBe(pair.privateKey);
});

it("two owners derive the same secret from each other's public key", () => {
  const other = generateKeyPair();
  const secret = sharedSecret(privateKey, other.publicKey);
  expect(secret).toEqual(sharedSecret(other.privateKey, publicKey));
  expect(secret).toHaveLength(32);
});

it.each([0, 1])("a public key that gives everybody the same secret is refused (%i)", (first) => {
  const weak = Buffer.alloc(32);
  weak[0] = first;
  expect(() => sharedSecret(privateKey, weak.toString("base64"))).toThrow(/small order/);
});

it.each([
  ["empty", ""],
  ["31 bytes", Buffer.alloc(31).toString("base64")],
  ["33 bytes", Buffer.alloc(33).toString("base64")],
  ["hexadecimal", "0".repeat(64)],
  ["of another alphabet", Buffer.alloc(32, 255).toString("base64url")],
  ["without padding", publicKey.slice(0, -1)],
  ["with a line feed", `${publicKey}\n`],
  ["with bits behind its end", `${"A".repeat(42)}B=`],
])("a key that is %s is refused, and not shown", (_, text) => {
  expect(() => keyBytes(text, "peers[0].publicKey")).toThrow(
    "peers[0].publicKey is not a WireGuard key: 32 bytes in base64, 44 characters",
  );
});
