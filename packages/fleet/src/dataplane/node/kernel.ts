import { exec } from "@fairlead/base/exec.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { applyNetwork, deleteDevice, runIpLines } from "@fairlead/os/iproute/driver.ts";
import { diffNetwork, type NetworkState } from "@fairlead/os/iproute/state.ts";
import { createNetns, deleteNetns, inNetns } from "@fairlead/os/netns/netns.ts";
import { ROUTER_SYSCTLS, STATIC_IPV6_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import type { NftDriver } from "@fairlead/os/nft/driver.ts";
import type { NftTable } from "@fairlead/os/nft/state.ts";
import { NEXT_HOP_IDS, RULE_PRIORITIES } from "./fleet-network.ts";
import { createHostLink, raiseLink } from "./host-link.ts";
import { HOST_TABLE, renderHostTable } from "./host-table.ts";
import { HOST_DEVICE, NODE_DEVICE } from "./names.ts";
import { FLEET_TABLE } from "./table.ts";

interface AppliedNetwork {
  readonly network: NetworkState;
  /** WireGuard devices. */
  readonly tunnels: readonly string[];
}

export interface KernelOptions {
  readonly nodeName: string;
  /** File of the network namespace `fleet`. */
  readonly fleetNetns: string;
  /** In `fleet`. */
  readonly nft: NftDriver;
  /** In the node's own namespace. */
  readonly hostNft: NftDriver;
  /** Brings what no packet in `fleet` may come before: called when the namespace has no link yet. */
  readonly guard: (signal: AbortSignal) => Promise<void>;
  /** A table was deleted by another program, and is there again. */
  readonly onLost: (table: string) => void;
}

/** Of earlier versions. */
const VXLAN_DEVICE = "fl-vxlan";
/** Flows, not packets, are spread over the next hops of a route (linux: ip-sysctl, fib_multipath_hash_policy). */
const MULTIPATH_SYSCTLS = {
  "net/ipv4/fib_multipath_hash_policy": 1,
  "net/ipv6/fib_multipath_hash_policy": 1,
};
/** Echo requests of the agent: sockets for them are open to groups of this range (icmp(7)). */
const PING_SYSCTLS = {
  "net/ipv4/ping_group_range": "0 2147483647",
  // An answer has the mark of its request, and so its route.
  "net/ipv4/fwmark_reflect": 1,
};

/**
 * The node's part of the data path, in the kernel: the namespace `fleet`, its link to the node, and the tables at both ends. What is there already is
 * adopted. What was applied is recorded, so that an unchanged state costs nothing; `doubt` makes the next pass compare everything.
 */
export class FleetKernel {
  readonly #options: KernelOptions;
  #isNamespaceReady = false;
  #isVxlanGone = false;
  /** What was applied last, in `fleet` and in the node's own namespace. */
  #network: AppliedNetwork | undefined;
  #host: NetworkState | undefined;
  #table: NftTable | undefined;
  /** Tables that were written since the namespace was made. */
  readonly #written = new Set<string>();

  constructor(options: KernelOptions) {
    this.#options = options;
  }

  doubt(): void {
    this.#isNamespaceReady = false;
    this.doubtNetwork();
    this.#host = undefined;
    this.#table = undefined;
  }

  /** A device was recreated: it has no addresses and routes. */
  doubtNetwork(): void {
    this.#network = undefined;
  }

  /** Makes the namespace, and its link to the node. */
  async prepare(signal: AbortSignal): Promise<void> {
    if (!this.#isNamespaceReady) await this.#createNamespace(signal);
  }

  /** Applies the table and the routes of the node, and the network of these WireGuard devices and all other devices in `fleet`. */
  async applyNetwork(
    host: NetworkState,
    network: NetworkState,
    tunnels: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    const wanted = { network, tunnels };
    if (!sameJson(this.#network, wanted)) {
      this.#network = undefined;
      await applyNetwork([NODE_DEVICE, ...tunnels], network, {
        netns: this.#options.fleetNetns,
        signal,
        nextHopIds: NEXT_HOP_IDS,
        rulePriorities: RULE_PRIORITIES,
      });
      this.#network = wanted;
    }
    if (sameJson(this.#host, host)) return;
    this.#host = undefined;
    // Before there are routes to `fleet`.
    const prefixes = host.routes.map((it) => it.to);
    await this.#applyHostTable(renderHostTable(prefixes), signal);
    await applyNetwork([HOST_DEVICE], host, { signal });
    this.#host = host;
  }

  /** Turns the network that was applied last into this one, without a look at the kernel: the next pass compares both. */
  async changeNetwork(network: NetworkState, signal: AbortSignal): Promise<void> {
    const before = this.#network?.network;
    if (before === undefined) return;
    this.#network = undefined;
    await runIpLines(diffNetwork(before, network), { netns: this.#options.fleetNetns, signal });
  }

  async applyTable(table: NftTable, signal: AbortSignal): Promise<void> {
    const { nft } = this.#options;
    const before = this.#table ?? (await nft.read(FLEET_TABLE, signal));
    this.#table = undefined;
    await nft.apply(FLEET_TABLE, diffTable(before, table), signal);
    this.#noteWritten(FLEET_TABLE.name, before);
    this.#table = table;
  }

  #noteWritten(name: string, before: NftTable | undefined): void {
    if (before === undefined && this.#written.has(name)) this.#options.onLost(name);
    this.#written.add(name);
  }

  /** Removes all of it, the namespace last: what is in there goes with it. */
  async remove(signal: AbortSignal): Promise<void> {
    this.doubt();
    const netns = this.#options.fleetNetns;
    await this.#applyHostTable(undefined, signal);
    this.#written.clear();
    await this.#removeVxlan(signal);
    await deleteDevice(HOST_DEVICE, { signal });
    await deleteNetns(netns, signal);
  }

  async #createNamespace(signal: AbortSignal): Promise<void> {
    const { nodeName, fleetNetns } = this.#options;
    await createNetns(fleetNetns, signal);
    await writeSysctls(
      fleetNetns,
      { ...ROUTER_SYSCTLS, ...STATIC_IPV6_SYSCTLS, ...MULTIPATH_SYSCTLS, ...PING_SYSCTLS },
      signal,
    );
    await this.#removeVxlan(signal);
    const ends = [
      await hasDevice(HOST_DEVICE, undefined, signal),
      await hasDevice(NODE_DEVICE, fleetNetns, signal),
    ];
    if (!ends.every(Boolean)) {
      await this.#options.guard(signal);
      this.#written.delete(FLEET_TABLE.name);
      // An end by itself leads into a namespace that lost its name.
      if (ends[0] === true) await deleteDevice(HOST_DEVICE, { signal });
      await runIpLines(createHostLink(nodeName, fleetNetns), { signal });
    }
    await runIpLines(raiseLink(HOST_DEVICE), { signal });
    await runIpLines(raiseLink(NODE_DEVICE), { netns: fleetNetns, signal });
    this.#isNamespaceReady = true;
  }

  /**
   * Earlier versions had VXLAN between nodes, which accepts packets of every sender. Its device would also keep the UDP port of the node.
   */
  async #removeVxlan(signal: AbortSignal): Promise<void> {
    if (this.#isVxlanGone) return;
    await deleteDevice(VXLAN_DEVICE, { netns: this.#options.fleetNetns, signal });
    this.#isVxlanGone = true;
  }

  async #applyHostTable(table: NftTable | undefined, signal: AbortSignal): Promise<void> {
    const { hostNft } = this.#options;
    const before = await hostNft.read(HOST_TABLE, signal);
    await hostNft.apply(HOST_TABLE, diffTable(before, table), signal);
    this.#noteWritten(HOST_TABLE.name, before);
  }
}

async function hasDevice(device: string, netns: string | undefined, signal: AbortSignal): Promise<boolean> {
  const args = ["link", "show", "dev", device];
  const line = netns === undefined ? { command: "ip", args } : inNetns(netns, "ip", args);
  const { exitCode } = await exec(line.command, line.args, { signal, allowFailure: true });
  return exitCode === 0;
}
