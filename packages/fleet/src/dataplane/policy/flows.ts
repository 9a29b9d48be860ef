import { networkInterfaces } from "node:os";
import { type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import type { Enforced, Traffic } from "#policy/enforced.ts";
import type { Transport, Way } from "#policy/model.ts";
import { DNS_PORT, DNS_PROXY_PORT } from "./names.ts";
import type { AnyFlow } from "@fairlead/os/nft/netlink/conntrack.ts";

/** By what flows are judged that are there already. */
export interface Judging {
  readonly enforced: Enforced;
  /** Name of the own cluster. */
  readonly cluster: string;
  /** Whether it is not known which pod of another cluster has an address. */
  readonly isUnidentified: (address: IpAddress) => boolean;
  /** Whether the node has the address: its flows to pods always pass. */
  readonly isOwn: (address: IpAddress) => boolean;
}

/**
 * Whether policies deny a flow that is there already. One with a pod of another cluster that is not identified yet lasts if it may be allowed
 * when it is: else each new policy would end the flows of innocent pods.
 */
export function isDenied(flow: AnyFlow, { enforced, cluster, isUnidentified, isOwn }: Judging): boolean {
  const { source, answerer } = flow;
  if (source === answerer) return false;
  // The DNS proxy judges what it is asked.
  if (flow.port === DNS_PROXY_PORT && isOwn(answerer)) return false;
  // A flow from before a policy that needs the proxy.
  if (flow.port === DNS_PORT && enforced.isProxied(source)) return true;
  const question = { source, destination: answerer, traffic: trafficOf(flow) };
  const isAllowed = (way: Way, other: IpAddress): boolean =>
    enforced.verdict(question, way).isAllowed ||
    (isUnidentified(other) && enforced.mayBeAllowed(question, way, cluster));
  return (!isOwn(source) && !isAllowed("ingress", source)) || !isAllowed("egress", answerer);
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
