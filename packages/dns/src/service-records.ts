import type { Endpoint, EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { MAX_NAME_BYTES } from "#wire/name.ts";
import { CLASS, type RecordData, type ResourceRecord } from "#wire/types.ts";
import { formatAddress, type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { dashedAddress, isLabel } from "./labels.ts";

/** The records that cluster-local and cluster-set services have in common (Kubernetes DNS specification 1.1, KEP-1645). */

export interface NamedPort {
  readonly name?: string | undefined;
  /** Default: TCP. */
  readonly protocol?: string | undefined;
  readonly port: number;
}

/** One host of a headless service, with a separate name. */
export interface Host {
  /** The whole name, or undefined when its endpoint cannot have one. */
  readonly name: string | undefined;
  readonly addresses: readonly IpAddress[];
  readonly ports: readonly NamedPort[];
  /** In SRV records (RFC 2782): the share among the hosts of the service. Default: 1. */
  readonly weight?: number;
}

/** Gathers records, each once: a record set has no duplicates (RFC 2181, section 5). */
export class RecordList {
  readonly records: ResourceRecord[] = [];
  readonly #seen = new Set<string>();
  /** One text for each name, however many records have it: texts are most of the memory of a large zone. */
  readonly #names = new Map<string, string>();
  readonly #ttl: number;
  constructor(ttl: number) {
    this.#ttl = ttl;
  }

  /** A name that is too long for DNS is left out. */
  add(name: string, data: RecordData, identity: string): void {
    const key = `${name} ${data.type} ${identity}`;
    if (name.length >= MAX_NAME_BYTES || this.#seen.has(key)) return;
    this.#seen.add(key);
    this.records.push({ name: this.#one(name), class: CLASS.IN, ttl: this.#ttl, data });
  }

  #one(name: string): string {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    this.#names.set(name, name);
    return name;
  }

  address(name: string, address: IpAddress): void {
    const data: RecordData = typeof address === "number" ? { type: "A", address } : { type: "AAAA", address };
    this.add(name, data, String(address));
  }

  /**
   * `_port._protocol` for a port with a name, and the bare name for every port. The bare name is what the conformance suite
   * of the Multi-Cluster Services API asks for; there one target and number counts once, whatever the protocol.
   */
  services(name: string, ports: readonly NamedPort[], target: string, weight = 1): void {
    if (target.length >= MAX_NAME_BYTES) return;
    for (const { name: portName, protocol, port } of ports) {
      const data: RecordData = { type: "SRV", priority: 0, weight, port, target };
      const identity = `${port} ${target}`;
      this.add(name, data, identity);
      const label = `_${(protocol ?? "TCP").toLowerCase()}`;
      if (portName === undefined || portName === "" || !isLabel(portName)) continue;
      this.add(`_${portName}.${label}.${name}`, data, identity);
    }
  }
}

/** The records of a service with virtual addresses. */
export function virtualServiceRecords(
  name: string,
  service: { readonly addresses: readonly IpAddress[]; readonly ports: readonly NamedPort[] },
  ttl: number,
): ResourceRecord[] {
  const list = new RecordList(ttl);
  for (const address of service.addresses) list.address(name, address);
  if (service.addresses.length > 0) list.services(name, service.ports, name);
  return list.records;
}

/** The records of a service that is its hosts. */
export function headlessRecords(name: string, hosts: readonly Host[], ttl: number): ResourceRecord[] {
  const list = new RecordList(ttl);
  for (const host of hosts) {
    for (const address of host.addresses) {
      list.address(name, address);
      if (host.name !== undefined) list.address(host.name, address);
    }
    if (host.name !== undefined) list.services(name, host.ports, host.name, host.weight);
  }
  return list.records;
}

/**
 * The ready hosts of one slice.
 *
 * @param domainOf - The domain in which the slice's hosts have their names, or undefined when they can have none.
 */
export function hostsOf(slice: EndpointSlice, domain: string | undefined): Host[] {
  if (slice.addressType === "FQDN") return [];
  const ports = (slice.ports ?? []).flatMap(({ name, protocol, port }) =>
    port === undefined ? [] : [{ name, protocol, port }],
  );
  return (slice.endpoints ?? []).filter(isReady).flatMap((endpoint) => {
    const addresses = endpoint.addresses.flatMap((text) => tryParseAddress(text) ?? []);
    return hostsOfEndpoint(endpoint, addresses).map(({ label, addresses: own }) => ({
      name: domain === undefined || label === "" ? undefined : `${label}.${domain}`,
      addresses: own,
      ports,
    }));
  });
}

/** Ready unless it says otherwise: an absent condition is to be read as true. */
function isReady(endpoint: Endpoint): boolean {
  return endpoint.conditions?.ready !== false;
}

/** An endpoint without a host name has one host per address, named by it. */
function hostsOfEndpoint(
  { hostname }: Endpoint,
  addresses: readonly IpAddress[],
): readonly { readonly label: string; readonly addresses: readonly IpAddress[] }[] {
  if (hostname !== undefined && isLabel(hostname)) return [{ label: hostname, addresses }];
  return addresses.map((address) => ({ label: dashedAddress(formatAddress(address)), addresses: [address] }));
}
