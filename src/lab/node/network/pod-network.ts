import { createHash } from "node:crypto";
import { FleetError, messageOf } from "#base/errors.ts";
import { exec } from "#base/exec.ts";
import { createNetns, deleteNetns, inNetns } from "#netns/netns.ts";
import { familyOfText } from "#netaddr/address.ts";

/** The network of one pod: a namespace, and a pair of devices between it and the node's namespace. */
export interface PodLink {
  readonly podUid: string;
  /** File of the pod's network namespace. */
  readonly netns: string;
  /** One per family, in the order of the node's. */
  readonly addresses: readonly string[];
}

/**
 * Next hops of a pod's default routes. Nobody has these addresses: a permanent neighbour entry leads to the node's end
 * of the pair, so that no packet ever waits for ARP or neighbour discovery (a proxy's answer comes 0.5 s late).
 */
const GATEWAY = { IPv4: "169.254.1.1", IPv6: "fe80::1" } as const;

/** Name of the device at the node's end. Linux takes 15 characters at most. */
export function linkName(podUid: string): string {
  return `pod${createHash("sha256").update(podUid).digest("hex").slice(0, 12)}`;
}

/** Makes the namespace and the link from nothing; what an interrupted attempt left is removed first. */
export async function createPodLink(link: PodLink, signal: AbortSignal): Promise<void> {
  await deletePodLink(link, signal);
  await createNetns(link.netns, signal);
  await batch(undefined, renderNodeEnd(link), signal);
  await batch(link.netns, renderPodEnd(link), signal);
}

/** Whether the node's end of the link is there. */
export async function hasPodLink(podUid: string, signal: AbortSignal): Promise<boolean> {
  const shown = await exec("ip", ["link", "show", "dev", linkName(podUid)], { signal, allowFailure: true });
  return shown.exitCode === 0;
}

/** Takes away what `createPodLink` made, whole or in part. Processes in the namespace have ended. */
export async function deletePodLink(
  link: Pick<PodLink, "podUid" | "netns">,
  signal: AbortSignal,
): Promise<void> {
  const name = linkName(link.podUid);
  // Without --force: the only command of this call, and a device that is absent is no error.
  const deleted = await exec("ip", ["link", "delete", "dev", name], { signal, allowFailure: true });
  if (deleted.exitCode !== 0 && !deleted.stderr.includes("Cannot find device"))
    throw new FleetError("EXEC_FAILED", `cannot delete the device ${name}: ${deleted.stderr.trim()}`);
  await deleteNetns(link.netns, signal);
}

/** Commands for `ip -batch` in the node's namespace. Pure. */
export function renderNodeEnd(link: PodLink): string {
  const name = linkName(link.podUid);
  const { node, pod } = hardwareAddresses(link.podUid);
  if (/\s/.test(link.netns))
    throw new FleetError(
      "OPTION_INVALID",
      `the path ${JSON.stringify(link.netns)} must be without white space`,
    );
  return lines([
    `link add name ${name} address ${node} type veth peer name eth0 address ${pod} netns ${link.netns}`,
    // No link-local address of its own: nothing waits for duplicate detection or solicits routers.
    `link set dev ${name} addrgenmode none`,
    `link set dev ${name} up`,
    ...checked(link.addresses).flatMap(({ address, bits }) => [
      `neighbour replace ${address} lladdr ${pod} dev ${name} nud permanent`,
      `route replace ${address}/${bits} dev ${name}`,
    ]),
  ]);
}

/** Commands for `ip -batch` in the pod's namespace. Pure. */
export function renderPodEnd(link: PodLink): string {
  const { node } = hardwareAddresses(link.podUid);
  return lines([
    "link set dev eth0 addrgenmode none",
    "link set dev eth0 up",
    ...checked(link.addresses).flatMap(({ address, bits, family }) => [
      `address add ${address}/${bits} dev eth0${family === "IPv6" ? " nodad" : ""}`,
      `neighbour replace ${GATEWAY[family]} lladdr ${node} dev eth0 nud permanent`,
      // IPv4 wants the next hop on the link before it is used.
      ...(family === "IPv4" ? [`route add ${GATEWAY[family]} dev eth0 scope link`] : []),
      `route add default via ${GATEWAY[family]} dev eth0`,
    ]),
  ]);
}

/** Locally administered unicast addresses (IEEE 802, bit 1 set and bit 0 clear in the first byte) that the uid decides. */
function hardwareAddresses(podUid: string): { readonly node: string; readonly pod: string } {
  const hash = createHash("sha256").update(`mac ${podUid}`).digest("hex");
  const at = (from: number): string => ["02", ...(hash.slice(from, from + 10).match(/../g) ?? [])].join(":");
  return { node: at(0), pod: at(10) };
}

function checked(addresses: readonly string[]) {
  return addresses.map((address) => {
    const family = familyOfText(address);
    if (family === undefined)
      throw new FleetError("ADDRESS_INVALID", `not an address of a pod: ${JSON.stringify(address)}`);
    return { address, family, bits: family === "IPv4" ? 32 : 128 };
  });
}

function lines(commands: readonly string[]): string {
  return commands.map((it) => `${it}\n`).join("");
}

async function batch(netns: string | undefined, input: string, signal: AbortSignal): Promise<void> {
  const args = ["-batch", "-"];
  const line = netns === undefined ? { command: "ip", args } : inNetns(netns, "ip", args);
  try {
    await exec(line.command, line.args, { input, signal });
  } catch (cause) {
    throw new FleetError("EXEC_FAILED", `cannot set up the pod's network: ${messageOf(cause)}`, {
      cause,
      retriable: true,
    });
  }
}
