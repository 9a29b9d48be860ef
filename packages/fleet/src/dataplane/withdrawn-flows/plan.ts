import type { Service, ServicePort } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { formatAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { frontendsOf } from "../service-proxy/addresses.ts";
import { canServe, isPort } from "../service-proxy/backends.ts";
import type { Family } from "../service-proxy/names.ts";
import { portsAt } from "../service-proxy/plan.ts";
import type { Protocol, ServiceFlow } from "../service-proxy/stale-flows.ts";

/** Which flows of a Service lead to endpoints that its slices do not have any more. Pure. */

/** An endpoint of a Service at one of its ports. */
export interface PortEndpoint {
  readonly family: Family;
  /** Name of the port. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly address: string;
  readonly port: number;
}

/** The endpoints of a slice to which a service proxy may send, by their text. */
export function endpointsOf(slice: EndpointSlice): ReadonlyMap<string, PortEndpoint> {
  const found = new Map<string, PortEndpoint>();
  const family = FAMILIES.get(slice.addressType);
  if (family === undefined) return found;
  const ports = (slice.ports ?? []).flatMap(({ name, protocol = "TCP", port }) => {
    const known = PROTOCOLS.get(protocol);
    return known !== undefined && isPort(port) ? [{ name: name ?? "", protocol: known, port }] : [];
  });
  // A list without entries is null where Go wrote it.
  for (const endpoint of slice.endpoints ?? []) {
    const parsed = tryParseAddress(endpoint.addresses[0] ?? "");
    if (parsed === undefined || !canServe(endpoint)) continue;
    const address = formatAddress(parsed);
    for (const it of ports)
      found.set(`${it.name} ${it.protocol} ${address} ${it.port}`, { ...it, family, address });
  }
  return found;
}

/** The flows by which clients reach an endpoint through its Service. */
export function flowsTo(
  service: Service,
  endpoint: PortEndpoint,
  nodeAddresses: readonly string[],
): readonly ServiceFlow[] {
  const { protocol, family, address, port } = endpoint;
  const isOf = (it: ServicePort): boolean =>
    (it.name ?? "") === endpoint.name && PROTOCOLS.get(it.protocol ?? "TCP") === protocol;
  return frontendsOf(service, nodeAddresses)
    .filter((it) => it.family === family)
    .flatMap((frontend) =>
      portsAt(service, frontend)
        .filter(isOf)
        .map((it) => ({ protocol, address: frontend.text, port: it.port, endpoint: { address, port } })),
    );
}

const FAMILIES: ReadonlyMap<string, Family> = new Map([
  ["IPv4", "4"],
  ["IPv6", "6"],
]);
const PROTOCOLS: ReadonlyMap<string, Protocol> = new Map([
  ["TCP", "tcp"],
  ["UDP", "udp"],
]);
