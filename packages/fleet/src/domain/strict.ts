import { sameJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import type {
  AcceptedCluster,
  FleetServiceImportStatus,
  FleetServicePort,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { type ExportedService, type ModelPort, byAge, isFor, readPort } from "./exported-service.ts";
import { unitePorts } from "./united.ts";

/**
 * The fleet API. Ports are strict: clusters with the ports of the import are in; the others get a conflict and stay out. The
 * imported ports stay while any cluster exports them; otherwise the oldest export decides. If the oldest export asks for it,
 * ports are united instead (`united.ts`).
 */

export interface StrictImport {
  /** Undefined where nothing is exported. */
  readonly status: FleetServiceImportStatus | undefined;
  /** Per cluster, the conflict of its export; undefined if it has none. Headless exports are not in it. */
  readonly conflicts: ReadonlyMap<string, string | undefined>;
}

/**
 * @param exports - In any order.
 * @param current - The status of the hub's ServiceImport, which names the incumbents.
 */
export function planStrictImport(
  exports: readonly ExportedService[],
  current: FleetServiceImportStatus | undefined,
): StrictImport {
  const ordered = exports.toSorted(byAge);
  const eligible = ordered.filter((it) => !it.headless);
  const [oldest] = eligible;
  if (oldest === undefined) return { status: headlessStatus(ordered), conflicts: new Map() };
  if (oldest.unitesPorts) return planUnited(oldest, eligible);
  const ports = findPorts(eligible, current) ?? oldest.ports;
  const accepted = eligible.filter((it) => samePorts(it.ports, ports));
  const leader = accepted[0] ?? oldest;
  const conflicts = new Map(
    eligible.map((it) => [
      it.cluster,
      samePorts(it.ports, leader.ports) ? undefined : describeDifference(it, leader),
    ]),
  );
  return {
    status: {
      type: "ClusterSetIP",
      ports: leader.ports.map(writePort),
      ...affinityOf(leader),
      clusters: accepted.map((it) => acceptedCluster(it)).toSorted((a, b) => byText(a.cluster, b.cluster)),
    },
    conflicts,
  };
}

function planUnited(oldest: ExportedService, eligible: readonly ExportedService[]): StrictImport {
  const { ports, clusters, conflicts } = unitePorts(eligible);
  return {
    status: {
      type: "ClusterSetIP",
      ports: ports.map(writePort),
      ...affinityOf(oldest),
      clusters: clusters
        .map((it) => ({ ...acceptedCluster(it.of), ports: [...it.ports] }))
        .toSorted((a, b) => byText(a.cluster, b.cluster)),
    },
    conflicts,
  };
}

/** Legacy agents and tests know only the name; default values are omitted. */
function acceptedCluster({ cluster, weight = 1 }: ExportedService): AcceptedCluster {
  return { cluster, ...(weight === 1 ? {} : { weight }) };
}

function affinityOf({
  sessionAffinity,
  affinityTimeoutSeconds: timeoutSeconds,
}: ExportedService): Pick<FleetServiceImportStatus, "sessionAffinity" | "sessionAffinityConfig"> {
  if (sessionAffinity !== "ClientIP") return {};
  return {
    sessionAffinity,
    ...(timeoutSeconds === undefined ? {} : { sessionAffinityConfig: { clientIP: { timeoutSeconds } } }),
  };
}

/** The imported ports stay while one of the incumbents has them; then the oldest export decides. */
function findPorts(
  eligible: readonly ExportedService[],
  current: FleetServiceImportStatus | undefined,
): readonly ModelPort[] | undefined {
  const ports = (current?.ports ?? []).map(readPort);
  const incumbents = new Set((current?.clusters ?? []).map((it) => it.cluster));
  const standing = eligible.find((it) => incumbents.has(it.cluster) && samePorts(it.ports, ports));
  return (standing ?? eligible[0])?.ports;
}

function headlessStatus(ordered: readonly ExportedService[]): FleetServiceImportStatus | undefined {
  const [oldest] = ordered;
  if (oldest === undefined) return undefined;
  return { type: "Headless", ports: oldest.ports.map(writePort), clusters: clustersOf(ordered) };
}

function clustersOf(exports: readonly ExportedService[]): { cluster: string }[] {
  return exports.map((it) => ({ cluster: it.cluster })).toSorted((a, b) => byText(a.cluster, b.cluster));
}

/** Whether two exports have the same ports, in any order. */
function samePorts(a: readonly ModelPort[], b: readonly ModelPort[]): boolean {
  return sameJson(sortPorts(a), sortPorts(b));
}

function sortPorts(ports: readonly ModelPort[]): readonly ModelPort[] {
  return ports.toSorted((a, b) => byText(keyOfPort(a), keyOfPort(b)));
}

function keyOfPort(port: ModelPort): string {
  return `${port.protocol}/${port.port}/${port.name}`;
}

function describeDifference(loser: ExportedService, leader: ExportedService): string {
  const own = `the ports of ${loser.namespace}/${loser.name} in cluster ${loser.cluster} are ${showPorts(loser.ports)}`;
  return isFor(leader, loser.cluster)
    ? `${own}, but those imported, from cluster ${leader.cluster}, are ${showPorts(leader.ports)}`
    : `${own}, but others are imported, from a cluster that does not export here`;
}

function showPorts(ports: readonly ModelPort[]): string {
  if (ports.length === 0) return "none";
  return sortPorts(ports).map(showPort).join(" ");
}

function showPort(port: ModelPort): string {
  const name = port.name === "" ? "" : `${port.name}:`;
  const target = port.targetPort === undefined ? "" : `->${port.targetPort}`;
  const app = port.appProtocol === undefined ? "" : `(${port.appProtocol})`;
  return `${name}${port.protocol}/${port.port}${target}${app}`;
}

function writePort(port: ModelPort): FleetServicePort {
  return {
    ...(port.name === "" ? {} : { name: port.name }),
    protocol: port.protocol,
    ...(port.appProtocol === undefined ? {} : { appProtocol: port.appProtocol }),
    port: port.port,
    ...(port.targetPort === undefined ? {} : { targetPort: port.targetPort }),
  };
}
