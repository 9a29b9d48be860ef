import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { allocateVirtualIPs, type Claimant } from "./virtual-ips.ts";

const BLOCKS = { vipIPv4: parsePrefix("10.127.0.0/28"), vipIPv6: parsePrefix("fd12:3456:789a:ff00::/56") };
const fresh = (...names: string[]): Claimant[] =>
  names.map((name) => ({ name, has: undefined, wants: true }));

describe("virtual addresses of services", () => {
  it("stay with their services, are of the blocks, and never those of another", () => {
    const steps = fc.array(fc.subarray("abcdefghijklmnopqrs".split("")), { maxLength: 6 });
    fc.assert(
      fc.property(steps, (all) => {
        let before: ReturnType<typeof allocateVirtualIPs>["addresses"] = new Map();
        for (const names of all) {
          const { addresses, lacking } = allocateVirtualIPs(
            BLOCKS,
            names.map((name) => ({ name, has: before.get(name), wants: true })),
          );
          for (const [name, found] of addresses) {
            if (before.has(name)) expect(found).toEqual(before.get(name));
            expect(containsAddress(BLOCKS.vipIPv4, parseAddress(found.ipv4))).toBe(true);
            expect(containsAddress(BLOCKS.vipIPv6, parseAddress(found.ipv6))).toBe(true);
          }
          expect(new Set([...addresses.values()].map((it) => it.ipv4)).size).toBe(addresses.size);
          expect(new Set([...addresses.values()].map((it) => it.ipv6)).size).toBe(addresses.size);
          // A /28 has 14 addresses besides its first and last one.
          expect([addresses.size, lacking.length]).toEqual([
            Math.min(14, names.length),
            Math.max(0, names.length - 14),
          ]);
          before = addresses;
        }
      }),
    );
  });

  it("follow from the name where nothing is known of the service", () => {
    const [first] = allocateVirtualIPs(BLOCKS, fresh("work.hello", "a", "b")).addresses.values();
    const [again] = allocateVirtualIPs(BLOCKS, fresh("work.hello")).addresses.values();
    expect(again).toEqual(first);
  });

  it("are kept from others while they are only reserved, and replaced where they are not of the blocks", () => {
    const has = { ipv4: "10.127.0.3", ipv6: "fd12:3456:789a:ff00::3" };
    const { addresses } = allocateVirtualIPs(BLOCKS, [
      { name: "gone", has, wants: false },
      { name: "double", has, wants: true },
      { name: "foreign", has: { ipv4: "10.0.0.3", ipv6: has.ipv6 }, wants: true },
      { name: "unequal", has: { ipv4: "10.127.0.4", ipv6: has.ipv6 }, wants: true },
      { name: "forgotten", has: undefined, wants: false },
    ]);
    expect([...addresses.keys()]).toEqual(["gone", "double", "foreign", "unequal"]);
    expect(new Set([...addresses.values()].map((it) => it.ipv4)).size).toBe(4);
  });
});
