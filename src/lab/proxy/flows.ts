import { hasCode } from "#base/errors.ts";
import { exec } from "#base/exec.ts";
import type { Logger } from "#base/log.ts";
import { familyOfText } from "#netaddr/address.ts";
import type { StaleFlow } from "./changes.ts";

/** Flows that conntrack holds. */
export interface FlowTable {
  /** Forgets flows, if there are any: their next packet is treated as the first of a new one. */
  forget(flows: readonly StaleFlow[], signal: AbortSignal): Promise<void>;
}

export interface ConntrackOptions {
  /** Put before `conntrack`: the way into another network namespace, if any. Default: none. */
  readonly prefix?: readonly string[];
  readonly log: Logger;
}

/**
 * By the `conntrack` program, which deletes by any part of a flow; it is used only when a UDP port loses an endpoint,
 * seconds apart at most. Where it is not installed such flows live on until they were silent for 30 s
 * (nf_conntrack_udp_timeout).
 */
export function createConntrackFlows(options: ConntrackOptions): FlowTable {
  const [command, ...before] = [...(options.prefix ?? []), "conntrack"];
  return {
    async forget(flows, signal) {
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
    },
  };
}

function deleteArgs({ address, port, endpoint }: StaleFlow): readonly string[] {
  const family = familyOfText(address) === "IPv6" ? "ipv6" : "ipv4";
  const client = ["--orig-dst", address, "--orig-port-dst", String(port)];
  const server = ["--reply-src", endpoint.address, "--reply-port-src", String(endpoint.port)];
  return ["-D", "-f", family, "-p", "udp", ...client, ...server];
}
