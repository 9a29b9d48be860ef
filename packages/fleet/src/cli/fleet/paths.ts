import type { InternalMemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  type ClusterMeshProfile,
  type Gateway,
  type GatewayPath,
  PATH_KINDS,
  type PathKind,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { clusterOfMailbox } from "#api/networking.fleet.azure.com/names.ts";
import { gatewayName } from "#domain/gateway.ts";
import { byNaturalText } from "@fairlead/base/text.ts";
import type { FleetSnapshot } from "./status.ts";

/** The tunnels of a fleet, as the gateways report them to the hub. Pure. */

/** From each member of a parallel network to each other one. */
export interface ClusterPath {
  readonly from: string;
  readonly to: string;
  readonly network: string;
  /** Of both sides' gateways. Empty while nothing is reported. */
  readonly tunnels: readonly TunnelStatus[];
}

export interface TunnelStatus {
  /** Names of the Gateways. */
  readonly from: string;
  readonly to: string;
  /** "unknown": the last report is too old. */
  readonly path: PathKind | "unknown";
  readonly rttMs?: number;
  readonly lossPercent?: number;
  /** Unit: bytes. */
  readonly mtu?: number;
  /** RFC 3339. */
  readonly lastHandshake?: string;
  readonly keyEpoch: number;
  /** When the epoch began, if it is the present one. RFC 3339. */
  readonly keysSince?: string;
  /** As of the report. */
  readonly sentBytes?: number;
  readonly receivedBytes?: number;
  /** RFC 3339. */
  readonly reportedAt?: string;
}

/** A node reports every ten minutes at least. Unit: milliseconds. */
const STALE_MS = 25 * 60_000;

export function summarizePaths(
  { internalMembers, profiles, gateways }: Pick<FleetSnapshot, "internalMembers" | "profiles" | "gateways">,
  nowMs: number,
): readonly ClusterPath[] {
  const networks = Map.groupBy(internalMembers.filter(isParallel), (it) => it.spec.network?.profile ?? "");
  const byCluster = Map.groupBy(gateways, (it) => clusterOfMailbox(it.metadata.namespace) ?? "");
  return [...networks]
    .toSorted(([a], [b]) => byNaturalText(a, b))
    .flatMap(([network, all]) => {
      const names = all.map((it) => it.metadata.name).toSorted(byNaturalText);
      const profile = profiles.find((it) => it.metadata.name === network);
      return names.flatMap((from) =>
        names
          .filter((to) => to !== from)
          .map((to) => ({
            from,
            to,
            network,
            tunnels: (byCluster.get(from) ?? []).flatMap((it) => tunnelsTo(it, to, { profile, nowMs })),
          })),
      );
    });
}

function isParallel({ spec: { network } }: InternalMemberCluster): boolean {
  return network?.mode === "parallel";
}

function tunnelsTo(
  { metadata, status: { paths = [], pathsReportedAt } = {} }: Gateway,
  to: string,
  { profile, nowMs }: { readonly profile: ClusterMeshProfile | undefined; readonly nowMs: number },
): TunnelStatus[] {
  const isFresh = nowMs - Date.parse(pathsReportedAt ?? "") < STALE_MS;
  const { keyEpoch, keyEpochSince } = profile?.status ?? {};
  return paths
    .filter((it) => it.cluster === to)
    .map(({ cluster, ordinal, path, ...rest }: GatewayPath) => ({
      from: metadata.name,
      to: gatewayName(cluster, ordinal),
      path: isFresh ? path : ("unknown" as const),
      ...rest,
      ...(rest.keyEpoch === keyEpoch && keyEpochSince !== undefined ? { keysSince: keyEpochSince } : {}),
      ...(pathsReportedAt === undefined ? {} : { reportedAt: pathsReportedAt }),
    }))
    .toSorted((a, b) => byNaturalText(a.to, b.to));
}

/** Whether each member has a way to each other one. */
export function arePathsHealthy(paths: readonly ClusterPath[]): boolean {
  return paths.every(({ tunnels }) =>
    tunnels.some(({ path }) => PATH_KINDS.some((it) => it === path && it !== "none")),
  );
}
