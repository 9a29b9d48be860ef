import { describe, expect, it } from "vitest";
import {
  addVethPair,
  addWireguard,
  deleteLink,
  deleteRoute,
  moveLink,
  replaceAddress,
  replaceNeighbour,
  replaceRoute,
  setLink,
} from "./lines.ts";
import { replaceNextHop, replaceNextHopGroup } from "./nexthops.ts";
import { addRule, type Rule } from "./rules.ts";

const RULE: Rule = { priority: 1, family: "IPv4", table: 1 };

describe("lines for ip -batch", () => {
  it("are written in canonical words", () => {
    expect([
      addVethPair(
        { device: "eth0", netns: "/run/x/a", mtu: 1400 },
        { device: "pod1", hardwareAddress: "02:00:00:00:00:01" },
      ),
      setLink("eth0", { up: true, mtu: 1420 }),
      setLink("eth0", { addressGeneration: "none" }),
      moveLink("fl-wg00", "/run/x/fleet"),
      addWireguard("fl-wg00", "/run/x/fleet", 1408),
      deleteLink("pod1"),
      replaceAddress("eth0", "10.0.0.1/24"),
      replaceAddress("eth0", "FD00::0:1/64"),
      replaceRoute({ to: "::/0", hops: [{ via: "fe80::1", device: "eth0", isOnlink: true }] }),
      replaceRoute({ to: "10.1.2.3", hops: [{ device: "a" }, { device: "b" }], source: "10.0.0.1" }),
      replaceNeighbour("eth0", "169.254.1.1", "02:00:00:00:00:01"),
    ]).toEqual([
      "link add name eth0 mtu 1400 netns /run/x/a type veth peer name pod1 address 02:00:00:00:00:01",
      "link set dev eth0 up mtu 1420",
      "link set dev eth0 addrgenmode none",
      "link set dev fl-wg00 netns /run/x/fleet",
      "link add name fl-wg00 mtu 1408 netns /run/x/fleet type wireguard",
      "link delete dev pod1",
      "address replace 10.0.0.1/24 dev eth0",
      "address replace fd00::1/64 dev eth0 nodad",
      "route replace ::/0 via fe80::1 dev eth0 onlink",
      "route replace 10.1.2.3/32 src 10.0.0.1 nexthop dev a nexthop dev b",
      "neighbour replace 169.254.1.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent",
    ]);
  });

  it.each([
    ["a device with a space", () => deleteLink("eth0 up")],
    ["a device with a line feed", () => deleteLink("eth0\nlink")],
    ["a device that is too long", () => deleteLink("a".repeat(16))],
    ["a device that looks like an option", () => deleteLink("-all")],
    ["a path with a space", () => addVethPair({ device: "a", netns: "/a b" }, { device: "b" })],
    ["a path with a comment", () => addVethPair({ device: "a", netns: "/a#b" }, { device: "b" })],
    ["a name in place of a path", () => addVethPair({ device: "a", netns: "a" }, { device: "b" })],
    ["an address with words behind it", () => replaceAddress("a", "10.0.0.1/24 dev b")],
    ["an invalid hardware address", () => replaceNeighbour("a", "10.0.0.1", "02:00")],
    ["a destination with host bits", () => replaceRoute({ to: "10.0.0.1/8", hops: [{ device: "a" }] })],
    ["an MTU out of range", () => setLink("a", { mtu: 10 })],
    [
      "an MTU of a route out of range",
      () => replaceRoute({ to: "10.0.0.0/8", hops: [{ device: "a" }], mtu: 0 }),
    ],
    ["a table that is not a number", () => replaceRoute({ to: "10.0.0.0/8", hops: [], table: Number.NaN })],
    ["a metric below zero", () => deleteRoute({ to: "10.0.0.0/8", metric: -1 })],
    ["a next hop without id", () => replaceRoute({ to: "10.0.0.0/8", hops: [], nextHop: 0 })],
    ["a weight out of range", () => replaceNextHopGroup({ id: 1, members: [{ id: 2, weight: 256 }] })],
    ["no buckets", () => replaceNextHopGroup({ id: 1, members: [{ id: 2 }], resilient: { buckets: 0 } })],
    ["a next hop over a device with words behind it", () => replaceNextHop({ id: 1, device: "a via b" })],
    ["the priority of the kernel's own rule", () => addRule({ priority: 0, family: "IPv4", table: 1 })],
    ["a rule with a mask that is too long", () => addRule({ ...RULE, mark: { value: 1, mask: 2 ** 32 } })],
    ["a rule from words", () => addRule({ ...RULE, from: "all lookup main" })],
    ["a device in a name in place of a path", () => moveLink("a", "1")],
  ])("refuse %s", (_, make) => {
    expect(make).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/_INVALID$/) as string }) as Error,
    );
  });
});
