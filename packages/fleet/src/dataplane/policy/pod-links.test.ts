import { expect, it } from "vitest";
import type { Link } from "@fairlead/os/iproute/parse.ts";
import { openPods, podLinks } from "./pod-links.ts";

function link(device: string, kind: string | undefined, master?: string): Link {
  const known = kind === undefined ? {} : { kind };
  return { device, index: 1, mtu: 1500, isUp: true, ...known, ...(master === undefined ? {} : { master }) };
}

const at = (address: string) => [
  { address, netmask: "", family: "IPv4" as const, mac: "", internal: false, cidr: null },
];

it("devices of pods are veth devices without an address of the node, and those of bridges are not", () => {
  const links = [
    link("eth0", "veth"),
    link("eth1", undefined),
    link("eni1", "veth"),
    link("eni2", "veth"),
    link("veth7", "veth", "cni0"),
    link("fl-host", "veth"),
    link("cni0", "bridge"),
  ];
  const addresses = {
    eth0: at("172.18.0.2"),
    eth1: at("10.0.0.2"),
    eni1: at("fe80::1"),
    eni2: at("169.254.1.1"),
  };
  expect(podLinks(links, addresses)).toEqual({ uplinks: ["eth0"], count: 2 });
  expect(podLinks(links.slice(4), {})).toEqual({ uplinks: [], count: 0 });
});

it("new pods are open where neither their prefixes nor their devices are known", () => {
  expect(openPods(undefined, undefined)).toBeUndefined();
  expect(openPods("the Node has no spec.podCIDRs", { uplinks: [], count: 1 })).toBeUndefined();
  for (const it of [undefined, { uplinks: ["eth0"], count: 0 }])
    expect(openPods("the Node has no spec.podCIDRs", it)).toContain("the Node has no spec.podCIDRs");
});
