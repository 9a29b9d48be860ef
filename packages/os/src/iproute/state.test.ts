import { expect, it } from "vitest";
import { diffNetwork, type NetworkState } from "./state.ts";

const NOTHING: NetworkState = { addresses: [], routes: [], neighbours: [] };
const BEFORE: NetworkState = {
  addresses: [
    { device: "eth0", address: "10.244.0.2/32" },
    { device: "eth0", address: "fd00:244::2/128" },
  ],
  routes: [
    { to: "0.0.0.0/0", hops: [{ via: "169.254.1.1", device: "eth0", isOnlink: true }] },
    { to: "::/0", hops: [{ via: "fe80::1", device: "eth0", isOnlink: true }] },
    { to: "169.254.1.1/32", hops: [{ device: "eth0" }] },
  ],
  neighbours: [{ device: "eth0", address: "169.254.1.1", hardwareAddress: "02:00:00:00:00:01" }],
};
/** Another address, two next hops, another neighbour, and no IPv6. */
const AFTER: NetworkState = {
  addresses: [{ device: "eth0", address: "10.244.0.3/32" }],
  routes: [
    {
      to: "0.0.0.0/0",
      hops: [
        { via: "169.254.1.1", device: "eth0", isOnlink: true },
        { via: "169.254.1.2", device: "eth1", isOnlink: true },
      ],
    },
    { to: "169.254.1.1/32", hops: [{ device: "eth0" }] },
  ],
  neighbours: [{ device: "eth0", address: "169.254.1.1", hardwareAddress: "02:00:00:00:00:02" }],
};

/** The tunnels of a gateway: flows are shared by two devices, and packets of some sources have a table. */
const TUNNELS: NetworkState = {
  addresses: [],
  routes: [
    { to: "10.113.0.0/16", hops: [], nextHop: 2020, mtu: 1392, advertisedMss: 1352, source: "10.112.0.1" },
    { to: "fd00:1::/48", hops: [], nextHop: 2020, table: 300 },
    {
      to: "10.114.0.0/16",
      metric: 20,
      hops: [{ device: "fl-wg00", weight: 3 }, { device: "fl-wg10" }],
    },
    { to: "fd00:2::/48", metric: 20, hops: [{ device: "fl-wg00" }] },
  ],
  neighbours: [{ device: "fl-host", address: "10.112.1.1", hardwareAddress: "02:00:00:00:00:01" }],
  nextHops: [
    { id: 2001, device: "fl-wg00" },
    { id: 2002, device: "fl-wg10" },
    { id: 2003, device: "eth0", via: "192.0.2.1" },
  ],
  nextHopGroups: [
    { id: 2020, members: [{ id: 2001, weight: 3 }, { id: 2002 }], resilient: { buckets: 64 } },
    { id: 2021, members: [{ id: 2003 }] },
  ],
  rules: [
    { priority: 5200, family: "IPv4", from: "10.112.0.0/16", table: 300 },
    { priority: 5200, family: "IPv6", table: 300, mark: { value: 0xf0, mask: 0xff } },
    { priority: 5201, family: "IPv4", to: "10.96.0.0/12", incoming: "fl-host", table: 254 },
  ],
};
/** One device is gone, and the group has another number of buckets. */
const FEWER_TUNNELS: NetworkState = {
  ...TUNNELS,
  routes: TUNNELS.routes.slice(0, 2).map((it) => ({ ...it, mtu: 1376 })),
  nextHops: TUNNELS.nextHops?.slice(0, 1) ?? [],
  nextHopGroups: [{ id: 2020, members: [{ id: 2001 }], resilient: { buckets: 128, idleSeconds: 60 } }],
  rules: TUNNELS.rules?.slice(0, 1) ?? [],
};

it.each([
  ["set up", NOTHING, BEFORE],
  ["changed", BEFORE, AFTER],
  ["removed", AFTER, NOTHING],
  ["set up with tunnels", NOTHING, TUNNELS],
  ["changed in its tunnels", TUNNELS, FEWER_TUNNELS],
  ["removed with tunnels", FEWER_TUNNELS, NOTHING],
])("the lines for ip -batch of a network that is %s", async (name, actual, desired) => {
  const lines = diffNetwork(actual, desired);
  await expect(`${lines.join("\n")}\n`).toMatchFileSnapshot(`goldens/${name.replaceAll(" ", "-")}.batch`);
});

it("a network that is as desired needs no line", () => {
  for (const it of [BEFORE, TUNNELS]) expect(diffNetwork(it, it)).toEqual([]);
});
