import { joinLines, oneLine } from "@fairlead/base/print.ts";
import { type ListOutput, renderData } from "../output.ts";
import { type Column, renderAge, renderTable } from "../table.ts";
import type { HubProgram } from "./hub-program.ts";
import { describeLink } from "./links.ts";
import { type ClusterStatus, type FleetStatus, LEAVING, type ServiceStatus } from "./status.ts";

/** @param nowMs - For ages. Unit: milliseconds since the Unix epoch. */
export function renderStatus(status: FleetStatus, output: ListOutput, nowMs: number): string {
  switch (output) {
    case "json":
    case "yaml":
      return renderData(status, output);
    case "name":
      return joinLines(names(status));
    case "text":
      return tables(status, false, nowMs);
    case "wide":
      return tables(status, true, nowMs);
    default:
      return output satisfies never;
  }
}

/** As `kubectl -o name`, for scripts. */
function names({ clusters, services }: FleetStatus): string[] {
  return [
    ...clusters.map((it) => `membercluster.cluster.kubernetes-fleet.io/${it.name}`),
    ...services.map((it) => `serviceimport.networking.fleet.azure.com/${it.namespace}/${it.name}`),
  ];
}

function tables(status: FleetStatus, isWide: boolean, nowMs: number): string {
  const { hub, clusters, services } = status;
  const age = (at: string | undefined): string =>
    at === undefined ? "never" : renderAge(nowMs - Date.parse(at));
  const parts = hub === undefined ? [] : [hubPart(hub, age)];
  if (clusters.length === 0) {
    parts.push('No cluster has joined this fleet. Run "fairlead join NAME" to add one.');
    return parts.join("\n\n");
  }
  const isDrained = clusters.some((it) => it.drained !== undefined);
  const isNetwork = clusters.some((it) => it.network !== undefined);
  const clusterColumns: Column<ClusterStatus>[] = [
    { head: "CLUSTER", cell: (it) => it.name },
    { head: "JOINED", cell: (it) => it.joined },
    { head: "HEALTHY", cell: (it) => it.healthy },
    ...(isNetwork ? [NETWORK] : []),
    ...(isDrained ? [{ head: "DRAINED", cell: (it: ClusterStatus) => it.drained ?? "-" }] : []),
    { head: "EXPORTS", cell: (it) => String(it.exports) },
    { head: "IMPORTS", cell: (it) => String(it.imports) },
    { head: "ENDPOINTS", cell: (it) => String(it.endpoints) },
    ...(isDrained ? [SERVING] : []),
    { head: "LAST SYNC", cell: (it) => age(it.lastSync) },
    { head: "AGE", cell: (it) => age(it.since) },
    ...(isWide ? [{ head: "MESSAGE", cell: (it: ClusterStatus) => orNone(it.message) }] : []),
  ];
  parts.push(renderTable(clusterColumns, clusters));
  const isPartial = isDrained || services.some((it) => it.serving !== it.endpoints);
  const serviceColumns = [...(isWide ? WIDE_COLUMNS : NARROW_COLUMNS), ...(isPartial ? [SERVING] : [])];
  if (services.length > 0) parts.push(renderTable(serviceColumns, services));
  parts.push(...problemParts(status, isWide));
  return parts.join("\n\n");
}

function problemParts(status: FleetStatus, isWide: boolean): string[] {
  const { clusters, services, networks, links = [], absentNamespaces } = status;
  const ofNodes = clusters.flatMap((it) => it.nodeProblems.map((why) => `  ${it.name}: ${why}`));
  const ofNetworks = networks.flatMap((it) => it.problems.map((why) => `  ${it.profile}: ${why}`));
  const invalid = clusters.flatMap((it) => it.invalidExports.map((why) => `  ${it.name}: ${why}`));
  const cut = links.map((it) => `  ${describeLink(it)}`);
  return [
    ...section("CLUSTERS NOT HEALTHY", clusters.flatMap(unhealthyLines)),
    ...section("NODES NOT READY", ofNodes),
    ...section("LINKS CUT", cut),
    ...section("SERVICES NOT SERVED", [
      ...services.flatMap(problemLines),
      ...status.withdrawn.map(withdrawnLine),
    ]),
    ...section("NAMESPACES NOT IMPORTED", isWide ? absentNamespaces.map(absentLine) : []),
    ...section("CONFLICTS", services.flatMap(conflictLines)),
    ...section("NETWORKS NOT READY", ofNetworks),
    ...section("INVALID EXPORTS", invalid),
  ];
}

