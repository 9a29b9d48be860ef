import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, type ObjectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { readWeight } from "#domain/weight.ts";
import { TRAFFIC_ANNOTATIONS } from "#api/fairlead.dev/names.ts";
import { MCS_SOURCE_CLUSTER_LABEL, type ServiceImport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { CLASS, type ResourceRecord } from "@fairlead/dns/wire/types.ts";
import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { isLabel, isSubdomain } from "@fairlead/dns/labels.ts";
import { type Named, pointerRecords } from "@fairlead/dns/reverse.ts";
import { headlessRecords, type Host, hostsOf, virtualServiceRecords } from "@fairlead/dns/service-records.ts";
import type { Contribution, Share } from "@fairlead/dns/tree.ts";

/** The schema of the cluster-set zone (KEP-1645, specification.md). */
const SCHEMA_VERSION = "1.0.0";
const SCHEMA_TTL = 28_800;

export interface ClusterSetZone {
  /** Folded, with its dot: "clusterset.local.". */
  readonly origin: string;
  /** Unit: seconds. */
  readonly ttl: number;
  /** Whether `<cluster>.<service>` is a name too, as in Fleetboard. KEP-1645 reserves it. */
  readonly hasClusterNames?: boolean;
  /** Whether addresses have PTR records with the names of this zone. */
  readonly isReverse?: boolean;
}

const NOTHING: Contribution = { records: [] };

/** The contents of a cluster-set zone without services. */
export function zoneContribution({ origin }: ClusterSetZone): Contribution {
  const version: ResourceRecord = {
    name: `dns-version.${origin}`,
    class: CLASS.IN,
    ttl: SCHEMA_TTL,
    data: { type: "TXT", strings: [SCHEMA_VERSION] },
  };
  return { records: [version], names: [`svc.${origin}`] };
}

/** A namespace name exists even without a service: a query for it returns NOERROR without data. */
export function namespaceContribution(zone: ClusterSetZone, namespace: string): Contribution {
  return isLabel(namespace) ? { records: [], names: [`${namespace}.svc.${zone.origin}`] } : NOTHING;
}

/** The name of a service; undefined if it can have none. */
export function serviceName({ origin }: ClusterSetZone, key: ObjectKey): string | undefined {
  const { name, namespace } = splitKey(key);
  return namespace !== undefined && isLabel(name) && isLabel(namespace)
    ? `${name}.${namespace}.svc.${origin}`
    : undefined;
}

/** The records of one imported service. `slices` are those that carry its name in the same namespace. */
export function serviceContribution(
  zone: ClusterSetZone,
  imported: ServiceImport,
  slices: Iterable<EndpointSlice>,
): Contribution {
  const name = serviceName(zone, keyOf(imported));
  if (imported.spec === undefined || name === undefined) return NOTHING;
  if (imported.spec.type === "Headless") return headless(zone, name, slices);
  const addresses = (imported.spec.ips ?? []).flatMap((text) => tryParseAddress(text) ?? []);
  const ports = imported.spec.ports ?? [];
  const clusters = zone.hasClusterNames === true ? Map.groupBy(slices, clusterOf).keys() : [];
  // The name exists from the moment of the import: before it has an address the answer is NODATA.
  const names = [name, ...[...clusters].flatMap((it) => clusterDomain(it, name) ?? [])];
  const records = names.flatMap((it) => virtualServiceRecords(it, { addresses, ports }, zone.ttl));
  return { records: [...records, ...pointers(zone, [{ name, addresses }])], names };
}

function pointers({ isReverse = false, ttl }: ClusterSetZone, named: readonly Named[]): ResourceRecord[] {
  return isReverse ? pointerRecords(named, ttl) : [];
}

function clusterOf({ metadata }: EndpointSlice): string {
  return metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] ?? "";
}

/** The domain of a cluster's hosts; undefined where they can have none. */
function clusterDomain(cluster: string, name: string): string | undefined {
  return isSubdomain(cluster) ? `${cluster}.${name}` : undefined;
}

function headless(zone: ClusterSetZone, name: string, slices: Iterable<EndpointSlice>): Contribution {
  const clusters = Map.groupBy(slices, clusterOf);
  const parts = [...clusters].map(([cluster, own]) => clusterPart(clusterDomain(cluster, name), own));
  const serving = parts.filter((it) => it.hosts.length > 0);
  // <clusterid>.<service> is reserved by the specification: it must not exist. Without a ready host nothing does.
  if (serving.length === 0) return NOTHING;
  const isEven = new Set(serving.map((it) => it.weight)).size === 1;
  const all = serving.flatMap((it) => it.hosts);
  const common = headlessRecords(name, isEven ? all : serving.flatMap(weighedHosts), zone.ttl);
  const { hasClusterNames = false } = zone;
  return {
    records: [
      ...common,
      ...(hasClusterNames ? serving.flatMap((it) => clusterRecords(it, zone.ttl)) : []),
      ...pointers(zone, all),
    ],
    ...(hasClusterNames ? {} : { reserved: parts.flatMap(({ domain }) => domain ?? []) }),
    ...(isEven ? {} : { shares: new Map([[name, sharesOf(name, serving, common)]]) }),
  };
}

/** The records at the name of one cluster. Those of its hosts are in the records of the service. */
function clusterRecords({ domain, hosts }: ClusterPart, ttl: number): ResourceRecord[] {
  if (domain === undefined) return [];
  return headlessRecords(domain, hosts, ttl).filter((it) => it.name === domain || it.data.type === "SRV");
}

interface ClusterPart {
  /** In which its hosts have their names; undefined where they can have none. */
  readonly domain: string | undefined;
  readonly weight: number;
  readonly hosts: readonly Host[];
}

function clusterPart(domain: string | undefined, slices: readonly EndpointSlice[]): ClusterPart {
  const weights = slices.map((it) => readWeight(it.metadata.annotations?.[TRAFFIC_ANNOTATIONS.weight]));
  return {
    domain,
    // All slices of a cluster have one weight, but for the moment in which it changes.
    weight: Math.max(...weights.map((it) => (it.kind === "valid" ? it.weight : 1))),
    hosts: slices.flatMap((slice) => hostsOf(slice, domain)),
  };
}

/** A thousand of these fit the 16 bits of a weight in an SRV record. */
const SRV_SCALE = 60;

/** Weights of SRV records belong to hosts: those of a cluster share out what the cluster has. */
function weighedHosts({ weight, hosts }: ClusterPart): Host[] {
  const share = Math.max(1, Math.round((weight * SRV_SCALE) / hosts.length));
  return hosts.map((host) => ({ ...host, weight: share }));
}

/**
 * An answer with addresses has those of one cluster, all of them: clients put addresses in an order of their own
 * (RFC 6724) or use them all alike, so the share of a cluster can only be how often it is answered.
 */
function sharesOf(name: string, parts: readonly ClusterPart[], records: readonly ResourceRecord[]): Share[] {
  const own = records.filter((it) => it.name === name);
  return parts.map(({ weight, hosts }) => {
    const addresses = new Set(hosts.flatMap((host) => host.addresses));
    return { weight, records: own.filter(({ data }) => "address" in data && addresses.has(data.address)) };
  });
}
