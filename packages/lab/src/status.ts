/** What runs of a lab, and what its API servers say. */

import { NODES, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { LinkConditions } from "#link/conditions.ts";
import { readLink } from "./build.ts";
import type { Lab } from "./faults.ts";
import { runningPid } from "./processes.ts";
import { FABRIC_NETNS } from "./places.ts";
import { planPrograms } from "./programs.ts";
import type { LabCluster } from "./topology.ts";
import { connectCluster } from "./up.ts";

export interface ProgramStatus {
  readonly name: string;
  readonly pid: number | undefined;
  readonly log: string;
}

export interface ClusterStatus {
  readonly name: string;
  readonly api: string;
  readonly link: "up" | "down" | "absent";
  readonly programs: readonly ProgramStatus[];
  /** undefined: the API server does not answer. */
  readonly nodes: { readonly ready: number; readonly total: number } | undefined;
  readonly pods: { readonly ready: number; readonly total: number } | undefined;
}

export interface LabStatus {
  readonly name: string;
  readonly members: number;
  readonly kubeconfig: string;
  readonly killed: readonly string[];
  readonly clusters: readonly ClusterStatus[];
  /** Of links that are not ordinary, by the name of the cluster or node that they connect. */
  readonly conditions: Readonly<Record<string, LinkConditions>>;
}

/** An API server that does not answer within this is reported as not answering. Unit: milliseconds. */
const ANSWER_TIMEOUT_MS = 10_000;

export async function readLabStatus(lab: Lab, signal: AbortSignal): Promise<LabStatus> {
  const { topology, killed } = lab.state;
  const clusters = await Promise.all(topology.clusters.map((cluster) => readCluster(lab, cluster, signal)));
  return {
    name: topology.spec.name,
    members: topology.spec.members,
    kubeconfig: lab.layout.kubeconfig,
    killed,
    clusters,
    conditions: topology.conditions ?? {},
  };
}

/** Whether all programs run and all API servers answer. */
export function isLabWhole({ clusters }: LabStatus): boolean {
  return clusters.every(
    (it) => it.nodes !== undefined && it.programs.every((program) => program.pid !== undefined),
  );
}

async function readCluster(lab: Lab, cluster: LabCluster, signal: AbortSignal): Promise<ClusterStatus> {
  const programs = planPrograms(lab.state.topology, lab.layout)
    .filter((it) => it.cluster === cluster.name)
    .map((it) => ({ name: it.name, pid: runningPid(lab.layout, it.name), log: lab.layout.logOf(it.name) }));
  const link = await readLink(lab.layout, { netns: FABRIC_NETNS, device: cluster.link }, signal);
  const answers =
    link === "up" && programs.some((it) => it.name.endsWith("/apiserver") && it.pid !== undefined);
  const counts = answers ? await countObjects(lab, cluster, signal) : undefined;
  return {
    name: cluster.name,
    api: cluster.api.v4,
    link,
    programs,
    nodes: counts?.nodes,
    pods: counts?.pods,
  };
}

interface Counts {
  readonly nodes: { readonly ready: number; readonly total: number };
  readonly pods: { readonly ready: number; readonly total: number };
}

async function countObjects(lab: Lab, cluster: LabCluster, signal: AbortSignal): Promise<Counts | undefined> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_TIMEOUT_MS)]);
  try {
    await using client = await connectCluster(cluster, lab.layout, lab.context.log);
    return await count(client, limited);
  } catch (error) {
    if (signal.aborted) throw error;
    return undefined;
  }
}

async function count(client: KubeClient, signal: AbortSignal): Promise<Counts> {
  const [nodes, pods] = await Promise.all([client.list(NODES, { signal }), client.list(PODS, { signal })]);
  const isReady = (conditions: readonly { type: string; status: string }[] | undefined): boolean =>
    conditions?.some((it) => it.type === "Ready" && it.status === "True") ?? false;
  return {
    nodes: {
      total: nodes.items.length,
      ready: nodes.items.filter((it) => isReady(it.status?.conditions)).length,
    },
    pods: {
      total: pods.items.length,
      ready: pods.items.filter((it) => isReady(it.status?.conditions)).length,
    },
  };
}
