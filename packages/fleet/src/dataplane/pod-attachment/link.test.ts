import { describe, expect, it } from "vitest";
import { familyOfText, parseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { Route } from "@fairlead/os/iproute/lines.ts";
import { diffNetwork } from "@fairlead/os/iproute/state.ts";
import { fleetSide, type LinkSide, type PodLink, podSide } from "./link.ts";

const LINK: PodLink = {
  podUID: "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
  addresses: ["10.112.1.5", "fd00:112:0:1::5"],
  ownAddresses: ["10.244.0.2", "fd00:244::2"],
  prefixes: ["10.112.0.0/12", "fd00:112::/48"],
  mtu: 1340,
};
const NOTHING = { addresses: [], routes: [], neighbours: [] };

describe("the link of a pod", () => {
  const lines = ({ state }: LinkSide): string => `${diffNetwork(NOTHING, state).join("\n")}\n`;

  it("is these lines in the fleet namespace", async () => {
    await expect(lines(fleetSide(LINK))).toMatchFileSnapshot("goldens/fleet-side.batch");
  });

  it("is these lines in the pod", async () => {
    await expect(lines(podSide(LINK))).toMatchFileSnapshot("goldens/pod-side.batch");
  });

  describe("leads, by its rules,", () => {
    const { routes, rules = [] } = podSide(LINK).state;
    const others = [
      { to: "0.0.0.0/0", table: 254, hops: [{ device: "eth0" }] },
      { to: "::/0", table: 254, hops: [{ device: "eth0" }] },
    ];
    const isIn = (address: string, prefix: string): boolean =>
      containsAddress(parsePrefix(prefix), parseAddress(address));
    /** Looks a route up as the kernel does: in the first table by priority that has one. */
    const routeTo = (to: string, source?: string): Route | undefined =>
      [...rules, { priority: 32_766, family: familyOfText(to), table: 254, from: undefined }]
        .filter((it) => it.family === familyOfText(to))
        .filter(({ from }) => from === undefined || (source !== undefined && isIn(source, from)))
        .toSorted((a, b) => a.priority - b.priority)
        .map(({ table }) => [...routes, ...others].find((it) => it.table === table && isIn(to, it.to)))
        .find((it) => it !== undefined);

    it.each([
      ["10.112.200.7", LINK.addresses[0]],
      ["fd00:112:0:200::7", LINK.addresses[1]],
    ])("to %s in the fleet by one route, whether the source %s is chosen yet or not", (to, source) => {
      expect(routeTo(to)).toMatchObject({ hops: [{ device: "eth-fleet" }] });
      expect(routeTo(to, source)).toBe(routeTo(to));
    });

    it.each([
      ["192.0.2.7", LINK.addresses[0]],
      ["2001:db8::7", LINK.addresses[1]],
    ])("to %s outside of the fleet from %s alone", (to, source) => {
      expect(routeTo(to, source)).toMatchObject({ hops: [{ device: "eth-fleet" }] });
      expect(routeTo(to)).toMatchObject({ hops: [{ device: "eth0" }] });
    });

    it.each([
      ["10.112.200.7", LINK.ownAddresses[0]],
      ["fd00:112:0:200::7", LINK.ownAddresses[1]],
    ])("not to %s from the pod's own address %s", (to, source) => {
      expect(routeTo(to, source)).toMatchObject({ hops: [{ device: "eth0" }] });
    });
  });

  it("has nothing of a family without an address", () => {
    const link = { ...LINK, addresses: ["10.112.1.5"] };
    for (const side of [fleetSide(link), podSide(link)]) {
      expect(JSON.stringify(side.state)).not.toMatch(/fd00|fe80|::/);
      expect(Object.keys(side.sysctls).filter((it) => it.includes("ipv6"))).toEqual([]);
    }
  });

  it("has at its ends unicast addresses of the local kind, which the UID decides", () => {
    const ends = [fleetSide(LINK), podSide(LINK), fleetSide({ ...LINK, podUID: "other" })];
    const addresses = ends.map((it) => it.hardwareAddress);
    expect(new Set(addresses).size).toBe(3);
    for (const it of addresses) expect(it).toMatch(/^02(:[0-9a-f]{2}){5}$/);
    expect(fleetSide(LINK).hardwareAddress).toBe(ends[0]?.hardwareAddress);
  });
});
