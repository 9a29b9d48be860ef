import { describe, expect, it } from "vitest";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { permittedTargets } from "./targets.ts";

const PRIVATE = [
  "10.1.2.3",
  "172.31.0.1",
  "192.168.1.1",
  "100.64.0.1",
  "fd12::1",
  "::ffff:10.1.2.3",
  "64:ff9b::a01:203",
];

describe("the hub connects to an endpoint", () => {
  it.each(["8.8.8.8", "2606:4700::1", "172.32.0.1", "64:ff9b::808:808"])(
    "at the public address %s",
    (text) => {
      for (const ranges of [undefined, []]) expect(permittedTargets(ranges)(parseAddress(text))).toBe(true);
    },
  );
  it.each([
    "169.254.169.254",
    "127.0.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fe80::1",
    "::1",
    "::ffff:169.254.169.254",
    "::ffff:127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "::ffff:100.100.100.200",
  ])("never at %s, whatever is permitted", (text) => {
    const all = ["0.0.0.0/0", "::/0"].map((it) => parsePrefix(it));
    for (const ranges of [undefined, all]) expect(permittedTargets(ranges)(parseAddress(text))).toBe(false);
  });
  it.each(PRIVATE)("at the private address %s, unless its network is not permitted", (text) => {
    const address = parseAddress(text);
    expect(permittedTargets()(address)).toBe(true);
    expect(permittedTargets([])(address)).toBe(false);
    expect(permittedTargets([parsePrefix("10.2.0.0/16")])(address)).toBe(false);
  });
  it("at addresses of the private networks that are permitted", () => {
    const permits = permittedTargets([parsePrefix("10.1.0.0/16"), parsePrefix("fd12::/64")]);
    expect(PRIVATE.map((it) => permits(parseAddress(it)))).toEqual([
      true,
      false,
      false,
      false,
      true,
      true,
      true,
    ]);
  });
});
