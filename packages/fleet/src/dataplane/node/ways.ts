import { messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { nodeAddress } from "../pod-attachment/addresses.ts";
import type { EchoProbes } from "./echo-probes.ts";
import { type FleetNetwork, planFleetNetwork } from "./fleet-network.ts";
import { planHostEnd } from "./host-link.ts";
import type { FleetKernel } from "./kernel.ts";
import type { NodeState } from "./state.ts";
import type { TunnelState } from "./tunnels.ts";

export interface WaysOptions {
  readonly nodeName: string;
  readonly kernel: Pick<FleetKernel, "applyNetwork" | "changeNetwork" | "doubtNetwork">;
  readonly probes: Pick<EchoProbes, "stateOf" | "update">;
  readonly log: Logger;
}

/** The routes to other nodes and members, over the ways that answer. */
export class Ways {
  readonly #options: WaysOptions;
  /** As they were when routes were applied last. */
  #tunnels: TunnelState | undefined;
  #hasDead = false;

  constructor(options: WaysOptions) {
    this.#options = options;
  }

  /** A way ceased to answer. */
  died(): void {
    this.#hasDead = true;
  }

  /**
   * Leaves out ways that ceased to answer, before all that takes longer in a pass: until then, packets are lost. What fails here, such as for a
   * device that went at the same time, is left to the pass.
   */
  async leaveDead(state: NodeState, signal: AbortSignal): Promise<void> {
    const tunnels = this.#tunnels;
    if (!this.#hasDead || tunnels === undefined) return;
    this.#hasDead = false;
    try {
      await this.#options.kernel.changeNetwork(this.#plan(state, tunnels).network, signal);
    } catch (error) {
      signal.throwIfAborted();
      this.#options.log.debug("cannot leave a way at once", { error: messageOf(error) });
    }
  }

  async apply(state: NodeState, tunnels: TunnelState, signal: AbortSignal): Promise<void> {
    const { nodeName, kernel, probes } = this.#options;
    this.#hasDead = false;
    this.#tunnels = tunnels;
    if (tunnels.isNew) kernel.doubtNetwork();
    const { network, targets } = this.#plan(state, tunnels);
    const { ipv4, ipv6 } = state.network;
    await kernel.applyNetwork(planHostEnd({ nodeName, ipv4, ipv6 }), network, tunnels.devices, signal);
    probes.update(targets, nodeAddress(state.block.spec.ipv4[0] ?? ""));
  }

  #plan(state: NodeState, tunnels: TunnelState): FleetNetwork {
    const { nodeName, probes } = this.#options;
    return planFleetNetwork({ ...tunnels, nodeName, state, stateOf: (it) => probes.stateOf(it) });
  }

  /** The node has no part in the network any more. */
  leave(): void {
    this.#tunnels = undefined;
    this.#options.probes.update([], "");
  }
}
