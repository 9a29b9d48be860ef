import { PATH_KINDS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { GaugeMetric, Labels, Metrics } from "@fairlead/base/metrics.ts";
import { gatewayName } from "#domain/gateway.ts";
import type { MeasuredPath } from "./path-report.ts";

/** What metrics show of tunnels. There are at most 1023 remote gateways. */

const PREFIX = "fairlead_tunnel";
const GAUGES = {
  path: "1 for the way that the packets of a tunnel take: direct, relay, tcp or none.",
  rtt_seconds: "Smoothed round trip through the tunnel.",
  loss_ratio: "Share of the last 40 probes or so without an answer.",
  mtu_bytes: "MTU of the tunnel.",
  key_epoch: "Epoch of the keys in use.",
  last_handshake_timestamp_seconds: "When keys were agreed last.",
  sent_bytes: "Encrypted bytes sent since the device was made.",
  received_bytes: "Encrypted bytes received since the device was made.",
} as const;
/** `member` is the other one: Prometheus itself uses the label `cluster`. */
const LABELS = ["member", "gateway"] as const;

type Name = keyof typeof GAUGES;

interface Sample {
  readonly name: Name;
  readonly labels: Labels;
  readonly value: number;
}

export interface PathMeters {
  show(measured: readonly MeasuredPath[]): void;
}

export function createPathMeters(metrics: Metrics): PathMeters {
  const gauges = new Map<Name, GaugeMetric>();
  for (const [name, help] of Object.entries(GAUGES)) {
    const labels = name === "path" ? [...LABELS, "path"] : LABELS;
    gauges.set(name as Name, metrics.gauge({ name: `${PREFIX}_${name}`, help, labels }));
  }
  let shown: readonly Sample[] = [];
  return {
    show(measured) {
      const samples = measured.flatMap(samplesOf);
      for (const { name, labels } of shown) gauges.get(name)?.remove(labels);
      for (const { name, labels, value } of samples) gauges.get(name)?.set(labels, value);
      shown = samples;
    },
  };
}

function samplesOf({ tunnel: { pair, peer, mtu, echo }, kind }: MeasuredPath): readonly Sample[] {
  const { cluster, ordinal } = pair.remote;
  const labels = { member: cluster, gateway: gatewayName(cluster, ordinal) };
  const values: readonly (readonly [Name, number | undefined])[] = [
    ["rtt_seconds", kind === "none" || echo.rttMs === undefined ? undefined : echo.rttMs / 1000],
    ["loss_ratio", kind === "none" ? 1 : echo.loss],
    ["mtu_bytes", mtu],
    ["key_epoch", pair.epoch],
    [
      "last_handshake_timestamp_seconds",
      peer?.latestHandshakeMs === undefined ? undefined : peer.latestHandshakeMs / 1000,
    ],
    ["sent_bytes", peer?.txBytes],
    ["received_bytes", peer?.rxBytes],
  ];
  return [
    ...PATH_KINDS.map((path) => ({
      name: "path" as const,
      labels: { ...labels, path },
      value: Number(path === kind),
    })),
    ...values.flatMap(([name, value]) => (value === undefined ? [] : [{ name, labels, value }])),
  ];
}
