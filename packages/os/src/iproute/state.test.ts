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

it.each([
  ["set up", NOTHING, BEFORE],
  ["changed", BEFORE, AFTER],
  ["removed", AFTER, NOTHING],
])("the lines for ip -batch of a network that is %s", async (name, actual, desired) => {
  const lines = diffNetwork(actual, desired);
  await expect(`${lines.join("\n")}\n`).toMatchFileSnapshot(`goldens/${name.replace(" ", "-")}.batch`);
});

it("a network that is as desired needs no line", () => {
  expect(diffNetwork(BEFORE, BEFORE)).toEqual([]);
});
