import { expect, it } from "vitest";
import { parseGatewayDevices } from "./parse.ts";

it("the devices of gateways are those of all next hops with an address, of both families, whatever made the route", () => {
  const routes = [
    { dst: "default", gateway: "192.0.2.1", dev: "eth0", protocol: "16" },
    { dst: "10.244.1.0/24", dev: "cni0", protocol: "2", scope: "253" },
    { dst: "10.244.1.7", dev: "veth1" },
    {
      dst: "10.0.0.0/8",
      nexthops: [{ via: { family: "inet6", host: "fe80::1" }, dev: "up0" }, { dev: "up1" }],
    },
    { type: "7", dst: "192.0.2.0/30" },
  ];
  expect(parseGatewayDevices(JSON.stringify(routes))).toEqual(["eth0", "up0"]);
  expect(parseGatewayDevices("")).toEqual([]);
});
