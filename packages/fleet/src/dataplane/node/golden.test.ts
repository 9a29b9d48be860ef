import { describe, expect, it } from "vitest";
import { diffNetwork } from "@fairlead/os/iproute/state.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { renderScript } from "@fairlead/os/nft/render.ts";
import { createHostLink, planFleetEnd, planHostEnd } from "./host-link.ts";
import { HOST_TABLE, renderHostTable } from "./host-table.ts";
import { FLEET_TABLE, renderFleetTable } from "./table.ts";

const LINK = {
  nodeName: "node-1",
  ipv4: "10.112.0.0/12",
  ipv6: "fd11:2233:4455::/48",
  ownIPv4: "10.112.0.1",
  ownIPv6: "fd11:2233:4455::1",
};
const NOTHING = { addresses: [], routes: [], neighbours: [] };

describe("the kernel state of a node", () => {
  it("is the table of the golden", async () => {
    const table = renderFleetTable({
      pods: [
        { fleetAddress: "10.112.0.2", podAddress: "10.244.1.7", isAttached: false },
        { fleetAddress: "fd11:2233:4455::2", podAddress: "fd00:10:244:1::7", isAttached: false },
        { fleetAddress: "10.112.0.3", podAddress: "10.244.1.8", isAttached: true },
      ],
      exposed: [
        { address: "10.112.0.2", protocol: "TCP", port: 80 },
        { address: "fd11:2233:4455::2", protocol: "UDP", port: 53 },
      ],
      own: ["10.112.0.1", "fd11:2233:4455::1"],
      node: ["10.112.0.0/24", "fd11:2233:4455::/64"],
      cluster: ["10.112.0.0/21", "fd11:2233:4455::/56"],
      fleet: ["10.112.0.0/12", "fd11:2233:4455::/48"],
    });
    await expect(renderScript(FLEET_TABLE, diffTable(undefined, table))).toMatchFileSnapshot(
      "goldens/table.nft",
    );
  });

  it("has a table in the node's own namespace by which pods leave for fleet with their own addresses", async () => {
    const table = renderHostTable([LINK.ipv4, LINK.ipv6]);
    await expect(renderScript(HOST_TABLE, diffTable(undefined, table))).toMatchFileSnapshot(
      "goldens/host-table.nft",
    );
  });

  it("has one route per fleet prefix outside of fleet, and all other traffic of fleet goes to the node", async () => {
    const lines = [
      "# in the namespace of the node",
      ...createHostLink(LINK.nodeName, "/run/fleet"),
      ...diffNetwork(NOTHING, planHostEnd(LINK)),
      "# in fleet",
      ...diffNetwork(NOTHING, planFleetEnd(LINK)),
    ];
    await expect(`${lines.join("\n")}\n`).toMatchFileSnapshot("goldens/host-link.ip");
  });
});
