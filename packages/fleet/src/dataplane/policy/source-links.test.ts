import { expect, it } from "vitest";
import type { Link } from "@fairlead/os/iproute/parse.ts";
import { planSourceLinks } from "./source-links.ts";

const link = (device: string, kind?: string, master?: string): Link => ({
  device,
  index: 1,
  mtu: 1500,
  isUp: true,
  ...(kind === undefined ? {} : { kind }),
  ...(master === undefined ? {} : { master }),
});

it("all veths and bridges of a node are links of pods, but for those that lead to a gateway", () => {
  const links = [
    link("eth0", "veth"),
    link("vethdeadbeef", "veth"),
    link("br-ex", "bridge"),
    link("enp1s0", undefined, "br-ex"),
    link("flannel.1", "vxlan"),
  ];
  const gateways = new Set(["eth0", "br-ex", "flannel.1"]);
  expect(planSourceLinks(links, gateways)).toEqual({ unchecked: ["br-ex", "eth0"], shared: [] });
});

it("a bridge of pods with several ports is shared", () => {
  const links = [
    link("cni0", "bridge"),
    link("veth1", "veth", "cni0"),
    link("veth2", "veth", "cni0"),
    link("docker0", "bridge"),
    link("veth3", "veth", "docker0"),
  ];
  expect(planSourceLinks(links, new Set(["ens3"]))).toEqual({ unchecked: [], shared: ["cni0"] });
});

it("a device whose name is not one word of nftables is checked like a link of a pod", () => {
  const links = [link('e"th', "veth")];
  expect(planSourceLinks(links, new Set(['e"th'])).unchecked).toEqual([]);
});
