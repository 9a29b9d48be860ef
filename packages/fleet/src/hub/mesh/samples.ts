import { tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { Labels } from "@fairlead/base/metrics.ts";
import { type ClusterMeshProfile, type Gateway, PATH_KINDS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { blockCount } from "#domain/address-plan.ts";
import { clusterOfMailbox, viewNamespaceOf } from "#api/networking.fleet.azure.com/names.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import type { MeshInformers } from "./informers.ts";

/** What metrics show of networks. */

export interface NetworkSample {
  readonly name:
    | "network_members"
    | "network_ready"
    | "network_gateways"
    | "network_free_blocks"
    | "network_tunnels";
  readonly labels: Labels;
  readonly value: number;
}

type Networks = Pick<MeshInformers, "profiles" | "blocks" | "gateways">;

export function readNetworkSamples(networks: Networks): NetworkSample[] {
  return [
    ...[...networks.profiles.store.list()].flatMap((it) => samplesOf(networks, it)),
    ...tunnelSamples(networks.gateways.store.list()),
  ];
}

/** What members report of the tunnels of their gateways. */
function tunnelSamples(gateways: Iterable<Gateway>): NetworkSample[] {
  const reports = [...gateways].filter((it) => it.status?.paths !== undefined);
  const byMember = Map.groupBy(reports, (it) => clusterOfMailbox(it.metadata.namespace));
  return [...byMember].flatMap(([member, all]) => {
    if (member === undefined) return [];
    const paths = all.flatMap((it) => it.status?.paths ?? []);
    return PATH_KINDS.map((path) => ({
      name: "network_tunnels" as const,
      labels: { member, path },
      value: paths.filter((it) => it.path === path).length,
    }));
  });
}

function samplesOf(
  { blocks, gateways }: Networks,
  { metadata, status }: ClusterMeshProfile,
): NetworkSample[] {
  const labels = { profile: metadata.name };
  const view = viewNamespaceOf(metadata.name);
  const shown = [...gateways.store.list()].filter((it) => it.metadata.namespace === view);
  const taken = [...blocks.store.list()].filter((it) => it.metadata.namespace === view);
  const free = (["ipv4", "ipv6"] as const).flatMap((field): NetworkSample[] => {
    const prefix = tryParsePrefix(status?.addresses?.[field] ?? "");
    if (prefix === undefined) return [];
    const value = blockCount(prefix) - taken.flatMap((it) => it.spec[field]).length;
    return [{ name: "network_free_blocks", labels: { ...labels, family: prefix.family }, value }];
  });
  return [
    { name: "network_members", labels, value: status?.members ?? 0 },
    { name: "network_ready", labels, value: Number(isConditionTrue(status?.conditions, "Ready")) },
    { name: "network_gateways", labels, value: shown.length },
    ...free,
  ];
}
