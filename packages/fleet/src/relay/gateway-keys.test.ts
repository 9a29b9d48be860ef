import { expect, it } from "vitest";
import { GatewayKeys, parseGateways, relayGateway } from "./gateway-keys.ts";

const KEYS = ["A", "B"].map((letter) => Buffer.alloc(32, letter).toString("base64")) as [string, string];
const gateway = (name: string, index: number, publicKey = KEYS[0]) => ({
  name,
  index,
  keys: [{ epoch: 1, publicKey }],
});

it("the key of a gateway is found by its index and epoch, and by no other", () => {
  const keys = new GatewayKeys(KEYS[1]);
  keys.set([gateway("a-0", 0)]);
  expect(keys.keyOf(0, 1)?.symmetricKeySize).toBe(32);
  expect(keys.keyOf(0, 2)).toBeUndefined();
  expect(keys.keyOf(1, 1)).toBeUndefined();
  keys.set([]);
  expect(keys.keyOf(0, 1)).toBeUndefined();
});

it("a public key that is not one gives no key, and other gateways theirs", () => {
  const keys = new GatewayKeys(KEYS[1]);
  keys.set([
    gateway("a-0", 0, "no key"),
    gateway("b-0", 1, Buffer.alloc(32).toString("base64")),
    gateway("c-0", 2),
  ]);
  expect([0, 1, 2].map((it) => keys.keyOf(it, 1)?.symmetricKeySize)).toEqual([undefined, undefined, 32]);
});

it("an index that two gateways claim belongs to the first by name", () => {
  const keys = new GatewayKeys(KEYS[1]);
  for (const order of [
    ["a-0", "b-0"],
    ["b-0", "a-0"],
  ]) {
    keys.set(order.map((name) => gateway(name, 0)));
    expect(keys.nameOf(0)).toBe("a-0");
  }
});

it("a Gateway without an index has no port", () => {
  const spec = { cluster: "a", ordinal: 0, node: "n" };
  expect(relayGateway({ metadata: { name: "a-0" }, spec })).toBeUndefined();
  expect(relayGateway({ metadata: { name: "a-0" }, spec: { ...spec, index: 1024 } })).toBeUndefined();
  expect(relayGateway({ metadata: { name: "a-0" }, spec: { ...spec, index: 7 } })).toEqual({
    name: "a-0",
    index: 7,
    keys: [],
  });
});

it("a file of gateways is read, or refused with the field that is wrong", () => {
  expect(parseGateways(JSON.stringify([gateway("a-0", 3)]))).toEqual([gateway("a-0", 3)]);
  for (const [value, message] of [
    ["{", "is not JSON"],
    ["{}", "is not a JSON list"],
    [JSON.stringify([gateway("", 0)]), "[0].name"],
    [JSON.stringify([gateway("a", 1024)]), "[0].index"],
    [JSON.stringify([gateway("a", 0), { name: "b", index: 1 }]), "[1].keys"],
    [JSON.stringify([gateway("a", 0, "short")]), "publicKey"],
  ] as const)
    expect(() => parseGateways(value)).toThrow(message);
});
