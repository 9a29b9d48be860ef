import { createPublicKey, diffieHellman, generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { Gateway } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { findGatewayProblem, gatewayName, isPublicKey } from "./gateway.ts";

function newKey(): string {
  const { x } = generateKeyPairSync("x25519").publicKey.export({ format: "jwk" });
  return Buffer.from(x ?? "", "base64url").toString("base64");
}
const [KEY, OTHER] = [newKey(), newKey()];

function gateway(spec: object = {}, name = "east-1"): Gateway {
  return {
    metadata: { name },
    spec: {
      cluster: "east",
      ordinal: 1,
      node: "node-1.example",
      keys: [{ epoch: 1, publicKey: KEY }],
      basePort: 31_820,
      ...spec,
    },
  };
}

describe("a public key", () => {
  it("has one text, so that one key cannot be announced as two", () => {
    expect(isPublicKey(KEY)).toBe(true);
    const last = KEY.charAt(42);
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const twin = `${KEY.slice(0, 42)}${alphabet[alphabet.indexOf(last) + 1]}=`;
    expect(Buffer.from(twin, "base64")).toEqual(Buffer.from(KEY, "base64"));
    expect(isPublicKey(twin)).toBe(false);
    const high = Buffer.from(KEY, "base64");
    high[31] = (high[31] ?? 0) | 0x80;
    expect(isPublicKey(high.toString("base64"))).toBe(false);
  });

  it.each([
    "00".repeat(32),
    `01${"00".repeat(31)}`,
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    `ec${"ff".repeat(30)}7f`,
  ])("is not %s, with which there is no secret", (hex) => {
    const bytes = Buffer.from(hex, "hex");
    const { privateKey } = generateKeyPairSync("x25519");
    const publicKey = createPublicKey({
      key: { kty: "OKP", crv: "X25519", x: bytes.toString("base64url") },
      format: "jwk",
    });
    expect(() => diffieHellman({ privateKey, publicKey })).toThrow("derivation");
    expect(isPublicKey(bytes.toString("base64"))).toBe(false);
  });

  it.each(["", KEY.slice(1), `${KEY}=`, `${KEY.slice(0, -1)}A`, `ed${"ff".repeat(30)}7f`, 7, undefined])(
    "is not %j",
    (text) => {
      expect(isPublicKey(text)).toBe(false);
    },
  );
});

describe("a gateway", () => {
  it("is valid without keys and candidates, which its node adds later", () => {
    expect(findGatewayProblem(gateway(), "east")).toBeUndefined();
    expect(findGatewayProblem(gateway({ keys: undefined, basePort: undefined }), "east")).toBeUndefined();
  });

  it("has a name that no gateway of another cluster has", () => {
    expect(gatewayName("a-1", 0)).not.toBe(gatewayName("a", 1));
    expect(gatewayName("a-1", 0)).toBe("a-1-0");
  });

  it.each<[string, object, string]>([
    ["spec.cluster", { cluster: "west" }, "mailbox of east"],
    ["spec.ordinal", { ordinal: 2 }, "not that of the name"],
    ["spec.node", { node: "../etc" }, "spec.node"],
    ["spec.keys", { keys: Array.from({ length: 10_000 }, () => ({})) }, "10000 keys"],
    ["spec.keys", { keys: [{ epoch: 1, publicKey: "AAAA" }] }, '"AAAA"'],
    ["spec.keys", { keys: [{ epoch: 0.5, publicKey: KEY }] }, "epoch 0.5"],
    ["spec.keys", { keys: [{ epoch: 1_000_000_000, publicKey: KEY }] }, "epoch 1000000000"],
    ["spec.basePort", { basePort: 53 }, "spec.basePort 53 is not 1024 to 65528"],
    [
      "spec.keys",
      {
        keys: [
          { epoch: 1, publicKey: KEY },
          { epoch: 1, publicKey: OTHER },
        ],
      },
      "one epoch",
    ],
    ["spec.basePort", { basePort: 65_529 }, "spec.basePort 65529 is not 1024 to 65528"],
    ["spec.candidates", { candidates: Array.from({ length: 10_000 }, () => ({})) }, "10000 entries"],
  ])("with a fault in %s is refused, with a message that names it", (field, spec, found) => {
    const problem = findGatewayProblem(gateway(spec), "east");
    expect(problem).toContain(field);
    expect(problem).toContain(found);
    expect(problem?.length).toBeLessThan(300);
  });
});
