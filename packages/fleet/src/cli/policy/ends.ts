import { FleetError } from "@fairlead/base/errors.ts";
import { familyOf, formatAddress, type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import type { Traffic } from "#policy/enforced.ts";
import type { PolicyPod, Transport } from "#policy/model.ts";
import { type ClusterView, podName } from "./view.ts";

/** The ends of a flow, as people type them. Pure. */

export interface End {
  readonly pod?: PolicyPod;
  readonly addresses: readonly IpAddress[];
  /** `member-1/shop/cart-0 (10.1.0.2)`, or the address. */
  readonly text: string;
}

/**
 * Reads `namespace/pod`, of the first cluster that has it, `cluster/namespace/pod`, or an address.
 *
 * @throws {FleetError} `OPTION_INVALID`
 */
export function endOf(text: string, views: readonly ClusterView[]): End {
  const pods = views.flatMap((it) => it.of.pods);
  const address = tryParseAddress(text);
  if (address !== undefined) {
    const pod = pods.find((it) => it.addresses.includes(address));
    return pod === undefined
      ? { addresses: [address], text: formatAddress(address) }
      : { pod, addresses: [address], text: textOf(pod, address) };
  }
  const wanted = text.split("/");
  const pod = pods.find((it) => [`${it.namespace}/${it.name}`, podName(it)].includes(text));
  const [first] = pod?.addresses ?? [];
  if (pod !== undefined && first !== undefined)
    return { pod, addresses: pod.addresses, text: textOf(pod, first) };
  if (wanted.length !== 2 && wanted.length !== 3)
    throw new FleetError(
      "OPTION_INVALID",
      `${text} is not NAMESPACE/POD, CLUSTER/NAMESPACE/POD or an address`,
    );
  const clusters = views.map((it) => it.of.cluster).join(", ");
  throw new FleetError(
    "OPTION_INVALID",
    `no pod ${text} with an address is known to ${clusters}; pods of other clusters are known only where a policy or a service needs them`,
  );
}

function textOf(pod: PolicyPod, address: IpAddress): string {
  return `${podName(pod)} (${formatAddress(address)})`;
}

/** The addresses of a family that both ends have. */
export function addressesOf(from: End, to: End): readonly [IpAddress, IpAddress] {
  for (const source of from.addresses) {
    const destination = to.addresses.find((it) => familyOf(it) === familyOf(source));
    if (destination !== undefined) return [source, destination];
  }
  throw new FleetError("OPTION_INVALID", `${from.text} and ${to.text} have no address of the same family`);
}

const TRANSPORTS: ReadonlyMap<string, Transport> = new Map([
  ["tcp", "TCP"],
  ["udp", "UDP"],
  ["sctp", "SCTP"],
]);

/**
 * Reads `80`, `53/udp` or `ping`.
 *
 * @throws {FleetError} `OPTION_INVALID`
 */
export function trafficOf(text: string, destination: IpAddress): Traffic {
  // Source: RFC 792 and RFC 4443, echo requests.
  if (text === "ping") return { kind: "icmp", type: typeof destination === "number" ? 8 : 128 };
  const [number = "", protocol = "tcp", ...rest] = text.toLowerCase().split("/");
  const transport = TRANSPORTS.get(protocol);
  const port = /^\d{1,5}$/.test(number) ? Number(number) : 0;
  if (transport === undefined || rest.length > 0 || port < 1 || port > 65_535)
    throw new FleetError("OPTION_INVALID", `${text} is not a port such as 80, 53/udp or 9/sctp, nor "ping"`);
  return { kind: "transport", protocol: transport, port };
}

export function trafficText(traffic: Traffic): string {
  if (traffic.kind === "transport") return `${traffic.protocol} ${traffic.port}`;
  return traffic.kind === "icmp" ? `ICMP type ${traffic.type}` : `IP protocol ${traffic.number}`;
}
