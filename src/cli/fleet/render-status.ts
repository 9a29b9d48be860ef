import { type ListOutput, renderData } from "../output.ts";
import { type Column, renderAge, renderTable } from "../table.ts";
import type { ClusterStatus, FleetStatus, ServiceStatus } from "./status.ts";

/** @param nowMs - For ages. Unit: milliseconds since the Unix epoch. */
export function renderStatus(status: FleetStatus, output: ListOutput, nowMs: number): string {
  switch (output) {
    case "json":
    case "yaml":
      return renderData(status, output);
    case "name":
      return names(status).join("\n");
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

function tables({ clusters, services }: FleetStatus, isWide: boolean, nowMs: number): string {
  if (clusters.length === 0)
    return "No cluster has joined this fleet. fairlead join NAME makes one a member.";
  const age = (at: string | undefined): string =>
    at === undefined ? "never" : renderAge(nowMs - Date.parse(at));
  const clusterColumns: Column<ClusterStatus>[] = [
    { head: "CLUSTER", cell: (it) => it.name },
    { head: "JOINED", cell: (it) => it.joined },
    { head: "HEALTHY", cell: (it) => it.healthy },
    { head: "EXPORTS", cell: (it) => String(it.exports) },
    { head: "IMPORTS", cell: (it) => String(it.imports) },
    { head: "ENDPOINTS", cell: (it) => String(it.endpoints) },
    { head: "LAST SYNC", cell: (it) => age(it.lastSync) },
    { head: "AGE", cell: (it) => age(it.since) },
  ];
  if (clusters.some((it) => it.drained !== undefined))
    clusterColumns.splice(3, 0, { head: "DRAINED", cell: (it) => it.drained ?? "-" });
  if (isWide) clusterColumns.push({ head: "MESSAGE", cell: (it) => orNone(it.message) });
  const parts = [renderTable(clusterColumns, clusters)];
  if (services.length > 0) parts.push(renderTable(isWide ? WIDE_COLUMNS : NARROW_COLUMNS, services));
  const conflicts = [...new Set(services.flatMap(conflictLines))];
  if (conflicts.length > 0) parts.push(`CONFLICTS\n${conflicts.join("\n")}`);
  return parts.join("\n\n");
}

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

/** "member-1(fleet+mcs:2)": the doors of its export, and its endpoints. */
function showExporter(of: ServiceStatus["exports"][number]): string {
  return `${of.cluster}(${of.doors.join("+")}:${of.endpoints})`;
}

function conflictLines(service: ServiceStatus): string[] {
  return service.exports.flatMap((it) =>
    it.conflicts.map((message) => `  ${service.namespace}/${service.name}: ${message}`),
  );
}

function orNone(text: string): string {
  return text === "" ? "-" : text;
}
