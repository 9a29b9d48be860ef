import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_MESH_PROFILES,
  type ClusterMeshProfile,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { joinCluster } from "@fairlead/fleet/cli/fleet/join.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { type LabCluster, type LabSpec, PARALLEL_PREFIXES } from "@fairlead/lab/topology.ts";
import { connectCluster, type LabContext, type LabUp, type Report } from "@fairlead/lab/up.ts";
import { NODE_PROGRAM } from "./parallel.ts";

/** How many heartbeats fit into a lease: two may be lost. */
const HEARTBEATS_PER_LEASE = 3;

/** Joins every member that the hub does not know yet, all at once. */
export async function joinMembers(
  lab: LabUp,
  context: LabContext,
  report: Report,
  signal: AbortSignal,
): Promise<void> {
  const known = await knownMembers(lab, context, signal);
  const missing = lab.topology.clusters.filter((it) => it.runs === "member" && !known.has(it.name));
  if (missing.length === 0) return;
  report("members join the hub");
  const network = networkOf(lab.topology.spec);
  if (network !== undefined) await createProfile(lab, network, context, signal);
  await Promise.all(missing.map((cluster) => joinMember(lab, context, cluster, signal)));
}

type Network = ClusterMeshProfile["spec"]["network"];

/** All members are one network, if the lab runs the programs of it. */
function networkOf({ topology, extras }: LabSpec): Network | undefined {
  if (topology === "nat")
    return { mode: "parallel", addresses: { ipv4: PARALLEL_PREFIXES.v4, ipv6: PARALLEL_PREFIXES.v6 } };
  return extras.some((it) => it.command === NODE_PROGRAM.command) ? { mode: "flat" } : undefined;
}

async function createProfile(
  lab: LabUp,
  network: Network,
  context: LabContext,
  signal: AbortSignal,
): Promise<void> {
  await using client = await connectCluster({ name: "hub" }, lab.layout, context.log);
  await client.apply(
    CLUSTER_MESH_PROFILES,
    { metadata: { name: network.mode }, spec: { memberSelector: {}, network } },
    { fieldManager: "fairlead-lab", signal },
  );
}

async function joinMember(
  lab: LabUp,
  context: LabContext,
  cluster: LabCluster,
  signal: AbortSignal,
): Promise<void> {
  const { leaseSeconds } = lab.topology.spec;
  await joinCluster(
    {
      name: cluster.name,
      hub: await loadKubeconfig(lab.layout.kubeconfig, { context: "hub" }),
      member: await loadKubeconfig(lab.layout.kubeconfig, { context: cluster.name }),
      ...(cluster.nat === undefined ? {} : { parallelProfile: "parallel" }),
      heartbeatSeconds: Math.max(1, Math.floor(leaseSeconds / HEARTBEATS_PER_LEASE)),
    },
    systemDeps(context.log),
    signal,
  );
}

async function knownMembers(
  lab: LabUp,
  context: LabContext,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  await using client = await connectCluster({ name: "hub" }, lab.layout, context.log);
  try {
    const { items } = await client.list(MEMBER_CLUSTERS, { signal });
    return new Set(items.map((it) => it.metadata.name));
  } catch (error) {
    // The kind itself comes with the first join.
    if (hasCode(error, "API_NOT_FOUND")) return new Set();
    throw error;
  }
}
