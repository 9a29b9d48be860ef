import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseAddress } from "./address.ts";
import { isEndpointAddress, specialUseOf } from "./special.ts";

describe("the special use of an address", () => {
  it.each([
    ["0.0.0.0", "unspecified"],
    ["::", "unspecified"],
    ["127.8.8.8", "loopback"],
    ["::1", "loopback"],
    ["::ffff:127.0.0.1", "loopback"],
    ["64:ff9b::127.0.0.1", "loopback"],
    ["169.254.169.254", "link-local"],
    ["::ffff:169.254.169.254", "link-local"],
    ["fe80::1", "link-local"],
    ["224.0.0.1", "multicast"],
    ["ff02::1", "multicast"],
    ["255.255.255.255", "broadcast"],
    ["192.0.2.7", "documentation"],
    ["2001:db8::7", "documentation"],
    ["10.1.2.3", "none"],
    ["fd00::1", "none"],
    ["8.8.8.8", "none"],
  ])("%s: %s", (text, use) => expect(specialUseOf(parseAddress(text))).toBe(use));

  it("keeps endpoints away from where a forged export could point inwards", () => {
    for (const text of [
      "127.0.0.1",
      "169.254.169.254",
      "fe80::1",
      "ff02::1",
      "0.0.0.0",
      "::ffff:127.0.0.1",
    ]) {
      expect({ text, endpoint: isEndpointAddress(parseAddress(text)) }).toEqual({ text, endpoint: false });
    }
    expect(isEndpointAddress(parseAddress("10.1.2.3"))).toBe(true);
    expect(isEndpointAddress(parseAddress("fd00:1::3"))).toBe(true);
  });

  it("decides for IPv4 endpoints by their number as by their use", () => {
    const edges = fc.constantFrom(
      0,
      1,
      0x7f_00_00_00,
      0x7f_ff_ff_ff,
      0x80_00_00_00,
      0xa9_fe_00_00,
      0xa9_fe_ff_ff,
    );
    const highs = fc.constantFrom(
      0xa9_ff_00_00,
      0xdf_ff_ff_ff,
      0xe0_00_00_00,
      0xef_ff_ff_ff,
      0xf0_00_00_00,
      0xff_ff_ff_ff,
    );
    fc.assert(
      fc.property(fc.oneof(edges, highs, fc.nat(0xff_ff_ff_ff)), (address) => {
        const isUsable = ["none", "documentation"].includes(specialUseOf(address));
        expect(isEndpointAddress(address)).toBe(isUsable);
      }),
    );
  });
});
