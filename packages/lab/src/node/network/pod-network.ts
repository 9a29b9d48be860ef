import { createHash } from "node:crypto";
import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import { exec } from "@fairlead/base/exec.ts";
import { deleteDevice, type IpOptions, runIpLines } from "@fairlead/os/iproute/driver.ts";
import {
  addVethPair,
  type IpLine,
  replaceAddress,
  replaceNeighbour,
  replaceRoute,
  setLink,
} from "@fairlead/os/iproute/lines.ts";
import { createNetns, deleteNetns } from "@fairlead/os/netns/netns.ts";
import { familyOfText } from "@fairlead/base/netaddr/address.ts";

/** The network of one pod: a namespace, and a pair of devices between it and the node's namespace. */
export interface PodLink {
  readonly podUid: string;
  /** File of the pod's network namespace. */
  readonly netns: string;
  /** One per family, in the order of the node's. */
  readonly addresses: readonly string[];
}

/**
 * Next hops of a pod's default routes. No interface has these addresses: a permanent neighbour entry leads to the node's end
 * of the pair, so that no packet ever waits for ARP or neighbour discovery (a proxy's answer comes 0.5 s late).
 */
const GATEWAY = { IPv4: "169.254.1.1", IPv6: "fe80::1" } as const;
const DEFAULT_ROUTE = { IPv4: "0.0.0.0/0", IPv6: "::/0" } as const;

/** Name of the device at the node's end. Linux takes 15 characters at most. */
export function linkName(podUid: string): string {
  return `pod${createHash("sha256").update(podUid).digest("hex").slice(0, 12)}`;
}

/** Makes the namespace and the link from nothing; what an interrupted attempt left is removed first. */
export async function createPodLink(link: PodLink, signal: AbortSignal): Promise<void> {
  await deletePodLink(link, signal);
  await createNetns(link.netns, signal);
  await run(nodeEndLines(link), { signal });
  await run(podEndLines(link), { netns: link.netns, signal });
}

/** Whether the node's end of the link is there. */
export async function hasPodLink(podUid: string, signal: AbortSignal): Promise<boolean> {
  const shown = await exec("ip", ["link", "show", "dev", linkName(podUid)], { signal, allowFailure: true });
  return shown.exitCode === 0;
}

/** Removes a link of `createPodLink`, whole or in part. Processes in the namespace have ended. */
export async function deletePodLink(
  link: Pick<PodLink, "podUid" | "netns">,
  signal: AbortSignal,
): Promise<void> {
  await deleteDevice(linkName(link.podUid), { signal });
  await deleteNetns(link.netns, signal);
}

/** What is done in the node's namespace. Pure. */
export function nodeEndLines(link: PodLink): readonly IpLine[] {
  const device = linkName(link.podUid);
  const { node, pod } = hardwareAddresses(link.podUid);
  return [
    addVethPair(
      { device, hardwareAddress: node },
      { device: "eth0", hardwareAddress: pod, netns: link.netns },
    ),
    // Before it is up: nothing of the link waits for duplicate detection or solicits routers.
    setLink(device, { addressGeneration: "none" }),
    setLink(device, { up: true }),
    ...link.addresses.flatMap((address) => [
      replaceNeighbour(device, address, pod),
      replaceRoute({ to: address, hops: [{ device }] }),
    ]),
  ];
}

/** What is done in the pod's namespace. Pure. */
export function podEndLines(link: PodLink): readonly IpLine[] {
  const device = "eth0";
  const { node } = hardwareAddresses(link.podUid);
  return [
    setLink(device, { addressGeneration: "none" }),
    setLink(device, { up: true }),
    ...link.addresses.flatMap((address) => {
      const family = familyOf(address);
      const via = GATEWAY[family];
      return [
        replaceAddress(device, address),
        replaceNeighbour(device, via, node),
        // IPv4 wants the next hop on the link before it is used.
        ...(family === "IPv4" ? [replaceRoute({ to: via, hops: [{ device }] })] : []),
        replaceRoute({ to: DEFAULT_ROUTE[family], hops: [{ device, via }] }),
      ];
    }),
  ];
}

/** Locally administered unicast addresses (IEEE 802, bit 1 set and bit 0 clear in the first byte) that the uid decides. */
function hardwareAddresses(podUid: string): { readonly node: string; readonly pod: string } {
  const hash = createHash("sha256").update(`mac ${podUid}`).digest("hex");
  const at = (from: number): string => ["02", ...(hash.slice(from, from + 10).match(/../g) ?? [])].join(":");
  return { node: at(0), pod: at(10) };
}

function familyOf(address: string): "IPv4" | "IPv6" {
  const family = familyOfText(address);
  if (family !== undefined) return family;
  throw new FleetError("ADDRESS_INVALID", `not an address of a pod: ${JSON.stringify(address)}`);
}

async function run(lines: readonly IpLine[], options: IpOptions): Promise<void> {
  try {
    await runIpLines(lines, options);
  } catch (cause) {
    throw new FleetError("EXEC_FAILED", `cannot set up the pod's network: ${messageOf(cause)}`, {
      cause,
      retriable: true,
    });
  }
}
