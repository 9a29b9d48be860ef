import { BlockList } from "node:net";
import * as fc from "fast-check";
import { Address4, Address6 } from "ip-address";
import { describe, expect, it } from "vitest";
import { familyOf, formatAddress, type IpAddress, parseAddress } from "./address.ts";
import {
  addressAt,
  containsAddress,
  containsPrefix,
  formatPrefix,
  lastAddress,
  overlaps,
  parsePrefix,
  type Prefix,
  prefixOf,
  sizeOf,
  subnetAt,
  subnets,
  tryParsePrefix,
} from "./prefix.ts";

const ipv4 = fc.nat({ max: 0xffff_ffff });
const ipv6 = fc.bigInt({ min: 0n, max: (1n << 128n) - 1n });
const prefix = fc.oneof(
  fc.tuple(ipv4, fc.nat({ max: 32 })).map(([address, length]) => prefixOf(address, length)),
  fc.tuple(ipv6, fc.nat({ max: 128 })).map(([address, length]) => prefixOf(address, length)),
);

function oracle(of: Prefix): Address4 | Address6 {
  return of.family === "IPv4" ? new Address4(formatPrefix(of)) : new Address6(formatPrefix(of));
}

function blocks(of: Prefix, address: IpAddress): boolean {
  const list = new BlockList();
  list.addSubnet(formatAddress(of.network), of.length, of.family === "IPv4" ? "ipv4" : "ipv6");
  return list.check(formatAddress(address), familyOf(address) === "IPv4" ? "ipv4" : "ipv6");
}

describe("a prefix", () => {
  it("is read and written without loss", () => {
    fc.assert(
      fc.property(prefix, (of) => {
        expect(parsePrefix(formatPrefix(of))).toEqual(of);
      }),
    );
  });

  it("begins and ends where ip-address says", () => {
    fc.assert(
      fc.property(prefix, (of) => {
        expect(BigInt(of.network)).toBe(oracle(of).startAddress().bigInt());
        expect(BigInt(lastAddress(of))).toBe(oracle(of).endAddress().bigInt());
        expect(sizeOf(of)).toBe(BigInt(lastAddress(of)) - BigInt(of.network) + 1n);
      }),
    );
  });

  it("contains what net.BlockList matches", () => {
    const near = fc.tuple(prefix, fc.nat({ max: 128 }), fc.boolean()).map(([of, bit, flip]) => {
      // An address of the prefix with one bit flipped: as often outside as inside.
      const width = of.family === "IPv4" ? 32 : 128;
      const value = BigInt(of.network) ^ (flip ? 1n << BigInt(bit % width) : 0n);
      return { of, address: of.family === "IPv4" ? Number(value) : value };
    });
    fc.assert(
      fc.property(near, ({ of, address }) => {
        expect(containsAddress(of, address)).toBe(blocks(of, address));
      }),
      { numRuns: 1000 },
    );
  });

  it("never contains an address of the other family, mapped or not", () => {
    expect(containsAddress(parsePrefix("::/0"), parseAddress("10.0.0.1"))).toBe(false);
    expect(containsAddress(parsePrefix("0.0.0.0/0"), parseAddress("::ffff:10.0.0.1"))).toBe(false);
  });

  it("overlaps another exactly when one contains the other", () => {
    fc.assert(
      fc.property(prefix, prefix, (a, b) => {
        const shared = a.family === b.family && a.network <= lastAddress(b) && b.network <= lastAddress(a);
        expect(overlaps(a, b)).toBe(shared);
        expect(overlaps(b, a)).toBe(shared);
      }),
    );
    expect(overlaps(parsePrefix("10.0.0.0/8"), parsePrefix("10.9.0.0/16"))).toBe(true);
    expect(overlaps(parsePrefix("10.0.0.0/9"), parsePrefix("10.128.0.0/9"))).toBe(false);
  });

  it("is made up of its subnets, in order and without gaps", () => {
    fc.assert(
      fc.property(prefix, fc.nat({ max: 5 }), (of, more) => {
        const length = Math.min(of.length + more, of.family === "IPv4" ? 32 : 128);
        const parts = [...subnets(of, length)];
        expect(parts[0]?.network).toBe(of.network);
        expect(lastAddress(parts.at(-1) ?? of)).toBe(lastAddress(of));
        for (const [index, part] of parts.entries()) {
          expect(containsPrefix(of, part)).toBe(true);
          expect(subnetAt(of, length, index)).toEqual(part);
          const next = parts[index + 1];
          if (next !== undefined) expect(BigInt(next.network)).toBe(BigInt(lastAddress(part)) + 1n);
        }
      }),
    );
  });

  it("counts addresses from both ends", () => {
    const of = parsePrefix("10.0.0.0/24");
    expect(formatAddress(addressAt(of, 10))).toBe("10.0.0.10");
    expect(formatAddress(addressAt(of, -2))).toBe("10.0.0.254");
    expect(formatAddress(addressAt(parsePrefix("fd00::/64"), 1n << 32n))).toBe("fd00::1:0:0");
    expect(() => addressAt(of, 256)).toThrow(expect.objectContaining({ code: "ADDRESS_INVALID" }));
    expect(() => addressAt(of, -257)).toThrow(expect.objectContaining({ code: "ADDRESS_INVALID" }));
    expect(() => subnetAt(of, 26, 4)).toThrow(expect.objectContaining({ code: "ADDRESS_INVALID" }));
  });

  it("is refused with host bits, unless they are to be cleared", () => {
    expect(() => parsePrefix("10.0.0.1/8")).toThrow("write 10.0.0.0/8");
    expect(formatPrefix(parsePrefix("10.0.0.1/8", { hostBits: "clear" }))).toBe("10.0.0.0/8");
    expect(formatPrefix(parsePrefix("fd00::1/64", { hostBits: "clear" }))).toBe("fd00::/64");
  });

  it.each([
    "10.0.0.0",
    "10.0.0.0/",
    "10.0.0.0/33",
    "10.0.0.0/08",
    "10.0.0.0/ 8",
    "fd00::/129",
    "/8",
    "10.0.0.0/-1",
  ])("%j is refused", (text) => expect(tryParsePrefix(text)).toBeUndefined());
});
