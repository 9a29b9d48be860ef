import type { Gateway, GatewayPath, MeshRelay, PathKind } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { defined } from "@fairlead/base/defined.ts";
import { splitHostPort } from "@fairlead/base/netaddr/host-port.ts";
import { byText } from "@fairlead/base/text.ts";
import type { ActualPeer } from "@fairlead/os/wireguard/state.ts";
import type { Pair } from "./devices.ts";
import type { EchoState } from "./echo-probes.ts";

/** What a gateway says of its tunnels. Pure. */

/** A tunnel as WireGuard and the probes show it. */
export interface Tunnel {
  readonly pair: Pick<Pair, "id" | "epoch" | "remote">;
  /** Undefined while WireGuard does not have it. */
  readonly peer: Pick<ActualPeer, "endpoint" | "latestHandshakeMs" | "rxBytes" | "txBytes"> | undefined;
  /** Unit: bytes. */
  readonly mtu: number;
  readonly echo: Pick<EchoState, "isAlive" | "rttMs" | "loss">;
}

/** A tunnel with its exact values. */
export interface MeasuredPath {
  readonly tunnel: Tunnel;
  readonly kind: PathKind;
}

/** WireGuard ends a session 180 s after its handshake (REJECT_AFTER_TIME). Unit: milliseconds. */
const SESSION_MS = 180_000;
/** Ports of a relay: one for each index of a gateway. */
const RELAY_PORTS = 1024;

/** One path to each gateway: of the newest keys with which it answers, as routes use it. */
export function measurePaths(
  tunnels: readonly Tunnel[],
  relays: readonly MeshRelay[],
  nowMs: number,
): readonly MeasuredPath[] {
  const byGateway = Map.groupBy(tunnels, ({ pair: { remote } }) => `${remote.cluster} ${remote.ordinal}`);
  return [...byGateway.values()]
    .flatMap((all) => {
      const living = all.filter((it) => isAlive(it, nowMs));
      const [tunnel] = (living.length > 0 ? living : all).toSorted((a, b) => b.pair.epoch - a.pair.epoch);
      if (tunnel === undefined) return [];
      return [{ tunnel, kind: living.length > 0 ? kindOf(tunnel.peer?.endpoint, relays) : "none" } as const];
    })
    .toSorted(
      ({ tunnel: { pair: a } }, { tunnel: { pair: b } }) =>
        byText(a.remote.cluster, b.remote.cluster) || a.remote.ordinal - b.remote.ordinal,
    );
}

/** A gateway of an older version has no address for probes: its handshakes have to do. */
function isAlive({ pair, peer, echo }: Tunnel, nowMs: number): boolean {
  if (pair.remote.fleetAddress !== undefined) return echo.isAlive;
  return nowMs - (peer?.latestHandshakeMs ?? Number.NEGATIVE_INFINITY) < SESSION_MS;
}

/** By where WireGuard sends, because of two gateways only one chooses. TLS ends in a program of the same machine. */
function kindOf(endpoint: string | undefined, relays: readonly MeshRelay[]): PathKind {
  const to = splitHostPort(endpoint ?? "");
  if (to === undefined) return "none";
  if (to.host === "::1" || to.host.startsWith("127.")) return "tcp";
  const isRelay = relays.some(
    ({ addresses, basePort }) =>
      addresses.includes(to.host) && to.port >= basePort && to.port < basePort + RELAY_PORTS,
  );
  return isRelay ? "relay" : "direct";
}

/** How old a report may be, and how much measured values may differ from it. */
const REPORT_MS = 600_000;
const RTT = { share: 0.5, floor: 2 };
const LOSS = { share: 0.5, floor: 3 };

/** The report that is due; undefined while the one before says enough. */
export function planReport(
  measured: readonly MeasuredPath[],
  before: Gateway["status"],
  nowMs: number,
): { readonly paths: GatewayPath[]; readonly pathsReportedAt: string } | undefined {
  const { paths: old = [], pathsReportedAt } = before ?? {};
  const paths = measured.map(describe);
  const isOld = pathsReportedAt === undefined || !(Math.abs(nowMs - Date.parse(pathsReportedAt)) < REPORT_MS);
  const isSame =
    paths.length === old.length &&
    paths.every((it, at) => {
      const was = old[at];
      return was !== undefined && saysTheSame(was, it);
    });
  if (isSame && (!isOld || paths.length === 0)) return undefined;
  return { paths, pathsReportedAt: timeText(nowMs) };
}

function describe({ tunnel: { pair, peer, mtu, echo }, kind }: MeasuredPath): GatewayPath {
  const { rttMs } = echo;
  const isAnswered = kind !== "none" && rttMs !== undefined;
  return {
    cluster: pair.remote.cluster,
    ordinal: pair.remote.ordinal,
    path: kind,
    keyEpoch: pair.epoch,
    mtu,
    ...(isAnswered
      ? { rttMs: Math.max(1, Math.round(rttMs)), lossPercent: Math.round(echo.loss * 100) }
      : {}),
    ...defined({
      lastHandshake: peer?.latestHandshakeMs === undefined ? undefined : timeText(peer.latestHandshakeMs),
      sentBytes: peer?.txBytes,
      receivedBytes: peer?.rxBytes,
    }),
  };
}

/** Handshakes and bytes change all the time: they go along with other changes. */
function saysTheSame(a: GatewayPath, b: GatewayPath): boolean {
  return (
    a.cluster === b.cluster &&
    a.ordinal === b.ordinal &&
    a.path === b.path &&
    a.keyEpoch === b.keyEpoch &&
    a.mtu === b.mtu &&
    (a.lastHandshake === undefined) === (b.lastHandshake === undefined) &&
    isClose(a.rttMs, b.rttMs, RTT) &&
    isClose(a.lossPercent, b.lossPercent, LOSS)
  );
}

function isClose(
  before: number | undefined,
  now: number | undefined,
  { share, floor }: { readonly share: number; readonly floor: number },
): boolean {
  if (before === undefined || now === undefined) return before === now;
  return Math.abs(now - before) <= floor + share * before;
}

function timeText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
