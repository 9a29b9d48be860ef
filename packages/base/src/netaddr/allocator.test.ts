import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatAddress, parseAddress } from "./address.ts";
import { AddressAllocator, hostRange } from "./allocator.ts";
import { containsAddress, parsePrefix } from "./prefix.ts";

const range = (first: string, last: string) => ({ first: parseAddress(first), last: parseAddress(last) });

describe("an address allocator", () => {
  it("hands out each address once, only from its ranges, until none is left", () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant("allocate" as const), key: fc.option(fc.string(), { nil: undefined }) }),
      fc.record({ do: fc.constant("reserve" as const), offset: fc.nat({ max: 20 }) }),
      fc.record({ do: fc.constant("release" as const), offset: fc.nat({ max: 20 }) }),
    );
    const base = parseAddress("10.0.0.0") as number;
    const ranges = [range("10.0.0.1", "10.0.0.4"), range("10.0.0.10", "10.0.0.15")];
    const inRange = (value: number | bigint): boolean =>
      ranges.some(({ first, last }) => first <= value && value <= last);
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const allocator = new AddressAllocator(ranges);
        const model = new Set<number | bigint>();
        for (const change of steps) {
          if (change.do === "allocate") {
            const address = allocator.allocate(change.key);
            if (address === undefined) expect(model.size).toBe(10);
            else {
              expect(model.has(address)).toBe(false);
              expect(inRange(address)).toBe(true);
              model.add(address);
            }
          } else if (change.do === "reserve") {
            const address = base + change.offset;
            const want = inRange(address) ? (model.has(address) ? "taken" : "reserved") : "out of range";
            expect(allocator.reserve(address)).toBe(want);
            if (want === "reserved") model.add(address);
          } else {
            expect(allocator.release(base + change.offset)).toBe(model.delete(base + change.offset));
          }
          expect(allocator.taken).toBe(model.size);
        }
      }),
    );
  });

  it("takes the lowest free address if there is no key", () => {
    const allocator = new AddressAllocator([hostRange(parsePrefix("10.0.0.0/29"))]);
    allocator.reserve(parseAddress("10.0.0.2"));
    const next = (): string | undefined => {
      const address = allocator.allocate();
      return address === undefined ? undefined : formatAddress(address);
    };
    expect([next(), next(), next()]).toEqual(["10.0.0.1", "10.0.0.3", "10.0.0.4"]);
    allocator.release(parseAddress("10.0.0.1"));
    expect([next(), next(), next(), next()]).toEqual(["10.0.0.1", "10.0.0.5", "10.0.0.6", undefined]);
  });

  it("gives a key the same address in every life, when it is free", () => {
    const prefix = parsePrefix("fd00:1::/64");
    const keys = ["work/hello", "work/db", "kube-system/dns"];
    const lives = [1, 2].map(() => {
      const allocator = new AddressAllocator([hostRange(prefix)]);
      return keys.map((key) => allocator.allocate(key));
    });
    expect(lives[0]).toEqual(lives[1]);
    expect(new Set(lives[0]).size).toBe(keys.length);
    for (const address of lives[0] ?? []) expect(containsAddress(prefix, address ?? 0n)).toBe(true);
  });

  it("keeps the network and broadcast addresses of a prefix for themselves", () => {
    expect(hostRange(parsePrefix("10.0.0.0/24"))).toEqual(range("10.0.0.1", "10.0.0.254"));
    expect(hostRange(parsePrefix("fd00::/120"))).toEqual(range("fd00::1", "fd00::ff"));
    expect(hostRange(parsePrefix("10.0.0.0/31"))).toEqual(range("10.0.0.0", "10.0.0.1"));
    expect(hostRange(parsePrefix("10.0.0.7/32"))).toEqual(range("10.0.0.7", "10.0.0.7"));
  });

  it("refuses ranges that are empty, overlap or mix families, all at once", () => {
    const make = () =>
      new AddressAllocator([
        range("10.0.0.1", "10.0.0.9"),
        range("10.0.0.5", "10.0.0.4"),
        range("10.0.0.9", "10.0.0.12"),
        range("fd00::1", "fd00::2"),
      ]);
    expect(make).toThrow(/is empty; .* overlaps another range; .* is of another family/);
    expect(() => new AddressAllocator([])).toThrow("there is no range");
  });
});
