import type {
  ExportDoor,
  FleetServicePort,
  InternalServiceExportSpec,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import {
  isAnnotationKey,
  isDnsLabel,
  isLabelValue,
  isPortName,
  isPortNumber,
  isQualifiedName,
  shown,
} from "./formats.ts";
import { MAX_PORTS, PROTOCOLS } from "./slice.ts";

/**
 * What in an export no importer's API server would take, with the field; undefined when nothing is. One export is refused
 * for it: merged with the others it would keep the service of all from being imported. Where a schema or a policy looks
 * first this finds nothing.
 */

/** Labels and annotations of one ServiceExport, keys and values together. Unit: characters. */
export const MAX_EXPORTED_METADATA = 16_384;
/** A service is exported through one ServiceExport of each kind. */
export const MAX_DOORS = 8;
export const MAX_WEIGHT = 1000;
/** The most addresses of one load balancer, and the longest of other texts, which serve only as ids. */
export const MAX_INGRESS = 64;
export const MAX_TEXT = 2048;
/** Source: core validation, `MaxClientIPServiceAffinitySeconds`. */
export const MAX_AFFINITY_SECONDS = 86_400;
export const TRAFFIC_DISTRIBUTIONS: readonly string[] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

export function findExportFormatProblem(spec: InternalServiceExportSpec): string | undefined {
  return (
    findPortsProblem(spec.ports) ??
    findDoorsProblem(spec.doors ?? []) ??
    findTrafficProblem(spec) ??
    findBulkProblem(spec)
  );
}

function findPortsProblem(ports: readonly FleetServicePort[]): string | undefined {
  if (ports.length > MAX_PORTS)
    return `spec.ports has ${ports.length} entries; at most ${MAX_PORTS} are allowed`;
  const names = new Set<string>();
  const numbers = new Set<string>();
  for (const [at, port] of ports.entries()) {
    const problem = findPortProblem(port);
    if (problem !== undefined) return `spec.ports[${at}].${problem}`;
    const { name = "", protocol = "TCP" } = port;
    const number = `${protocol}/${port.port}`;
    if (name === "" && ports.length > 1) return `spec.ports[${at}].name is missing: there are several ports`;
    if (names.has(name)) return `spec.ports[${at}].name ${shown(name)} is duplicated`;
    if (numbers.has(number)) return `spec.ports[${at}].port: ${number} is duplicated`;
    names.add(name);
    numbers.add(number);
  }
  return undefined;
}

function findPortProblem({
  name = "",
  protocol = "TCP",
  port,
  appProtocol,
  targetPort,
}: FleetServicePort): string | undefined {
  if (name !== "" && !isDnsLabel(name)) return `name ${shown(name)} is not a DNS label (RFC 1123)`;
  if (!PROTOCOLS.includes(protocol))
    return `protocol ${shown(protocol)} is not one of ${PROTOCOLS.join(", ")}`;
  if (!isPortNumber(port)) return `port ${shown(port)} is not 1 to 65535`;
  if (appProtocol !== undefined && !isQualifiedName(appProtocol))
    return `appProtocol ${shown(appProtocol)} is not a qualified name`;
  const isTarget =
    targetPort === undefined ||
    (typeof targetPort === "number" ? isPortNumber(targetPort) : isPortName(targetPort));
  return isTarget
    ? undefined
    : `targetPort ${shown(targetPort)} is neither 1 to 65535 nor the name of a port`;
}

function findDoorsProblem(doors: readonly ExportDoor[]): string | undefined {
  if (doors.length > MAX_DOORS)
    return `spec.doors has ${doors.length} entries; at most ${MAX_DOORS} are allowed`;
  for (const [at, door] of doors.entries()) {
    const problem = findDoorProblem(door);
    if (problem !== undefined) return `spec.doors[${at}].${problem}`;
  }
  return undefined;
}

function findDoorProblem(door: ExportDoor): string | undefined {
  if (Number.isNaN(Date.parse(door.createdAt))) return `createdAt ${shown(door.createdAt)} is not a time`;
  const { exportedLabels: labels = {}, exportedAnnotations: annotations = {} } = door;
  let size = 0;
  for (const entry of [...Object.entries(labels), ...Object.entries(annotations)])
    size += entry[0].length + entry[1].length;
  if (size > MAX_EXPORTED_METADATA)
    return `exportedLabels and exportedAnnotations have ${size} characters; at most ${MAX_EXPORTED_METADATA} are allowed`;
  for (const [key, value] of Object.entries(labels)) {
    if (!isQualifiedName(key)) return `exportedLabels: ${shown(key)} is not a label key`;
    if (!isLabelValue(value)) return `exportedLabels[${key}] ${shown(value)} is not a label value`;
  }
  const bad = Object.keys(annotations).find((key) => !isAnnotationKey(key));
  return bad === undefined ? undefined : `exportedAnnotations: ${shown(bad)} is not an annotation key`;
}

function findTrafficProblem(spec: InternalServiceExportSpec): string | undefined {
  const { weight, priority, trafficDistribution: distribution, ipFamilies = [] } = spec;
  const timeout = spec.sessionAffinityConfig?.clientIP?.timeoutSeconds;
  const isFamilies = ipFamilies.length <= 2 && new Set(ipFamilies).size === ipFamilies.length;
  return (
    findOutside("spec.weight", weight, { min: 0, max: MAX_WEIGHT }) ??
    findOutside("spec.priority", priority, { min: 0, max: MAX_WEIGHT }) ??
    findOutside("spec.sessionAffinityConfig.clientIP.timeoutSeconds", timeout, {
      min: 1,
      max: MAX_AFFINITY_SECONDS,
    }) ??
    (distribution === undefined || TRAFFIC_DISTRIBUTIONS.includes(distribution)
      ? undefined
      : `spec.trafficDistribution ${shown(distribution)} is not one of ${TRAFFIC_DISTRIBUTIONS.join(", ")}`) ??
    (isFamilies ? undefined : "spec.ipFamilies names a family twice")
  );
}

function findOutside(
  field: string,
  value: number | undefined,
  { min, max }: { readonly min: number; readonly max: number },
): string | undefined {
  if (value === undefined || (Number.isInteger(value) && value >= min && value <= max)) return undefined;
  return `${field} ${shown(value)} is not ${min} to ${max}`;
}

/** What is kept as it is, and read by few: its size alone. */
function findBulkProblem(spec: InternalServiceExportSpec): string | undefined {
  const { loadBalancerIngress: ingress = [], serviceReference: reference } = spec;
  if (ingress.length > MAX_INGRESS)
    return `spec.loadBalancerIngress has ${ingress.length} entries; at most ${MAX_INGRESS} are allowed`;
  const texts: readonly (readonly [string, string | undefined])[] = [
    ["type", spec.type],
    ["publicIPResourceID", spec.publicIPResourceID],
    ...ingress.flatMap(({ ip, hostname }, at) => [
      [`loadBalancerIngress[${at}].ip`, ip] as const,
      [`loadBalancerIngress[${at}].hostname`, hostname] as const,
    ]),
    ...(["apiVersion", "kind", "uid", "resourceVersion"] as const).map(
      (it) => [`serviceReference.${it}`, reference[it]] as const,
    ),
  ];
  const long = texts.find(([, text]) => (text?.length ?? 0) > MAX_TEXT);
  return long === undefined ? undefined : `spec.${long[0]} is longer than ${MAX_TEXT} characters`;
}
