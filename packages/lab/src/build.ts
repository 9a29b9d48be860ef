/** Makes the network of a lab in the kernel: what is there already stays as it is. */

import { existsSync, mkdirSync } from "node:fs";
import { exec } from "@fairlead/base/exec.ts";
import { deleteDevice, runIpLines } from "@fairlead/os/iproute/driver.ts";
import {
  addVethPair,
  type IpLine,
  type LinkEnd,
  replaceAddress,
  replaceRoute,
  setLink,
} from "@fairlead/os/iproute/lines.ts";
import { createNetns, inNetns } from "@fairlead/os/netns/netns.ts";
import { ROUTER_SYSCTLS, STATIC_IPV6_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import type { LabLayout } from "./layout.ts";
import {
  HOST_DEVICE,
  planNetwork,
  type PlannedLink,
  type PlannedNamespace,
  type PlannedRoute,
} from "./network.ts";
import { applyDevices, applyTables } from "#link/kernel.ts";
import { type LinkRef, linksOf } from "#link/plan.ts";
import { NAT_TABLE, natSysctls, natTable } from "./nat.ts";
import { FABRIC_NETNS, nodeNetns, siteNetns } from "./places.ts";
import type { LabCluster, LabNode, LabTopology } from "./topology.ts";

/** Flows, not packets, are spread over the next hops of a route (linux: ip-sysctl, fib_multipath_hash_policy). */
const MULTIPATH_SYSCTLS = {
  "net/ipv4/fib_multipath_hash_policy": 1,
  "net/ipv6/fib_multipath_hash_policy": 1,
};

export async function buildNetwork(
  topology: LabTopology,
  layout: LabLayout,
  signal: AbortSignal,
): Promise<void> {
  const plan = planNetwork(topology);
  mkdirSync(layout.netns, { recursive: true });
  await Promise.all(plan.namespaces.map((it) => createRouter(layout.netnsOf(it), signal)));
  await Promise.all(topology.clusters.map((cluster) => applyNat(topology, cluster, layout, signal)));
  await addLinks(plan.links, layout, signal);
  await Promise.all(plan.configured.map((namespace) => configure(namespace, layout, signal)));
  await guardMachine(layout, signal);
  for (const link of linksOf(topology)) {
    if (topology.conditions?.[link.name] === undefined) continue;
    await applyDevices(topology, layout, link, signal);
    await applyTables(topology, layout, link, signal);
  }
}

/** Makes the network of a node that lost its namespace; what is down elsewhere stays down. */
export async function buildNode(
  topology: LabTopology,
  layout: LabLayout,
  { cluster, node }: { readonly cluster: LabCluster; readonly node: LabNode },
  signal: AbortSignal,
): Promise<void> {
  const plan = planNetwork(topology);
  const netns = nodeNetns(node);
  await createRouter(layout.netnsOf(netns), signal);
  await addLinks(
    plan.links.filter(({ a, b }) => a.netns === netns || b.netns === netns),
    layout,
    signal,
  );
  for (const it of plan.configured) if (it.netns === netns) await configure(it, layout, signal);
  await raiseLink(topology, layout, { netns: siteNetns(cluster), device: node.link }, signal);
  for (const link of linksOf(topology)) {
    if (link.name !== node.name || topology.conditions?.[link.name] === undefined) continue;
    await applyDevices(topology, layout, link, signal);
    await applyTables(topology, layout, link, signal);
  }
}

async function createRouter(path: string, signal: AbortSignal): Promise<void> {
  await createNetns(path, signal);
  await writeSysctls(path, { ...ROUTER_SYSCTLS, ...STATIC_IPV6_SYSCTLS, ...MULTIPATH_SYSCTLS }, signal);
}

/** Makes a member's site its NAT router, before it has links. */
async function applyNat(
  topology: LabTopology,
  cluster: LabCluster,
  layout: LabLayout,
  signal: AbortSignal,
): Promise<void> {
  if (cluster.nat === undefined) return;
  const netns = layout.netnsOf(siteNetns(cluster));
  using nft = createNft({ netns });
  const actual = await nft.read(NAT_TABLE, signal);
  await nft.apply(NAT_TABLE, diffTable(actual, natTable(topology, cluster.nat)), signal);
  await writeSysctls(netns, natSysctls(topology.spec), signal);
}

async function addLinks(
  links: readonly PlannedLink[],
  layout: LabLayout,
  signal: AbortSignal,
): Promise<void> {
  const present = new Map<string | undefined, ReadonlySet<string>>();
  const isThere = async ({ netns, device }: PlannedLink["a"]): Promise<boolean> => {
    const devices = present.get(netns) ?? (await listDevices(inNamespace(netns, layout).netns, signal));
    present.set(netns, devices);
    return devices.has(device);
  };
  const missing: IpLine[] = [];
  for (const { a, b } of links) {
    const ends = [a, b];
    const living = [await isThere(a), await isThere(b)];
    if (living.every(Boolean)) continue;
    // An end by itself leads into a namespace that lost its name.
    for (const end of ends.filter((_, at) => living[at]))
      await deleteDevice(end.device, { ...inNamespace(end.netns, layout), signal });
    missing.push(linkLine({ a, b }, layout));
  }
  await runIpLines(missing, { signal });
}

/** The line for `ip -batch` that creates a link. Pure. */
export function linkLine({ a, b }: PlannedLink, layout: LabLayout): IpLine {
  return addVethPair(linkEnd(a, layout), linkEnd(b, layout));
}

function linkEnd(
  end: { readonly netns: string | undefined; readonly device: string },
  layout: LabLayout,
): LinkEnd {
  return { device: end.device, ...inNamespace(end.netns, layout) };
}

async function configure(namespace: PlannedNamespace, layout: LabLayout, signal: AbortSignal): Promise<void> {
  const lines = namespaceLines(namespace, layout);
  await runIpLines(lines, { ...inNamespace(namespace.netns, layout), signal });
}

/** The lines for `ip -batch` that configure a namespace. Pure. */
export function namespaceLines(namespace: PlannedNamespace, layout: LabLayout): readonly IpLine[] {
  // On the machine itself a device has the lab's folder as its alias: labs of one name in two folders must not remove each other's.
  const owner = namespace.netns === undefined ? { alias: layout.root } : {};
  return [
    ...namespace.devices.map((it) => setLink(it, { up: true, ...owner })),
    ...namespace.addresses.map((it) => replaceAddress(it.device, it.address)),
    ...namespace.routes.map((it) => routeLine(it)),
  ];
}

/** Gateways are on the link whatever the prefixes say: every address of a lab is a /32 or /128. */
function routeLine(route: PlannedRoute): IpLine {
  return replaceRoute({
    to: route.to,
    hops: route.hops.map((it) => ({ ...it, isOnlink: it.via !== undefined })),
  });
}

function inNamespace(name: string | undefined, layout: LabLayout): { readonly netns?: string } {
  return name === undefined ? {} : { netns: layout.netnsOf(name) };
}

/** Takes a link down; the kernel forgets the routes through it. */
export async function lowerLink(layout: LabLayout, link: LinkRef, signal: AbortSignal): Promise<void> {
  await runIpLines([setLink(link.device, { up: false })], { netns: layout.netnsOf(link.netns), signal });
}

/** Brings a link back with the addresses and routes that the plan gives it; other links that are down stay so. */
export async function raiseLink(
  topology: LabTopology,
  layout: LabLayout,
  link: LinkRef,
  signal: AbortSignal,
): Promise<void> {
  const namespace = planNetwork(topology).configured.find((it) => it.netns === link.netns);
  if (namespace === undefined) return;
  const netns = layout.netnsOf(link.netns);
  const up = await listDevices(netns, signal, (it) => it.flags.includes("UP"));
  const isUp = (device: string): boolean => device === link.device || up.has(device);
  const routes = namespace.routes
    .filter((route) => route.hops.some((hop) => hop.device === link.device))
    .map((route) => ({ ...route, hops: route.hops.filter((hop) => isUp(hop.device)) }));
  const lines = [
    setLink(link.device, { up: true }),
    ...namespace.addresses
      .filter((it) => it.device === link.device)
      .map((it) => replaceAddress(it.device, it.address)),
    ...routes.map((it) => routeLine(it)),
  ];
  await runIpLines(lines, { netns, signal });
}

interface KernelLink {
  readonly ifname: string;
  readonly flags: readonly string[];
}

async function listDevices(
  netns: string | undefined,
  signal: AbortSignal,
  keep: (link: KernelLink) => boolean = () => true,
): Promise<ReadonlySet<string>> {
  const args = ["-j", "link", "show"];
  const line = netns === undefined ? { command: "ip", args } : inNetns(netns, "ip", args);
  const { stdout } = await exec(line.command, line.args, { signal });
  return new Set((JSON.parse(stdout) as KernelLink[]).filter(keep).map((it) => it.ifname));
}

/** The machine opens connections into the lab; nothing in the lab opens one to the machine. */
const GUARD = `
table inet fairlead-guard
delete table inet fairlead-guard
table inet fairlead-guard {
  chain to-machine {
    ct state established,related accept
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
    drop
  }
  chain forward {
    type filter hook forward priority 0; policy accept;
    oifname "${HOST_DEVICE}" jump to-machine
  }
  chain output {
    type filter hook output priority 0; policy accept;
    oifname "${HOST_DEVICE}" jump to-machine
  }
}
`;

async function guardMachine(layout: LabLayout, signal: AbortSignal): Promise<void> {
  const line = inNetns(layout.netnsOf(FABRIC_NETNS), "nft", ["-f", "-"]);
  await exec(line.command, line.args, { input: GUARD, signal });
}

/** State of a link as it was set, not whether its far side is there. */
export async function readLink(
  layout: LabLayout,
  link: LinkRef,
  signal: AbortSignal,
): Promise<"up" | "down" | "absent"> {
  const netns = layout.netnsOf(link.netns);
  if (!existsSync(netns)) return "absent";
  const line = inNetns(netns, "ip", ["-j", "link", "show", "dev", link.device]);
  const { stdout, exitCode } = await exec(line.command, line.args, { signal, allowFailure: true });
  if (exitCode !== 0) return "absent";
  const [found] = JSON.parse(stdout) as { flags?: string[] }[];
  return found?.flags?.includes("UP") === true ? "up" : "down";
}
