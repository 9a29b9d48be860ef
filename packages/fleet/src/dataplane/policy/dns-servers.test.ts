import { formatAddress, parseAddress } from "@fairlead/base/netaddr/address.ts";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { expect, it } from "vitest";
import { serversOf } from "./dns-servers.ts";

const SERVICE: Service = {
  metadata: { namespace: "kube-system", name: "kube-dns" },
  spec: {
    clusterIPs: ["10.96.0.10", "fd00:10:96:0::a"],
    ports: [
      { name: "dns", port: 53, protocol: "UDP" },
      { name: "dns-tcp", port: 53, protocol: "TCP" },
    ],
  },
};

function slice(addressType: EndpointSlice["addressType"], ...addresses: readonly string[]): EndpointSlice {
  return {
    metadata: {
      namespace: "kube-system",
      name: `kube-dns-${addressType}`,
      labels: { "kubernetes.io/service-name": "kube-dns" },
    },
    addressType,
    endpoints: addresses.map((it, at) => ({ addresses: [it], conditions: { ready: at > 0 } })),
    ports: [
      { name: "dns", port: 5353, protocol: "UDP" },
      { name: "dns-tcp", port: 5354, protocol: "TCP" },
    ],
  };
}

const SLICES = [
  slice("IPv4", "10.244.1.1", "10.244.1.2", "10.244.1.3"),
  slice("IPv6", "fd00:244::1", "fd00:244::2"),
  { ...slice("IPv4", "10.244.9.1", "10.244.9.2"), metadata: { namespace: "other", name: "kube-dns" } },
];

function servers(address: string, port: number, protocol: "TCP" | "UDP"): readonly string[] {
  const found = serversOf({ address: parseAddress(address), port }, protocol, [SERVICE], SLICES);
  return found.map((it) => `${formatAddress(it.address)} ${it.port}`);
}

it("finds the ready endpoints behind the address of a Service, at their own ports", () => {
  expect(servers("10.96.0.10", 53, "UDP")).toEqual(["10.244.1.2 5353", "10.244.1.3 5353"]);
  expect(servers("10.96.0.10", 53, "TCP")).toEqual(["10.244.1.2 5354", "10.244.1.3 5354"]);
  expect(servers("fd00:10:96::a", 53, "UDP")).toEqual(["fd00:244::2 5353"]);
  expect(servers("10.96.0.10", 54, "UDP")).toEqual([]);
});

it("takes any other address as that of a server", () => {
  expect(servers("192.0.2.53", 53, "UDP")).toEqual(["192.0.2.53 53"]);
});
