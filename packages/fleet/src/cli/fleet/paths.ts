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
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { defined } from "@fairlead/base/defined.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
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
  /** By the hub's clock, as all times. RFC 3339. */
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

/** How much later the hub wrote a report than it says, by the clock of its node: that is how far the node's clock is behind. */
function behindMs({ metadata: { managedFields = [] }, status }: Gateway): number {
  const written = managedFields.find((it) => it.manager === MEMBER_MANAGER && it.subresource === "status");
  const ms = Date.parse(written?.time ?? "") - Date.parse(status?.pathsReportedAt ?? "");
  return Number.isNaN(ms) ? 0 : ms;
}

/** A time of the node's clock, by the hub's. */
function byHub(text: string | undefined, ofBehindMs: number): string | undefined {
  const ms = Date.parse(text ?? "") + ofBehindMs;
  return Math.abs(ms) <= 8.64e15 ? timestamp(ms) : undefined;
}

function tunnelsTo(
  gateway: Gateway,
  to: string,
  { profile, nowMs }: { readonly profile: ClusterMeshProfile | undefined; readonly nowMs: number },
): TunnelStatus[] {
  const { metadata, status: { paths = [], pathsReportedAt } = {} } = gateway;
  const ofBehindMs = behindMs(gateway);
  const reportedAt = byHub(pathsReportedAt, ofBehindMs);
  const isFresh = nowMs - Date.parse(reportedAt ?? "") < STALE_MS;
  const { keyEpoch, keyEpochSince } = profile?.status ?? {};
  return paths
    .filter((it) => it.cluster === to)
    .map(({ cluster, ordinal, path, lastHandshake, ...rest }: GatewayPath) => ({
      from: metadata.name,
      to: gatewayName(cluster, ordinal),
      path: isFresh ? path : ("unknown" as const),
      ...rest,
      ...(rest.keyEpoch === keyEpoch && keyEpochSince !== undefined ? { keysSince: keyEpochSince } : {}),
      ...defined({ lastHandshake: byHub(lastHandshake, ofBehindMs), reportedAt }),
    }))
    .toSorted((a, b) => byNaturalText(a.to, b.to));
}

/** Whether each member has a way to each other one. */
export function arePathsHealthy(paths: readonly ClusterPath[]): boolean {
  return paths.every(hasPath);
}

export function hasPath({ tunnels }: ClusterPath): boolean {
  return tunnels.some(({ path }) => PATH_KINDS.some((it) => it === path && it !== "none"));
}
