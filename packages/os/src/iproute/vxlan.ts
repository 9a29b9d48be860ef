import { defined } from "@fairlead/base/defined.ts";
import { deleteDevice, type IpOptions, readLink, runIpLines } from "./driver.ts";
import { type IpLine, line } from "./line.ts";
import { setLink } from "./lines.ts";
import type { Link } from "./parse.ts";
import { addressWord, deviceWord, hardwareWord, mtuWord, netnsWord, numberWord } from "./words.ts";

/** A VXLAN device (RFC 7348) that learns nothing: its forwarding entries and neighbours are set. */
export interface VxlanDevice {
  readonly device: string;
  /** Network identifier. Range: 1 to 16777215. */
  readonly id: number;
  /** UDP port, in the namespace in which the device is made. */
  readonly port: number;
  /** Outer source: the node's address. */
  readonly local: string;
  readonly hardwareAddress: string;
  /** Unit: bytes. 50 less than the MTU of the outer network, 70 less if that is IPv6. */
  readonly mtu: number;
}

/** Runs in the namespace of the UDP socket; the device is in `netns`. */
export function addVxlan(vxlan: VxlanDevice, netns: string): IpLine {
  return line(
    `link add name ${deviceWord(vxlan.device)} address ${hardwareWord(vxlan.hardwareAddress)}`,
    `mtu ${mtuWord(vxlan.mtu)} netns ${netnsWord(netns)}`,
    `type vxlan id ${numberWord(vxlan.id, [1, 0xff_ffff])} dstport ${numberWord(vxlan.port, [1, 65_535])}`,
    `local ${addressWord(vxlan.local)} nolearning`,
  );
}

export interface VxlanOptions {
  /** File of the network namespace in which the device is. */
  readonly netns: string;
  /** File of the network namespace in which its UDP socket is. Default: that of this process. */
  readonly birthNetns?: string;
  readonly signal: AbortSignal;
}

/**
 * Makes the device as desired, and up. One with another id, port or outer address is deleted first, with its entries.
 * Returns whether anything was changed.
 */
export async function applyVxlan(vxlan: VxlanDevice, options: VxlanOptions): Promise<boolean> {
  const { netns, birthNetns, signal } = options;
  const inside: IpOptions = { netns, signal };
  const link = await readLink(vxlan.device, inside);
  if (link !== undefined && isSame(link, vxlan)) {
    if (link.isUp && link.mtu === vxlan.mtu) return false;
  } else {
    if (link !== undefined) await deleteDevice(vxlan.device, inside);
    await runIpLines([addVxlan(vxlan, netns)], { signal, ...defined({ netns: birthNetns }) });
  }
  const { device, mtu } = vxlan;
  await runIpLines(
    [setLink(device, { addressGeneration: "none" }), setLink(device, { up: true, mtu })],
    inside,
  );
  return true;
}

function isSame({ kind, vxlan, hardwareAddress }: Link, desired: VxlanDevice): boolean {
  return (
    kind === "vxlan" &&
    hardwareAddress === desired.hardwareAddress &&
    vxlan?.id === desired.id &&
    vxlan.port === desired.port &&
    vxlan.local === addressWord(desired.local)
  );
}
