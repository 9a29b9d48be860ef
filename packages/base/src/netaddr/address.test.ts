import { isIP, SocketAddress } from "node:net";
import * as fc from "fast-check";
import { Address6 } from "ip-address";
import { describe, expect, it } from "vitest";
import {
  byAddress,
  canonicalAddress,
  familyOf,
  familyOfText,
  formatAddress,
  parseAddress,
  tryParseAddress,
} from "./address.ts";

const ipv4 = fc.nat({ max: 0xffff_ffff });
/** Mostly zero groups, so that runs of them occur. */
const ipv6 = fc
  .array(fc.oneof(fc.constant(0), fc.constant(0), fc.nat({ max: 0xffff })), { minLength: 8, maxLength: 8 })
  .map((groups) => groups.reduce((value, group) => (value << 16n) | BigInt(group), 0n));
const address = fc.oneof(ipv4, ipv6);
const characters = fc.constantFrom(..."0123456789abfF:.:.:%/ -".split(""));

describe("an IP address", () => {
  it("is read and written without loss", () => {
    fc.assert(
      fc.property(address, (value) => {
        expect(parseAddress(formatAddress(value))).toBe(value);
      }),
    );
  });

  it("has the text that the system's own inet_ntop gives", () => {
    fc.assert(
      fc.property(address, (value) => {
        // inet_ntop also writes the deprecated IPv4-compatible addresses (::1.2.3.4) with dots; RFC 5952 does not.
        fc.pre(typeof value === "number" || value >> 32n !== 0n);
        const family = familyOf(value) === "IPv4" ? "ipv4" : "ipv6";
        const text = formatAddress(value);
        expect(new SocketAddress({ address: text, family }).address).toBe(text);
      }),
    );
  });

  it("has the value that ip-address reads", () => {
    fc.assert(
      fc.property(ipv6, (value) => {
        expect(new Address6(formatAddress(value)).bigInt()).toBe(value);
        expect(tryParseAddress(new Address6(formatAddress(value)).canonicalForm())).toBe(value);
      }),
    );
  });

  it("is what node:net takes for one, and nothing else", () => {
    const texts = fc.oneof(
      fc.string({ unit: characters, maxLength: 24 }),
      fc.tuple(address, fc.nat({ max: 40 }), fc.string({ unit: characters, maxLength: 2 })).map(
        // A valid text with something put into it.
        ([value, at, extra]) => formatAddress(value).slice(0, at) + extra + formatAddress(value).slice(at),
      ),
    );
    fc.assert(
      fc.property(texts, (text) => {
        fc.pre(!text.includes("%"));
        expect({ text, valid: tryParseAddress(text) !== undefined }).toEqual({
          text,
          valid: isIP(text) !== 0,
        });
      }),
      { numRuns: 2000 },
    );
  });

  it.each([
    ["::", 0n],
    ["::1", 1n],
    ["1::", 1n << 112n],
    ["::ffff:192.0.2.1", 0xffff_c000_0201n],
    ["64:ff9b::192.0.2.33", (0x64_ff9bn << 96n) | 0xc000_0221n],
    ["1:2:3:4:5:6:7::", 0x0001_0002_0003_0004_0005_0006_0007_0000n],
    ["255.255.255.255", 0xffff_ffff],
    ["0.0.0.0", 0],
  ])("%s is read", (text, value) => expect(parseAddress(text)).toBe(value));

  it.each([
    "010.0.0.1",
    "1.2.3",
    "1.2.3.4.5",
    "1.2.3.256",
    "0x7f.0.0.1",
    " 1.2.3.4",
    "1.2.3.4 ",
    "1..3.4",
    "",
    ":",
    ":::",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7:8::",
    "1::2::3",
    "12345::",
    "fe80::1%eth0",
    "::1.2.3",
    "1:2:3:4:5:6:7:1.2.3.4",
    "1.2.3.4::",
    "::01.2.3.4",
  ])("%j is refused", (text) => {
    expect(() => parseAddress(text)).toThrow(expect.objectContaining({ code: "ADDRESS_INVALID" }));
  });

  it("is written as RFC 5952 says", () => {
    expect(canonicalAddress("2001:DB8:0:0:8:800:200C:417A")).toBe("2001:db8::8:800:200c:417a");
    expect(canonicalAddress("2001:db8:0:0:1:0:0:1")).toBe("2001:db8::1:0:0:1");
    expect(canonicalAddress("2001:db8:0:1:1:1:1:1")).toBe("2001:db8:0:1:1:1:1:1");
    expect(canonicalAddress("::ffff:c000:0201")).toBe("::ffff:192.0.2.1");
  });

  it("has a family", () => {
    expect(familyOfText("10.0.0.1")).toBe("IPv4");
    expect(familyOfText("fd00::1")).toBe("IPv6");
    expect(familyOfText("None")).toBeUndefined();
  });

  it("sorts IPv4 first, then by value", () => {
    const sorted = ["fd00::2", "10.0.0.2", "fd00::1", "9.0.0.1"].map(parseAddress).toSorted(byAddress);
    expect(sorted.map(formatAddress)).toEqual(["9.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"]);
  });
});
