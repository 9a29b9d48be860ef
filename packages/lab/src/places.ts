/** Names of the network namespaces of a lab: pure. */

import type { LabCluster, LabNode } from "./topology.ts";

/** Namespace of a cluster: its router, its API server and whatever else is not on a node. */
export function siteNetns(cluster: Pick<LabCluster, "name">): string {
  return `${cluster.name}-site`;
}

export function nodeNetns(node: Pick<LabNode, "name">): string {
  return node.name;
}

/** The namespace through which clusters reach each other and the machine. */
export const FABRIC_NETNS = "fabric";
