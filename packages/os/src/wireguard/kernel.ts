import { hasCode } from "@fairlead/base/errors.ts";
import { exec } from "@fairlead/base/exec.ts";
import { deleteDevice, runIpLines } from "#iproute/driver.ts";
import { LinkReader } from "#iproute/link-reader.ts";
import { addWireguard, setLink } from "#iproute/lines.ts";
import type { Link } from "#iproute/parse.ts";
import type { WireguardDriver } from "./driver.ts";
import type { WireguardOptions } from "./options.ts";
import { changeByWg, readByWg } from "./wg.ts";

const KIND = "wireguard";

/** Devices of the kernel's WireGuard. */
export function createKernelDriver(options: WireguardOptions): WireguardDriver {
  const { netns, birthNetns } = options;
  const links = new LinkReader(netns);
  const find = async (name: string, signal: AbortSignal): Promise<Link | undefined> => {
    const link = await links.link(name, signal);
    return link?.kind === KIND ? link : undefined;
  };

  return {
    kind: "kernel",
    async list(signal) {
      const found = await links.links(signal);
      return found.filter((it) => it.kind === KIND).map((it) => it.device);
    },
    async read(name, signal) {
      const link = await find(name, signal);
      if (link === undefined) return undefined;
      return { name, mtu: link.mtu, isUp: link.isUp, ...(await readByWg(name, netns, signal)) };
    },
    async create(name, mtu, signal) {
      if ((await find(name, signal)) !== undefined) return;
      const from = birthNetns === undefined ? { signal } : { netns: birthNetns, signal };
      await runIpLines([addWireguard(name, netns, mtu)], from);
    },
    async setUp(name, mtu, signal) {
      await runIpLines([setLink(name, { up: true, mtu })], { netns, signal });
    },
    change: (name, change, signal) => changeByWg(name, change, { netns, signal }),
    async remove(name, signal) {
      await deleteDevice(name, { netns, signal });
    },
    [Symbol.dispose]() {},
  };
}

/** Whether the kernel has WireGuard: tried in a network namespace that ends with the attempt. */
export async function kernelHasWireguard(signal: AbortSignal): Promise<boolean> {
  try {
    await exec("unshare", ["--net", "--", "ip", "link", "add", "name", "probe", "type", "wireguard"], {
      signal,
    });
    return true;
  } catch (error) {
    if (hasCode(error, "EXEC_FAILED")) return false;
    throw error;
  }
}
