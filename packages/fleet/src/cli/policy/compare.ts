import { familyOf, type IpAddress, parseAddress } from "@fairlead/base/netaddr/address.ts";
import type { Flow, Traffic } from "#policy/enforced.ts";
import type { CompiledPolicy, PolicyPod, PortMatch, Way } from "#policy/model.ts";
import { renderTable } from "../table.ts";
import { trafficText } from "./ends.ts";
import { type ClusterView, podName } from "./view.ts";

/** Which pods gain or lose access from one view of a cluster to another one. Pure. */

export interface Access {
  readonly change: "gains" | "loses";
  readonly from: string;
  readonly to: string;
  readonly traffic: string;
  /** Of which end the policies decide otherwise. */
  readonly way: Way;
}

export interface Comparison {
  readonly changes: readonly Access[];
  /** Changes that are not listed, since there are too many. */
  readonly changesLeftOut: number;
  /** Pairs of pods that were not compared, since there are too many. */
  readonly pairsLeftOut: number;
}

/** Stands for what is not a known pod. Addresses of documentation, which nothing has (RFC 5737, RFC 3849). */
const OUTSIDE: PolicyPod = {
  cluster: "",
  namespace: "",
  name: "",
  labels: {},
  serviceAccount: "",
  addresses: ["192.0.2.1", "2001:db8::1"].map(parseAddress),
  ports: [],
};

/** How many pairs of pods are compared at most, with all ports each. */
const MAX_PAIRS = 200_000;

/** How many changes are listed at most. */
const MAX_CHANGES = 5000;

/** @param policies - Of both views, those that may decide otherwise now. */
export function compareViews(
  [old, next]: readonly [ClusterView, ClusterView],
  policies: readonly CompiledPolicy[],
): Comparison {
  const samples = trafficOf(policies);
  const known = [...new Map([...old.of.pods, ...next.of.pods].map((it) => [podName(it), it])).values()];
  const subjects = representatives(known.filter((it) => it.cluster === old.of.cluster)).filter((pod) =>
    policies.some((it) => [old, next].some((view) => view.isSelected(pod, it.subject.selector))),
  );
  const peers = [...representatives(known), OUTSIDE];
  const pairs = subjects.flatMap((subject) =>
    peers.filter((it) => it !== subject).map((peer) => ({ subject, peer })),
  );
  const compared = pairs.slice(0, MAX_PAIRS);
  const changes = compared.flatMap(({ subject, peer }) => compare([old, next], subject, peer, samples));
  return {
    changes: changes.slice(0, MAX_CHANGES),
    changesLeftOut: Math.max(0, changes.length - MAX_CHANGES),
    pairsLeftOut: pairs.length - compared.length,
  };
}

/** One pod of those that no policy can tell apart, by the labels, service account, node and ports. */
function representatives(pods: readonly PolicyPod[]): readonly PolicyPod[] {
  const found = new Map<string, PolicyPod>();
  for (const pod of pods) {
    const { cluster, namespace, labels, serviceAccount, ports } = pod;
    const key = JSON.stringify([
      cluster,
      namespace,
      Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1)),
      serviceAccount,
      ports,
    ]);
    if (!found.has(key)) found.set(key, pod);
  }
  return [...found.values()];
}

/** A port that policies rarely name, for rules about all ports. */
const OTHER_PORT = 65_535;
const TRANSPORTS = ["TCP", "UDP", "SCTP"] as const;

/** The least traffic that tells apart what the rules match. */
function trafficOf(
  policies: readonly CompiledPolicy[],
): (destination: PolicyPod, address: IpAddress) => readonly Traffic[] {
  const ports = policies
    .flatMap((it) => [...(it.ingress?.rules ?? []), ...(it.egress?.rules ?? [])])
    .flatMap((it): readonly PortMatch[] => (it.ports === "any" ? [] : it.ports));
  return (destination, address) => {
    const found: Traffic[] = [
      ...TRANSPORTS.map((protocol): Traffic => ({ kind: "transport", protocol, port: OTHER_PORT })),
      { kind: "icmp", type: typeof address === "number" ? 8 : 128 },
      ...ports.flatMap((it) => samplesOf(it, destination)),
    ];
    return [...new Map(found.map((it) => [JSON.stringify(it), it])).values()];
  };
}

function samplesOf(match: PortMatch, { ports }: PolicyPod): readonly Traffic[] {
  switch (match.kind) {
    case "range":
      return [...new Set([Math.max(1, match.first), match.last])].map((port) => ({
        kind: "transport",
        protocol: match.protocol,
        port,
      }));
    case "named":
      return ports
        .filter((it) => it.name === match.name && it.protocol === match.protocol)
        .map(({ protocol, port }) => ({ kind: "transport", protocol, port }));
    case "icmp":
      return [{ kind: "icmp", type: match.type }];
    case "protocol":
      return [{ kind: "protocol", number: match.number }];
    default:
      return match satisfies never;
  }
}

type Samples = ReturnType<typeof trafficOf>;

function compare(
  views: readonly [ClusterView, ClusterView],
  subject: PolicyPod,
  peer: PolicyPod,
  samples: Samples,
): readonly Access[] {
  const found = subject.addresses.flatMap((address) => {
    const other = peer.addresses.find((it) => familyOf(it) === familyOf(address));
    if (other === undefined) return [];
    const sent = { from: { pod: subject, address }, to: { pod: peer, address: other } };
    const received = { from: sent.to, to: sent.from };
    return [...changesOf(views, "egress", sent, samples), ...changesOf(views, "ingress", received, samples)];
  });
  return [...new Map(found.map((it) => [JSON.stringify(it), it])).values()];
}

interface Ends {
  readonly from: { readonly pod: PolicyPod; readonly address: IpAddress };
  readonly to: { readonly pod: PolicyPod; readonly address: IpAddress };
}

function changesOf(
  [old, next]: readonly [ClusterView, ClusterView],
  way: Way,
  { from, to }: Ends,
  samples: Samples,
): readonly Access[] {
  return samples(to.pod, to.address).flatMap((traffic): readonly Access[] => {
    const flow: Flow = { source: from.address, destination: to.address, traffic };
    const is = next.enforced.verdict(flow, way).isAllowed;
    if (is === old.enforced.verdict(flow, way).isAllowed) return [];
    const change = is ? "gains" : "loses";
    return [{ change, from: endName(from.pod), to: endName(to.pod), traffic: trafficText(traffic), way }];
  });
}

function endName(pod: PolicyPod): string {
  return pod === OUTSIDE ? "other addresses" : podName(pod);
}

/** How many changes are in a table for people at most. */
const MAX_ROWS = 200;

export function renderComparison({ changes, changesLeftOut, pairsLeftOut }: Comparison): readonly string[] {
  const rows = renderTable(
    [
      { head: "CHANGE", cell: (it: Access) => it.change },
      { head: "FROM", cell: (it) => it.from },
      { head: "TO", cell: (it) => it.to },
      { head: "TRAFFIC", cell: (it) => it.traffic },
      { head: "DECIDED BY", cell: (it) => it.way },
    ],
    changes.slice(0, MAX_ROWS),
  );
  const more = changesLeftOut + Math.max(0, changes.length - MAX_ROWS);
  return [
    changes.length === 0 ? "no pod gains or loses access" : rows,
    ...(more === 0 ? [] : [`and ${more} more changes; -o json lists ${MAX_CHANGES} at most`]),
    ...(pairsLeftOut === 0 ? [] : [`${pairsLeftOut} more pairs of pods were not compared`]),
  ];
}
