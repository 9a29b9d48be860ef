import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { foldName, parseName } from "@fairlead/dns/wire/name.ts";
import { CLASS, type ResourceRecord } from "@fairlead/dns/wire/types.ts";
import { isLabel } from "@fairlead/dns/labels.ts";
import { pointerRecords } from "@fairlead/dns/reverse.ts";
import { headlessRecords, hostsOf, virtualServiceRecords } from "@fairlead/dns/service-records.ts";
import type { Contribution } from "@fairlead/dns/tree.ts";
import { type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";

/** The zone of one cluster, as the Kubernetes DNS specification 1.1 has it. */

const SCHEMA_VERSION = "1.1.0";

export interface ClusterZone {
  /** Folded, with its dot: "cluster.local.". */
  readonly origin: string;
  /** Unit: seconds. */
  readonly ttl: number;
}

const NOTHING: Contribution = { records: [] };

/** What the zone holds before there is any service. */
export function zoneContribution({ origin, ttl }: ClusterZone): Contribution {
  const version: ResourceRecord = {
    name: `dns-version.${origin}`,
    class: CLASS.IN,
    ttl,
    data: { type: "TXT", strings: [SCHEMA_VERSION] },
  };
  return { records: [version], names: [`svc.${origin}`] };
}

/** A namespace has a name even when it has no service. */
export function namespaceContribution(zone: ClusterZone, namespace: string): Contribution {
  return isLabel(namespace) ? { records: [], names: [`${namespace}.svc.${zone.origin}`] } : NOTHING;
}

/** The records of one Service, forward and reverse. `slices` are those that carry its name in its namespace. */
export function serviceContribution(
  zone: ClusterZone,
  service: Service,
  slices: Iterable<EndpointSlice>,
): Contribution {
  const { name: serviceName, namespace } = service.metadata;
  if (namespace === undefined || !isLabel(serviceName) || !isLabel(namespace)) return NOTHING;
  const name = `${serviceName}.${namespace}.svc.${zone.origin}`;
  if (service.spec?.type === "ExternalName") return alias(zone, name, service.spec.externalName ?? "");
  const addresses = clusterAddresses(service);
  if (addresses === "none") {
    const hosts = [...slices].flatMap((slice) => hostsOf(slice, name));
    return { records: [...headlessRecords(name, hosts, zone.ttl), ...pointerRecords(hosts, zone.ttl)] };
  }
  const ports = service.spec?.ports ?? [];
  return {
    records: [
      ...virtualServiceRecords(name, { addresses, ports }, zone.ttl),
      ...pointerRecords([{ name, addresses }], zone.ttl),
    ],
    names: [name],
  };
}

/** The addresses of a Service; "none" when it is headless, and an empty list when it has none yet. */
function clusterAddresses({ spec }: Service): readonly IpAddress[] | "none" {
  if (spec?.clusterIP === "None") return "none";
  const texts = spec?.clusterIPs ?? (spec?.clusterIP === undefined ? [] : [spec.clusterIP]);
  return texts.flatMap((text) => tryParseAddress(text) ?? []);
}

function alias(zone: ClusterZone, name: string, externalName: string): Contribution {
  try {
    const target = foldName(parseName(externalName));
    return { records: [{ name, class: CLASS.IN, ttl: zone.ttl, data: { type: "CNAME", target } }] };
  } catch (error) {
    // The API server accepts some texts that are invalid names; such a Service has no record.
    if (hasCode(error, "DNS_MALFORMED")) return NOTHING;
    throw error;
  }
}
