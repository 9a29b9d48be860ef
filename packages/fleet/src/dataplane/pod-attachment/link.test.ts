import { describe, expect, it } from "vitest";
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
