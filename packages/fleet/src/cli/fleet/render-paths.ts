import { joinLines, oneLine } from "@fairlead/base/print.ts";
import { type ListOutput, renderData } from "../output.ts";
import { type Column, renderAge, renderTable } from "../table.ts";
import type { ClusterPath, TunnelStatus } from "./paths.ts";

/** @param nowMs - For ages. Unit: milliseconds since the Unix epoch. */
export function renderPaths(paths: readonly ClusterPath[], output: ListOutput, nowMs: number): string {
  switch (output) {
    case "json":
    case "yaml":
      return renderData({ paths }, output);
    case "name":
      return joinLines(paths.map((it) => `${it.from}/${it.to}`));
    case "text":
    case "wide":
      if (paths.length === 0)
        return "No members share a parallel network, so there are no tunnels. A ClusterMeshProfile creates one.";
      return [
        output === "text"
          ? renderTable(clusterColumns(nowMs), paths)
          : renderTable(tunnelColumns(nowMs), paths.flatMap(rowsOf)),
        ...silentMembers(paths).map(oneLine),
      ].join("\n");
    default:
      return output satisfies never;
  }
}

/** Fits a terminal of 80 columns. */
function clusterColumns(nowMs: number): readonly Column<ClusterPath>[] {
  return [
    { head: "FROM", cell: (it) => it.from },
    { head: "TO", cell: (it) => it.to },
    { head: "PATH", cell: ({ tunnels }) => kinds(tunnels) },
    { head: "RTT", cell: ({ tunnels }) => range(tunnels, "rttMs", " ms") },
    { head: "LOSS", cell: ({ tunnels }) => range(tunnels, "lossPercent", "%") },
    { head: "MTU", cell: ({ tunnels }) => range(tunnels, "mtu", "") },
    { head: "HANDSHAKE", cell: ({ tunnels }) => newest(tunnels, "lastHandshake", nowMs) },
  ];
}

/** What to do about members without a report, or with one that is too old. */
function silentMembers(paths: readonly ClusterPath[]): readonly string[] {
  const isSilent = ({ tunnels }: ClusterPath): boolean => tunnels.every((it) => it.path === "unknown");
  const silent = [...new Set(paths.filter((it) => isSilent(it)).map((it) => it.from))];
  if (silent.length === 0) return [];
  return [
    "",
    `No report of tunnels from ${silent.join(", ")}: check that fairlead node runs on the gateways there, and read its log.`,
  ];
}

type Row = Partial<TunnelStatus> & Pick<TunnelStatus, "from" | "to" | "path">;

/** A pair of clusters without a report has a row, too. */
function rowsOf({ from, to, tunnels }: ClusterPath): readonly Row[] {
  return tunnels.length > 0 ? tunnels : [{ from, to, path: "unknown" }];
}

function tunnelColumns(nowMs: number): readonly Column<Row>[] {
  return [
    { head: "FROM", cell: (it) => it.from },
    { head: "TO", cell: (it) => it.to },
    { head: "PATH", cell: (it) => it.path },
    { head: "RTT", cell: (it) => range([it], "rttMs", " ms") },
    { head: "LOSS", cell: (it) => range([it], "lossPercent", "%") },
    { head: "MTU", cell: (it) => range([it], "mtu", "") },
    { head: "HANDSHAKE", cell: (it) => newest([it], "lastHandshake", nowMs) },
    { head: "KEYS", cell: (it) => String(it.keyEpoch ?? "-") },
    { head: "KEY AGE", cell: (it) => newest([it], "keysSince", nowMs) },
    { head: "SENT", cell: (it) => bytes(it.sentBytes) },
    { head: "RECEIVED", cell: (it) => bytes(it.receivedBytes) },
    { head: "REPORTED", cell: (it) => newest([it], "reportedAt", nowMs) },
  ];
}

/** "direct", or "3 direct, 1 relay". */
function kinds(tunnels: readonly TunnelStatus[]): string {
  const counts = [...Map.groupBy(tunnels, (it) => it.path)];
  if (counts.length === 0) return "unknown";
  if (counts.length === 1) return counts[0]?.[0] ?? "";
  return counts.map(([kind, all]) => `${all.length} ${kind}`).join(", ");
}

/** "12 ms", or "12-30 ms". */
function range(rows: readonly Partial<TunnelStatus>[], field: "rttMs" | "lossPercent" | "mtu", unit: string) {
  const values = rows.flatMap((it) => it[field] ?? []);
  const [min, max] = [Math.min(...values), Math.max(...values)];
  if (values.length === 0) return "-";
  return min === max ? `${min}${unit}` : `${min}-${max}${unit}`;
}

function newest(
  rows: readonly Partial<TunnelStatus>[],
  field: "lastHandshake" | "keysSince" | "reportedAt",
  nowMs: number,
): string {
  const times = rows.map((it) => Date.parse(it[field] ?? "")).filter((it) => Number.isFinite(it));
  return times.length === 0 ? "-" : renderAge(nowMs - Math.max(...times));
}

/** "512B", "1.5KiB", "12MiB". */
function bytes(count: number | undefined): string {
  if (count === undefined) return "-";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = count;
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${value >= 10 || at === 0 ? Math.round(value) : value.toFixed(1)}${units[at]}`;
}
