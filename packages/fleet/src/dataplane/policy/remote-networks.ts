import {
  type AddressBlock,
  type MeshNetwork,
  RELEASED_AT_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { type Prefix, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { remaining } from "#policy/compile/cidrs.ts";
import type { RemoteNetwork } from "#policy/remote.ts";

/**
 * The addresses that pods of other clusters have: in a flat network those of the members' pod networks, in a parallel one all fleet addresses,
 * and both while members change from one to the other. None are of the own cluster. None at all if the hub does not say the pod networks: it, or
 * the agent of this cluster, is older than slices of addresses, without which what is not a pod would never be identified.
 *
 * @param blocks - Of members and of nodes.
 */
export function remoteNetworks(
  network: MeshNetwork["spec"] | undefined,
  blocks: Iterable<AddressBlock>,
  cluster: string,
): readonly RemoteNetwork[] {
  if (network?.podNetworks === undefined) return [];
  const { flat, parallel } = networksOf(network, blocks);
  const all = [...flat, ...parallel];
  const own = prefixesOfCluster(all, cluster);
  const without = (prefixes: readonly Prefix[], others: readonly Prefix[]): readonly Prefix[] =>
    prefixes.flatMap((it) => [...remaining(it, others)]);
  const named = all
    .filter((it) => it.cluster !== cluster)
    .map((it) => ({ ...it, prefixes: without(it.prefixes, own) }));
  if (network.mode === "flat") return named;
  const rest = without(
    prefixesOf([network.ipv4, network.ipv6]),
    parallel.flatMap((it) => it.prefixes),
  );
  return [...named, { prefixes: rest }];
}

/** The addresses that others take for those of pods of the own cluster. */
export function ownNetworks(
  network: MeshNetwork["spec"] | undefined,
  blocks: Iterable<AddressBlock>,
  cluster: string,
): readonly Prefix[] {
  if (network === undefined) return [];
  const { flat, parallel } = networksOf(network, blocks);
  return prefixesOfCluster([...flat, ...parallel], cluster);
}

function networksOf(network: MeshNetwork["spec"], blocks: Iterable<AddressBlock>) {
  const flat = (network.podNetworks ?? []).map((it) => ({
    cluster: it.cluster,
    prefixes: prefixesOf(it.podCIDRs),
  }));
  const given = [...blocks].filter((it) => it.metadata.annotations?.[RELEASED_AT_ANNOTATION] === undefined);
  const parallel = given.map(({ spec: { cluster, ipv4, ipv6 } }) => ({
    cluster,
    prefixes: prefixesOf([...ipv4, ...ipv6]),
  }));
  return { flat, parallel: network.mode === "parallel" ? parallel : [] };
}

function prefixesOfCluster(all: readonly RemoteNetwork[], cluster: string): readonly Prefix[] {
  return all.filter((it) => it.cluster === cluster).flatMap((it) => it.prefixes);
}

function prefixesOf(texts: readonly string[]): readonly Prefix[] {
  return texts.flatMap((it) => tryParsePrefix(it) ?? []);
}
