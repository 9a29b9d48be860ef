import { networkInterfaces } from "node:os";
import { type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import type { Enforced, Traffic } from "#policy/enforced.ts";
import type { Transport } from "#policy/model.ts";
import { DNS_PORT, DNS_PROXY_PORT } from "./names.ts";
import type { AnyFlow } from "@fairlead/os/nft/netlink/conntrack.ts";

/** Whether policies deny a flow that is there already. @param isOwn - Whether the node has the address: its flows to pods always pass. */
export function isDenied(flow: AnyFlow, enforced: Enforced, isOwn: (address: IpAddress) => boolean): boolean {
  const { source, answerer } = flow;
  if (source === answerer) return false;
  // The DNS proxy judges what it is asked.
  if (flow.port === DNS_PROXY_PORT && isOwn(answerer)) return false;
  // A flow from before a policy that needs the proxy.
  if (flow.port === DNS_PORT && enforced.isProxied(source)) return true;
  const question = { source, destination: answerer, traffic: trafficOf(flow) };
  if (!isOwn(source) && !enforced.verdict(question, "ingress").isAllowed) return true;
  return !enforced.verdict(question, "egress").isAllowed;
}

/** The addresses of the node, as far as this namespace has them: those of bridges, too. */
export function ownAddresses(): ReadonlySet<IpAddress> {
  const all = Object.values(networkInterfaces()).flatMap((it) => it ?? []);
  return new Set(all.flatMap((it) => tryParseAddress(it.address) ?? []));
}

const TRANSPORTS: ReadonlyMap<number, Transport> = new Map([
  [6, "TCP"],
  [17, "UDP"],
  [132, "SCTP"],
]);

function trafficOf({ protocol, port, icmpType }: AnyFlow): Traffic {
  const transport = TRANSPORTS.get(protocol);
  if (transport !== undefined && port !== undefined) return { kind: "transport", protocol: transport, port };
  return icmpType === undefined ? { kind: "protocol", number: protocol } : { kind: "icmp", type: icmpType };
}
