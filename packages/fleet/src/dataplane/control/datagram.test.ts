import { createSecretKey } from "node:crypto";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { generateKeyPair } from "@fairlead/os/wireguard/keys.ts";
import { formatAddress } from "@fairlead/base/netaddr/address.ts";
import { CONTROL_BYTES, type ControlDatagram, encodeControl, headOf, openControl } from "./datagram.ts";
import { controlKey } from "./keys.ts";

const head = { from: fc.nat(1023), to: fc.nat(1023), epoch: fc.nat(0xffff_ffff), nonce: bytes(16) };
const observed = fc.record({
  address: fc.oneof(fc.nat(0xffff_ffff), fc.bigInt(1n << 64n, (1n << 128n) - 1n)).map(formatAddress),
  port: fc.nat(65_535),
});
const datagrams: fc.Arbitrary<ControlDatagram> = fc.oneof(
  fc.record({ ...head, kind: fc.constantFrom("register", "challenge"), cookie: bytes(16) }),
  fc.record({ ...head, kind: fc.constant("registered"), observed, lifetimeSeconds: fc.nat(0xffff_ffff) }),
  fc.record({ ...head, kind: fc.constant("probe") }),
  fc.record({ ...head, kind: fc.constant("probe-reply"), observed }),
);

const keys = bytes(32).map((it) => createSecretKey(it));

function bytes(length: number): fc.Arbitrary<Uint8Array> {
  return fc.uint8Array({ minLength: length, maxLength: length });
}

it("a control datagram is read as it was written, and is as long as any other", () => {
  fc.assert(
    fc.property(datagrams, keys, (datagram, key) => {
      const encoded = encodeControl(datagram, key);
      expect(encoded.length).toBe(CONTROL_BYTES);
      expect(openControl(encoded, key)).toEqual(datagram);
      expect(headOf(encoded)).toMatchObject({ kind: datagram.kind, from: datagram.from, to: datagram.to });
    }),
  );
});

it("a control datagram with any one bit changed is refused, and so is one of another key", () => {
  fc.assert(
    fc.property(datagrams, keys, keys, fc.nat(CONTROL_BYTES * 8 - 1), (datagram, key, other, bit) => {
      const encoded = encodeControl(datagram, key);
      fc.pre(!key.equals(other));
      expect(openControl(encoded, other)).toBeUndefined();
      encoded[bit >> 3] = (encoded[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(openControl(encoded, key)).toBeUndefined();
    }),
  );
});

it("bytes of any other length are refused, whatever they begin with", () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 200 }),
      fc.constantFrom(0xf1, 0xf2, 0xf3, 0xf5, 0xf6),
      (raw, kind) => {
        fc.pre(raw.length !== CONTROL_BYTES);
        raw.set([kind, 1].slice(0, raw.length));
        expect(headOf(raw)).toBeUndefined();
        expect(openControl(raw, createSecretKey(Buffer.alloc(32)))).toBeUndefined();
      },
    ),
  );
});

it("no control datagram begins like one of WireGuard", () => {
  fc.assert(
    fc.property(datagrams, keys, (datagram, key) => {
      expect(encodeControl(datagram, key)[0]).toBeGreaterThan(4);
    }),
  );
});

it("both owners of two key pairs derive one key for each purpose", () => {
  const [a, b] = [generateKeyPair(), generateKeyPair()];
  for (const purpose of ["relay", "probe"] as const)
    expect(
      controlKey(purpose, a.privateKey, b.publicKey).equals(controlKey(purpose, b.privateKey, a.publicKey)),
    ).toBe(true);
  expect(
    controlKey("relay", a.privateKey, b.publicKey).equals(controlKey("probe", a.privateKey, b.publicKey)),
  ).toBe(false);
});

it("a key that is not 32 bytes, or a point of small order, is refused", () => {
  const { privateKey } = generateKeyPair();
  for (const wrong of [
    "",
    "AAAA",
    Buffer.alloc(31).toString("base64"),
    `${Buffer.alloc(32).toString("base64")}\n`,
  ]) {
    expect(() => controlKey("relay", privateKey, wrong)).toThrow("is not a WireGuard key");
  }
  for (const point of [Buffer.alloc(32), Buffer.concat([Buffer.from([1]), Buffer.alloc(31)])])
    expect(() => controlKey("relay", privateKey, point.toString("base64"))).toThrow("small order");
});
