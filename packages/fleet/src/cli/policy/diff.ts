import { familyOf, type IpAddress, parseAddress } from "@fairlead/base/netaddr/address.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { POLICY_KINDS, type PolicyKind } from "#policy/compile/compile.ts";
import type { Flow, Traffic } from "#policy/enforced.ts";
import type { CompiledPolicy, PolicyPod, PortMatch, Refusal, Way } from "#policy/model.ts";
import { renderTable } from "../table.ts";
import { trafficText } from "./ends.ts";
import { type ClusterObjects, ClusterView, podName } from "./view.ts";

/** Which pods gain or lose access if manifests are applied. Pure. */

export interface Access {
  readonly change: "gains" | "loses";
  readonly from: string;
  readonly to: string;
  readonly traffic: string;
  /** Of which end the policies decide otherwise. */
  readonly way: Way;
}

export interface PolicyDiff {
  readonly changes: readonly Access[];
  /** Of the manifests. */
  readonly refusals: readonly (Refusal & { readonly policy: string })[];
  /** Pairs of pods that were not compared, since there are too many. */
  readonly pairsLeftOut: number;
}

/**
 * @throws {FleetError} `OPTION_INVALID` for an object that is not a policy.
 */
export function policiesOf(objects: readonly (KubeObject | undefined)[]): ClusterObjects["policies"] {
  return objects
    .filter((it) => it !== undefined)
    .map((object) => {
      const kind = POLICY_KINDS.find((it) => it === object.kind);
      if (kind === undefined || typeof object.metadata?.name !== "string")
        throw new FleetError(
          "OPTION_INVALID",
          `the manifest has a ${object.kind ?? "object without a kind"}; it must have ${POLICY_KINDS.join(", ")} only, each with a name`,
        );
      return { kind, object: hasNamespace(kind) ? inNamespace(object) : object };
    });
}

function hasNamespace(kind: PolicyKind): boolean {
  return kind === "NetworkPolicy" || kind === "CiliumNetworkPolicy";
}

function inNamespace(object: KubeObject): KubeObject {
  return { ...object, metadata: { ...object.metadata, namespace: object.metadata.namespace ?? "default" } };
}

/**
 * With the pods of other clusters, which may not be known yet: members learn of each other what their policies need.
 *
 * @param others - As they see themselves.
 */
export function withPodsOf(before: ClusterObjects, others: readonly ClusterObjects[]): ClusterObjects {
  const known = new Set(before.pods.map(podName));
  const homes = new Set(before.namespaces.map((it) => `${it.cluster}/${it.name}`));
  const own = others.filter((it) => it.cluster !== before.cluster);
  return {
    ...before,
    pods: [
      ...before.pods,
      ...own.flatMap(({ cluster, pods }) =>
        pods.filter((it) => it.cluster === cluster && !known.has(podName(it))),
      ),
    ],
    namespaces: [
      ...before.namespaces,
      ...own.flatMap(({ cluster, namespaces }) =>
        namespaces.filter((it) => it.cluster === cluster && !homes.has(`${cluster}/${it.name}`)),
      ),
    ],
  };
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

/** @param remove Whether the policies are deleted instead. */
export function diffOf(
  before: ClusterObjects,
  changed: ClusterObjects["policies"],
  remove: boolean,
): PolicyDiff {
  const keys = new Set(changed.map(keyOf));
  const others = before.policies.filter((it) => !keys.has(keyOf(it)));
  const old = new ClusterView(before);
  const next = new ClusterView({ ...before, policies: remove ? others : [...others, ...changed] });
  const isChanged = (it: CompiledPolicy): boolean =>
    keys.has(keyOf({ kind: it.id.kind, object: { metadata: it.id } }));
  const touched = [...old.policies, ...next.policies].filter(isChanged);
  const samples = trafficOf(touched);
  const subjects = representatives(before.pods.filter((it) => it.cluster === before.cluster)).filter((pod) =>
    touched.some((it) => old.isSelected(pod, it.subject.selector)),
  );
  const peers = [...representatives(before.pods), OUTSIDE];
  const pairs = subjects.flatMap((subject) =>
    peers.filter((it) => it !== subject).map((peer) => ({ subject, peer })),
  );
  const compared = pairs.slice(0, MAX_PAIRS);
  return {
    changes: compared.flatMap(({ subject, peer }) => compare([old, next], subject, peer, samples)),
    refusals: next.compilations
      .filter((it) => keys.has(keyOf({ kind: it.id.kind, object: { metadata: it.id } })))
      .flatMap(({ id, refusals }) => refusals.map((it) => ({ ...it, policy: `${id.kind} ${id.name}` }))),
    pairsLeftOut: pairs.length - compared.length,
  };
}

function keyOf({
  kind,
  object,
}: {
  readonly kind: string;
  readonly object: { readonly metadata: { readonly namespace?: string; readonly name: string } };
}): string {
  return `${kind}/${object.metadata.namespace ?? ""}/${object.metadata.name}`;
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

export function renderDiff({ changes, refusals, pairsLeftOut }: PolicyDiff): string {
  const rows = renderTable(
    [
      { head: "CHANGE", cell: (it: Access) => it.change },
      { head: "FROM", cell: (it) => it.from },
      { head: "TO", cell: (it) => it.to },
      { head: "TRAFFIC", cell: (it) => it.traffic },
      { head: "DECIDED BY", cell: (it) => it.way },
    ],
    changes,
  );
  return [
    changes.length === 0 ? "no pod gains or loses access" : rows,
    ...refusals.map((it) => `${it.policy} ${it.field}: ${it.reason} (${it.effect})`),
    ...(pairsLeftOut === 0 ? [] : [`${pairsLeftOut} more pairs of pods were not compared`]),
  ].join("\n");
}
