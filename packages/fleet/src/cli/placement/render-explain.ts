import { oneLine } from "@fairlead/base/print.ts";
import type { ClusterExplanation } from "#placement/scheduling/explain.ts";
import { type Column, renderTable } from "../table.ts";
import type { PlacementExplanation } from "./explain.ts";

/** The explanation for people: a line for each cluster; of a single cluster, a line for each plugin. */
export function renderExplain(it: PlacementExplanation): string {
  const [only, ...others] = it.clusters;
  const body = only !== undefined && others.length === 0 ? renderCluster(only) : renderClusters(it);
  return [...headOf(it).map(oneLine), "", body].join("\n");
}

function headOf({
  kind,
  namespace,
  name,
  type,
  policySnapshot,
  message,
  isWhatIf,
  clusters,
}: PlacementExplanation): string[] {
  const full = namespace === undefined ? name : `${namespace}/${name}`;
  const head = `${kind} ${full}: ${type}, policy snapshot ${policySnapshot}`;
  if (!isWhatIf) return [head, message];
  return [`${head}, if it is applied`, message, renderChange(clusters)];
}

function renderChange(clusters: readonly ClusterExplanation[]): string {
  const named = (change: ClusterExplanation["change"]): string[] =>
    clusters.filter((it) => it.change === change).map((it) => it.cluster);
  const kept = clusters.filter((it) => it.isPicked && it.change === "none").length;
  const parts = [
    ...[named("add")].filter((it) => it.length > 0).map((it) => `adds ${it.join(", ")}`),
    ...[named("remove")].filter((it) => it.length > 0).map((it) => `removes ${it.join(", ")}`),
    `keeps ${kept} ${kept === 1 ? "cluster" : "clusters"}`,
  ];
  return parts.join("; ");
}

function renderClusters({ clusters, isWhatIf }: PlacementExplanation): string {
  const score = (value: number | undefined): string => value?.toString() ?? "-";
  const columns: Column<ClusterExplanation>[] = [
    { head: "CLUSTER", cell: (it) => it.cluster },
    { head: "PICKED", cell: (it) => (it.isPicked ? "yes" : "no") },
    ...(isWhatIf
      ? [{ head: "CHANGE", cell: (it: ClusterExplanation) => (it.change === "none" ? "-" : it.change) }]
      : []),
    { head: "AFFINITY", cell: (it) => score(it.affinityScore) },
    { head: "SPREAD", cell: (it) => score(it.topologySpreadScore) },
    { head: "REASON", cell: (it) => it.reason },
  ];
  return renderTable(columns, clusters);
}

function renderCluster({ cluster, isPicked, reason, plugins }: ClusterExplanation): string {
  const head = oneLine(`${cluster} is ${isPicked ? "picked" : "not picked"}: ${reason}`);
  if (plugins.length === 0) return head;
  const table = renderTable(
    [
      { head: "PLUGIN", cell: (it) => it.plugin },
      { head: "PASSES", cell: (it) => (it.passes ? "yes" : "no") },
      { head: "REASON", cell: (it) => it.reason ?? "-" },
    ],
    plugins,
  );
  return `${head}\n\n${table}`;
}
