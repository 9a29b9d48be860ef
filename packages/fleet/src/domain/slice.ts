import { familyOf, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { isSpecialPurpose } from "@fairlead/base/netaddr/special-purpose.ts";
import type { IPFamily } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointPort } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { ServiceImportPort } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import type {
  EndpointSliceExportSpec,
  ExportedEndpoint,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { ImportedCluster } from "#api/fairlead.dev/v1alpha1/types.ts";
import { MAX_SLICE_WEIGHT } from "./global-service.ts";
import { isDnsLabel, isLabelValue, isPortNumber, isQualifiedName, isSubdomain, shown } from "./formats.ts";

/** The ports of a cluster's slice as an import names them. Ports that the cluster does not truly expose are left out. */
export function importPorts(
  ports: readonly EndpointPort[],
  exposed: ImportedCluster["ports"],
): EndpointPort[] {
  const names = new Map(exposed.map((it) => [it.name, it.importedAs]));
  return ports.flatMap((port) => {
    const importedAs = names.get(port.name ?? "");
    return importedAs === undefined ? [] : [{ ...port, name: importedAs }];
  });
}

/**
 * The name of a port of the import in the Service that carries its VIP. A union may have a port without a name next to others
 * (KEP-1645 counts "unnamed" as a name); a Service may not, and proxies find the ports of slices by their names.
 */
export function derivedPortName(name: string, union: readonly ServiceImportPort[]): string {
  if (name !== "" || union.length < 2) return name;
  const taken = new Set(union.map((it) => it.name));
  let free = "unnamed";
  while (taken.has(free)) free = `${free}-x`;
  return free;
}

/** Most endpoints of one slice, as in Kubernetes (discovery/v1, `EndpointSlice.endpoints`). */
export const MAX_ENDPOINTS = 1000;
export const MAX_ADDRESSES = 100;
/** The most ports of a slice or a service: far more than any known use. */
export const MAX_PORTS = 1000;
export const PROTOCOLS: readonly string[] = ["TCP", "UDP", "SCTP"];

/**
 * The fault of endpoints that a member sends; undefined if valid. Special-purpose addresses are refused: those that
 * lead back to the client, or to a whole network, would turn an import into a way into the importer.
 */
export function findEndpointProblem(spec: EndpointSliceExportSpec): string | undefined {
  return findWeightProblem(spec) ?? findEndpointsProblem(spec);
}

function findEndpointsProblem(spec: EndpointSliceExportSpec): string | undefined {
  if (spec.endpoints.length > MAX_ENDPOINTS)
    return `${spec.endpoints.length} endpoints; at most ${MAX_ENDPOINTS} fit one slice`;
  if ((spec.ports?.length ?? 0) > MAX_PORTS)
    return `${spec.ports?.length} ports; at most ${MAX_PORTS} fit one slice`;
  for (const endpoint of spec.endpoints) {
    const { addresses } = endpoint;
    if (addresses.length === 0 || addresses.length > MAX_ADDRESSES)
      return `an endpoint has ${addresses.length} addresses; 1 to ${MAX_ADDRESSES} are allowed`;
    const bad = addresses.find((it) => !isEndpointOf(it, spec.addressType));
    if (bad !== undefined) return `${shown(bad)} cannot be the ${spec.addressType} address of an endpoint`;
    const problem = findFactsProblem(endpoint);
    if (problem !== undefined) return `an endpoint has ${problem}`;
  }
  return findSlicePortsProblem(spec.ports ?? []);
}

function findWeightProblem({ weight = 1 }: EndpointSliceExportSpec): string | undefined {
  return Number.isInteger(weight) && weight >= 0 && weight <= MAX_SLICE_WEIGHT
    ? undefined
    : `spec.weight ${shown(weight)} is not 0 to ${MAX_SLICE_WEIGHT}`;
}

function findFactsProblem({ hostname, nodeName, zone }: ExportedEndpoint): string | undefined {
  if (hostname !== undefined && !isDnsLabel(hostname))
    return `hostname ${shown(hostname)}, which is not a DNS label`;
  if (nodeName !== undefined && !isSubdomain(nodeName))
    return `nodeName ${shown(nodeName)}, which is not a node's`;
  // The value of a node's label topology.kubernetes.io/zone.
  if (zone !== undefined && !isLabelValue(zone)) return `zone ${shown(zone)}, which is not a label value`;
  return undefined;
}

function findSlicePortsProblem(ports: readonly EndpointPort[]): string | undefined {
  const names = new Set<string>();
  for (const [at, { name = "", protocol = "TCP", port, appProtocol }] of ports.entries()) {
    const field = `spec.ports[${at}]`;
    if (name !== "" && !isDnsLabel(name)) return `${field}.name ${shown(name)} is not a DNS label (RFC 1123)`;
    if (names.has(name)) return `${field}.name ${shown(name)} is duplicated`;
    if (!PROTOCOLS.includes(protocol))
      return `${field}.protocol ${shown(protocol)} is not one of ${PROTOCOLS.join(", ")}`;
    if (port !== undefined && !isPortNumber(port)) return `${field}.port ${shown(port)} is not 1 to 65535`;
    if (appProtocol !== undefined && !isQualifiedName(appProtocol))
      return `${field}.appProtocol ${shown(appProtocol)} is not a qualified name`;
    names.add(name);
  }
  return undefined;
}

function isEndpointOf(text: string, family: IPFamily): boolean {
  const address = tryParseAddress(text);
  return address !== undefined && familyOf(address) === family && !isSpecialPurpose(address);
}
