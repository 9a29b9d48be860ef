import { tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { Labels } from "@fairlead/base/metrics.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { blockCount } from "#domain/address-plan.ts";
import { viewNamespaceOf } from "#api/networking.fleet.azure.com/names.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import type { MeshInformers } from "./informers.ts";

/** What metrics show of networks. */

export interface NetworkSample {
  readonly name: "network_members" | "network_ready" | "network_gateways" | "network_free_blocks";
  readonly labels: Labels;
  readonly value: number;
}

type Networks = Pick<MeshInformers, "profiles" | "blocks" | "gateways">;

export function readNetworkSamples(networks: Networks): NetworkSample[] {
  return [...networks.profiles.store.list()].flatMap((it) => samplesOf(networks, it));
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
