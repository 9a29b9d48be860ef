import { describe, expect, it } from "vitest";
import { formatSocketAddress, parseSocketAddress } from "./listen-address.ts";

describe("an address and port", () => {
  it.each([
    ["10.0.0.1:53", { host: "10.0.0.1", port: 53, family: "IPv4" }],
    ["[fd00::1]:53", { host: "fd00::1", port: 53, family: "IPv6" }],
    ["127.0.0.1:0", { host: "127.0.0.1", port: 0, family: "IPv4" }],
  ])("%s is read and written", (text, address) => {
    expect(parseSocketAddress(text)).toEqual(address);
    expect(formatSocketAddress(parseSocketAddress(text))).toBe(text);
  });

  it.each([
    "10.0.0.1",
    "fd00::1:53",
    "[10.0.0.1]:53",
    "localhost:53",
    "10.0.0.1:65536",
    ":53",
    "[fd00::1]",
    "",
  ])("%j is refused", (text) => {
    expect(() => parseSocketAddress(text)).toThrow(expect.objectContaining({ code: "OPTION_INVALID" }));
  });
});
