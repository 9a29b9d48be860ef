import { readFile } from "node:fs/promises";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import type { AddressFamily } from "@fairlead/base/netaddr/address.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import type { NftDriver } from "@fairlead/os/nft/driver.ts";
import { relayTableName } from "./kernel-table.ts";

/** "auto": by the kernel where that is possible. */
export type ForwardMode = "auto" | "kernel" | "userspace";

const FORWARDING: readonly (readonly [AddressFamily, file: string, setting: string])[] = [
  ["IPv4", "/proc/sys/net/ipv4/ip_forward", "net.ipv4.ip_forward"],
  ["IPv6", "/proc/sys/net/ipv6/conf/all/forwarding", "net.ipv6.conf.all.forwarding"],
];

/**
 * The address families that the kernel forwards packets of; undefined if nftables cannot be used. The settings are not
 * changed: a machine becomes a router by its administrator only.
 *
 * @throws {FleetError} `PRECONDITION_FAILED` if `mode` is "kernel" and the kernel cannot.
 */
export async function kernelFamilies(
  options: {
    readonly mode: ForwardMode;
    readonly nft: NftDriver;
    readonly basePort: number;
    readonly log: Logger;
  },
  signal: AbortSignal,
): Promise<readonly AddressFamily[] | undefined> {
  const { mode, nft, basePort, log } = options;
  const name = relayTableName(basePort);
  try {
    const left = await nft.read(name, signal);
    if (mode === "userspace") {
      // A relay that forwarded in the kernel left it.
      await nft.apply(name, diffTable(left, undefined), signal);
      return undefined;
    }
  } catch (error) {
    if (mode === "userspace") return undefined;
    if (mode === "kernel" || !hasCode(error, "NFT_FAILED", "EXEC_FAILED")) throw error;
    log.warn("nftables cannot be used: the relay forwards by its own sockets", { error: messageOf(error) });
    return undefined;
  }
  const families: AddressFamily[] = [];
  for (const [family, file, setting] of FORWARDING) {
    if (await isOn(file)) families.push(family);
    else if (mode === "kernel")
      throw new FleetError(
        "PRECONDITION_FAILED",
        `cannot forward ${family} in the kernel: ${setting} is 0; set it to 1`,
      );
    else log.warn("the kernel does not forward packets: the relay's own sockets do", { family, setting });
  }
  return families;
}

async function isOn(file: string): Promise<boolean> {
  try {
    return (await readFile(file, "utf8")).trim() === "1";
  } catch {
    return false;
  }
}