function hubPart(hub: HubProgram, age: (at: string | undefined) => string): string {
  const columns: Column<HubProgram>[] = [
    { head: "HUB", cell: (it) => it.state },
    { head: "RENEWED", cell: (it) => age(it.renewed) },
    { head: "HOLDER", cell: (it) => it.holder ?? "-" },
  ];
  const table = renderTable(columns, [hub]);
  if (hub.state !== "Dead") return table;
  return `${table}
  "fairlead hub" is not running: nothing changes between clusters, and the status below is the last that it
  wrote. Install the chart fairlead-hub, or check that its pods run.`;
}

/** Lines with a head. */
function section(head: string, lines: readonly string[]): string[] {
  const plain = new Set(lines.map(oneLine));
  return plain.size === 0 ? [] : [[head, ...plain].join("\n")];
}

/** "site (parallel)"; members without a profile share a flat network. */
const NETWORK: Column<ClusterStatus> = {
  head: "NETWORK",
  cell: ({ network }) => (network === undefined ? "-" : `${network.profile} (${network.mode})`),
};
const SERVING: Column<{ readonly serving: number }> = { head: "SERVING", cell: (it) => String(it.serving) };
const SERVICE: Column<ServiceStatus> = { head: "SERVICE", cell: (it) => `${it.namespace}/${it.name}` };
const TYPE: Column<ServiceStatus> = { head: "TYPE", cell: (it) => orNone(it.type) };
const BALANCER: Column<ServiceStatus> = { head: "LB", cell: (it) => it.loadBalancer ?? "-" };
const ENDPOINTS: Column<ServiceStatus> = { head: "ENDPOINTS", cell: (it) => String(it.endpoints) };

/** Fits a terminal of 80 columns: how many clusters, not which. */
const NARROW_COLUMNS: readonly Column<ServiceStatus>[] = [
  SERVICE,
  TYPE,
  { head: "EXPORTS", cell: (it) => String(it.exports.length) },
  { head: "IMPORTS", cell: (it) => String(it.importedBy.length) },
  BALANCER,
  ENDPOINTS,
];

const WIDE_COLUMNS: readonly Column<ServiceStatus>[] = [
  SERVICE,
  TYPE,
  { head: "PORTS", cell: (it) => orNone(it.ports.join(",")) },
  { head: "EXPORTED BY", cell: (it) => orNone(it.exports.map((at) => showExporter(at)).join(",")) },
  { head: "IMPORTED BY", cell: (it) => orNone(it.importedBy.join(",")) },
  BALANCER,
  ENDPOINTS,
  { head: "CONFLICT", cell: (it) => (it.exports.some((at) => at.conflicts.length > 0) ? "yes" : "no") },
];

/** "member-1(fleet+mcs:2)": the APIs by which it exports, and its endpoints. */
function showExporter(of: ServiceStatus["exports"][number]): string {
  return `${of.cluster}(${of.doors.join("+")}:${of.endpoints})`;
}

function unhealthyLines({ name, message }: ClusterStatus): string[] {
  return message === "" || message === LEAVING ? [] : [`  ${name}: ${message}`];
}

function problemLines(service: ServiceStatus): string[] {
  return service.exports.flatMap((it) =>
    it.problems.map((why) => `  ${service.namespace}/${service.name}: ${it.cluster}: ${why}`),
  );
}

function withdrawnLine({ namespace, name, cluster, why }: FleetStatus["withdrawn"][number]): string {
  return `  ${namespace}/${name}: ${cluster}: ${why}`;
}

function absentLine({ namespace, clusters }: FleetStatus["absentNamespaces"][number]): string {
  return `  ${namespace}: ${clusters.join(", ")} cannot import its services: create the namespace there`;
}

function conflictLines(service: ServiceStatus): string[] {
  return service.exports.flatMap((it) =>
    it.conflicts.map((message) => `  ${service.namespace}/${service.name}: ${message}`),
  );
}

function orNone(text: string): string {
  return text === "" ? "-" : text;
}
