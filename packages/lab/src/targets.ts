/** What of a lab can be killed and restored, by the names people type: pure. */

import { FleetError } from "@fairlead/base/errors.ts";
import type { LabProgram } from "./programs.ts";
import type { LabCluster, LabNode, LabTopology } from "./topology.ts";

export type Target =
  | { readonly kind: "process"; readonly program: LabProgram }
  | { readonly kind: "node"; readonly cluster: LabCluster; readonly node: LabNode }
  | { readonly kind: "cluster"; readonly cluster: LabCluster }
  | { readonly kind: "link"; readonly cluster: LabCluster };

/**
 * Finds what `name` means: "member-1/apiserver" a process, "member-1-node-1" a node, "member-1" or "hub" a whole
 * cluster, "link/member-1" the link between a cluster and all others.
 *
 * @throws {FleetError} `LAB_NOT_FOUND` with the names that there are.
 */
export function resolveTarget(name: string, topology: LabTopology, programs: readonly LabProgram[]): Target {
  const cluster = topology.clusters.find((it) => it.name === name);
  if (cluster !== undefined) return { kind: "cluster", cluster };
  const linked = topology.clusters.find((it) => `link/${it.name}` === name);
  if (linked !== undefined) return { kind: "link", cluster: linked };
  const program = programs.find((it) => it.name === name);
  if (program !== undefined) return { kind: "process", program };
  for (const owner of topology.clusters) {
    const node = owner.nodes.find((it) => it.name === name);
    if (node !== undefined) return { kind: "node", cluster: owner, node };
  }
  throw new FleetError(
    "LAB_NOT_FOUND",
    `lab ${topology.spec.name} has no ${JSON.stringify(name)}; it has:\n${listTargets(topology, programs)}`,
  );
}

function listTargets(topology: LabTopology, programs: readonly LabProgram[]): string {
  const clusters = topology.clusters.map((it) => it.name);
  const rows = [
    ["clusters", clusters],
    ["links", clusters.map((it) => `link/${it}`)],
    ["nodes", topology.clusters.flatMap((it) => it.nodes.map((node) => node.name))],
    ["processes", programs.map((it) => it.name)],
  ] as const;
  return rows.map(([label, names]) => `  ${label.padEnd(10)} ${names.join(" ")}`).join("\n");
}
