import { exec } from "@fairlead/base/exec.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { applyNetwork, runIpLines } from "@fairlead/os/iproute/driver.ts";
import { deleteLink } from "@fairlead/os/iproute/lines.ts";
import type { NetworkState } from "@fairlead/os/iproute/state.ts";
import { createNetns, inNetns } from "@fairlead/os/netns/netns.ts";
import { ROUTER_SYSCTLS, STATIC_IPV6_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import type { NftDriver } from "@fairlead/os/nft/driver.ts";
import type { NftTable } from "@fairlead/os/nft/state.ts";
import { createHostLink, type HostLink, planFleetEnd, planHostEnd, raiseLink } from "./host-link.ts";
import { HOST_DEVICE, NODE_DEVICE } from "./names.ts";
import { FLEET_TABLE } from "./table.ts";

export interface KernelOptions {
  readonly nodeName: string;
  /** File of the network namespace `fleet`. */
  readonly fleetNetns: string;
  /** In `fleet`. */
  readonly nft: NftDriver;
}

/** Flows, not packets, are spread over the next hops of a route (linux: ip-sysctl, fib_multipath_hash_policy). */
const MULTIPATH_SYSCTLS = {
  "net/ipv4/fib_multipath_hash_policy": 1,
  "net/ipv6/fib_multipath_hash_policy": 1,
};

/**
 * The node's part of the data path, in the kernel: the namespace `fleet`, its link to the node, and its table. What is there already is
 * adopted. What was applied is recorded, so that an unchanged state costs nothing; `doubt` makes the next pass compare everything.
 */
export class FleetKernel {
  readonly #options: KernelOptions;
  #isNamespaceReady = false;
  #network: { readonly host: NetworkState; readonly fleet: NetworkState } | undefined;
  #table: NftTable | undefined;

  constructor(options: KernelOptions) {
    this.#options = options;
  }

  doubt(): void {
    this.#isNamespaceReady = false;
    this.#network = undefined;
    this.#table = undefined;
  }

  async applyLink(link: HostLink, signal: AbortSignal): Promise<void> {
    const { fleetNetns } = this.#options;
    if (!this.#isNamespaceReady) await this.#createNamespace(signal);
    const network = { host: planHostEnd(link), fleet: planFleetEnd(link) };
    if (sameJson(this.#network, network)) return;
    this.#network = undefined;
    await applyNetwork([NODE_DEVICE], network.fleet, { netns: fleetNetns, signal });
    await applyNetwork([HOST_DEVICE], network.host, { signal });
    this.#network = network;
  }

  async applyTable(table: NftTable, signal: AbortSignal): Promise<void> {
    const { nft } = this.#options;
    const before = this.#table ?? (await nft.read(FLEET_TABLE, signal));
    this.#table = undefined;
    await nft.apply(FLEET_TABLE, diffTable(before, table), signal);
    this.#table = table;
  }

  async #createNamespace(signal: AbortSignal): Promise<void> {
    const { nodeName, fleetNetns } = this.#options;
    await createNetns(fleetNetns, signal);
    await writeSysctls(
      fleetNetns,
      { ...ROUTER_SYSCTLS, ...STATIC_IPV6_SYSCTLS, ...MULTIPATH_SYSCTLS },
      signal,
    );
    const ends = [
      await hasDevice(HOST_DEVICE, undefined, signal),
      await hasDevice(NODE_DEVICE, fleetNetns, signal),
    ];
    if (!ends.every(Boolean)) {
      // An end by itself leads into a namespace that lost its name.
      if (ends[0] === true) await runIpLines([deleteLink(HOST_DEVICE)], { signal });
      await runIpLines(createHostLink(nodeName, fleetNetns), { signal });
    }
    await runIpLines(raiseLink(HOST_DEVICE), { signal });
    await runIpLines(raiseLink(NODE_DEVICE), { netns: fleetNetns, signal });
    this.#isNamespaceReady = true;
  }
}

async function hasDevice(device: string, netns: string | undefined, signal: AbortSignal): Promise<boolean> {
  const args = ["link", "show", "dev", device];
  const line = netns === undefined ? { command: "ip", args } : inNetns(netns, "ip", args);
  const { exitCode } = await exec(line.command, line.args, { signal, allowFailure: true });
  return exitCode === 0;
}
