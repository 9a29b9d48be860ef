import { hasCode } from "#base/errors.ts";
import { exec } from "#base/exec.ts";
import type { Logger } from "#base/log.ts";
import { type AddressFamily, familyOfText } from "#netaddr/address.ts";
import { forgetUdpFlows, type UdpFlow } from "#nft/netlink/conntrack.ts";
import { type LibC, loadLibC, type NetlinkSocket, openNetlinkSocket } from "#nft/netlink/socket.ts";
import type { StaleFlow } from "./changes.ts";

/** Flows that conntrack holds. */
export interface FlowTable extends Disposable {
  /** Forgets flows, if there are any: their next packet is treated as the first of a new one. */
  forget(flows: readonly StaleFlow[], signal: AbortSignal): Promise<void>;
}

export interface FlowTableOptions {
  /** File of the network namespace to work in. Default: that of this process. */
  readonly netns?: string;
  readonly log: Logger;
  /** How the C library is reached. Default: by the foreign function interface, where it is installed. */
  readonly loadLibC?: () => Promise<LibC | undefined>;
}

/**
 * By netlink, which reads the table once for any number of flows; where there is none, by the `conntrack` program, which
 * costs a process for each. With neither, such flows live on until they were silent for 30 s (nf_conntrack_udp_timeout),
 * and a line in the log says so.
 */
export function createFlowTable(options: FlowTableOptions): FlowTable {
  return new ConntrackFlows(options);
}

class ConntrackFlows implements FlowTable {
  readonly #options: FlowTableOptions;
  #socket: NetlinkSocket | undefined;
  #isTried = false;

  constructor(options: FlowTableOptions) {
    this.#options = options;
  }

  async forget(flows: readonly StaleFlow[], signal: AbortSignal): Promise<void> {
    const socket = await this.#open();
    if (socket === undefined) {
      await forgetByProgram(flows, this.#options, signal);
      return;
    }
    const stale = new Set(flows.map((it) => flowText(it)));
    for (const family of new Set(flows.map((it) => familyOf(it))))
      forgetUdpFlows(socket, family, (flow) => stale.has(flowText(staleFlowOf(flow))));
  }

  [Symbol.dispose](): void {
    this.#socket?.[Symbol.dispose]();
    this.#socket = undefined;
    this.#isTried = true;
  }

  async #open(): Promise<NetlinkSocket | undefined> {
    if (this.#isTried) return this.#socket;
    const libc = await (this.#options.loadLibC ?? loadLibC)();
    this.#isTried = true;
    try {
      if (libc !== undefined) this.#socket = openNetlinkSocket(libc, this.#options.netns);
    } catch (error) {
      if (!hasCode(error, "NFT_FAILED")) throw error;
    }
    return this.#socket;
  }
}

function familyOf(flow: StaleFlow): AddressFamily {
  return familyOfText(flow.address) ?? "IPv4";
}

function flowText({ address, port, endpoint }: StaleFlow): string {
  return `${address} ${port} ${endpoint.address} ${endpoint.port}`;
}

function staleFlowOf(flow: UdpFlow): StaleFlow {
  const endpoint = { address: flow.answerer, port: flow.answererPort };
  return { address: flow.destination, port: flow.destinationPort, endpoint };
}

async function forgetByProgram(
  flows: readonly StaleFlow[],
  options: FlowTableOptions,
  signal: AbortSignal,
): Promise<void> {
  const prefix = options.netns === undefined ? [] : ["nsenter", `--net=${options.netns}`, "--"];
  const [command, ...before] = [...prefix, "conntrack"];
  for (const flow of flows) {
    try {
      // Code 1 says that there was no such flow.
      await exec(command, [...before, ...deleteArgs(flow)], { signal, allowFailure: true });
    } catch (error) {
      if (!hasCode(error, "EXEC_FAILED")) throw error;
      options.log.warn("conntrack is not installed; UDP flows of removed endpoints end by time-out");
      return;
    }
  }
}

function deleteArgs(flow: StaleFlow): readonly string[] {
  const { address, port, endpoint } = flow;
  const family = familyOf(flow) === "IPv6" ? "ipv6" : "ipv4";
  const client = ["--orig-dst", address, "--orig-port-dst", String(port)];
  const server = ["--reply-src", endpoint.address, "--reply-port-src", String(endpoint.port)];
  return ["-D", "-f", family, "-p", "udp", ...client, ...server];
}
