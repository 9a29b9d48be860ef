import {
  type IpAddress,
  familyOf,
  formatAddress,
  parseAddress,
  tryParseAddress,
} from "@fairlead/base/netaddr/address.ts";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { Informer } from "@fairlead/kube/types.ts";

export interface DnsServer {
  readonly address: IpAddress;
  readonly port: number;
}

const MAX_KNOWN = 1000;

/** The endpoints behind the addresses of Services: policies are about endpoints. */
export class DnsServers implements Disposable {
  readonly #services: Informer<Service>;
  readonly #slices: Informer<EndpointSlice>;
  readonly #known = new Map<string, readonly DnsServer[]>();
  readonly #stack = new DisposableStack();

  constructor(services: Informer<Service>, slices: Informer<EndpointSlice>) {
    this.#services = services;
    this.#slices = slices;
    for (const it of [services, slices]) this.#stack.use(it.subscribe(() => this.#known.clear()));
  }

  of(asked: DnsServer, protocol: "TCP" | "UDP"): readonly DnsServer[] {
    const id = `${protocol} ${formatAddress(asked.address)} ${asked.port}`;
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    const found = serversOf(asked, protocol, this.#services.store.list(), this.#slices.store.list());
    this.#known.set(id, found);
    return found;
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

/** What is not the address of a Service is a server itself. Pure. */
export function serversOf(
  asked: DnsServer,
  protocol: "TCP" | "UDP",
  services: Iterable<Service>,
  slices: Iterable<EndpointSlice>,
): readonly DnsServer[] {
  const text = formatAddress(asked.address);
  for (const { metadata, spec } of services) {
    const addresses = spec?.clusterIPs ?? [spec?.clusterIP ?? ""];
    if (!addresses.some((it) => it === text || canonical(it) === text)) continue;
    const port = spec?.ports?.find((it) => it.port === asked.port && (it.protocol ?? "TCP") === protocol);
    if (port === undefined) return [];
    const family = familyOf(asked.address);
    return [...slices]
      .filter(
        (it) =>
          it.metadata.namespace === metadata.namespace &&
          it.metadata.labels?.["kubernetes.io/service-name"] === metadata.name &&
          it.addressType === family,
      )
      .flatMap((it) => endpointsOf(it, port.name ?? "", protocol));
  }
  return [asked];
}

function canonical(text: string): string | undefined {
  const address = tryParseAddress(text);
  return address === undefined ? undefined : formatAddress(address);
}

function endpointsOf(
  { endpoints, ports }: EndpointSlice,
  name: string,
  protocol: string,
): readonly DnsServer[] {
  const port = ports?.find((it) => (it.name ?? "") === name && (it.protocol ?? "TCP") === protocol)?.port;
  if (port === undefined) return [];
  return (endpoints ?? [])
    .filter((it) => it.conditions?.ready !== false)
    .flatMap((it) => it.addresses.slice(0, 1))
    .map((it) => ({ address: parseAddress(it), port }));
}
