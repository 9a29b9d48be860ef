import type { EndpointSlice } from "#api/discovery/v1/types.ts";
import { MCS_SOURCE_CLUSTER_LABEL, type ServiceImport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { CLASS, type ResourceRecord } from "#dnswire/types.ts";
import { tryParseAddress } from "#netaddr/address.ts";
import { isLabel, isSubdomain } from "./labels.ts";
import { headlessRecords, hostsOf, virtualServiceRecords } from "./service-records.ts";
import type { Contribution } from "./tree.ts";

/** The schema of the cluster-set zone (KEP-1645, specification.md). */
const SCHEMA_VERSION = "1.0.0";
const SCHEMA_TTL = 28_800;

export interface ClusterSetZone {
  /** Folded, with its dot: "clusterset.local.". */
  readonly origin: string;
  /** Unit: seconds. */
  readonly ttl: number;
}

const NOTHING: Contribution = { records: [] };

/** What a cluster-set zone holds before there is any service. */
export function zoneContribution({ origin }: ClusterSetZone): Contribution {
  const version: ResourceRecord = {
    name: `dns-version.${origin}`,
    class: CLASS.IN,
    ttl: SCHEMA_TTL,
    data: { type: "TXT", strings: [SCHEMA_VERSION] },
  };
  return { records: [version], names: [`svc.${origin}`] };
}

/** A namespace has a name even when it has no service: asking for it is no error, there is just nothing. */
export function namespaceContribution(zone: ClusterSetZone, namespace: string): Contribution {
  return isLabel(namespace) ? { records: [], names: [`${namespace}.svc.${zone.origin}`] } : NOTHING;
}

/** The records of one imported service. `slices` are those that carry its name in the same namespace. */
export function serviceContribution(
  zone: ClusterSetZone,
  imported: ServiceImport,
  slices: Iterable<EndpointSlice>,
): Contribution {
  const { name: serviceName, namespace } = imported.metadata;
  if (imported.spec === undefined || namespace === undefined) return NOTHING;
  if (!isLabel(serviceName) || !isLabel(namespace)) return NOTHING;
  const name = `${serviceName}.${namespace}.svc.${zone.origin}`;
  if (imported.spec.type === "Headless") return headless(zone, name, slices);
  const addresses = (imported.spec.ips ?? []).flatMap((text) => tryParseAddress(text) ?? []);
  const ports = imported.spec.ports ?? [];
  // The name exists from the moment of the import: before it has an address the answer is NODATA.
  return { records: virtualServiceRecords(name, { addresses, ports }, zone.ttl), names: [name] };
}

function headless(zone: ClusterSetZone, name: string, slices: Iterable<EndpointSlice>): Contribution {
  const domains = new Set<string>();
  const hosts = [...slices].flatMap((slice) => {
    const cluster = slice.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] ?? "";
    const domain = isSubdomain(cluster) ? `${cluster}.${name}` : undefined;
    if (domain !== undefined) domains.add(domain);
    return hostsOf(slice, domain);
  });
  // <clusterid>.<service> is reserved by the specification: it must not exist. Without a ready host nothing does.
  if (hosts.length === 0) return NOTHING;
  return { records: headlessRecords(name, hosts, zone.ttl), reserved: [...domains] };
}
