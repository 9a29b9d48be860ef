import { defined } from "@fairlead/base/defined.ts";
import { overlaps, type Prefix } from "@fairlead/base/netaddr/prefix.ts";
import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import type { IdentityRequest, IdentityWants } from "#api/fairlead.dev/v1alpha1/identities.ts";
import type { CompiledPolicy, Peer, Rule } from "./model.ts";
import { type Attribute, otherClusters, type Selector } from "./selector.ts";
import { type Clusters, type Remote, unitedClusters } from "./remote.ts";
import { clustersToIdentify } from "./unidentified.ts";

/** What is known of the network when a demand is made. */
export interface DemandScope {
  /** Name of the own cluster. */
  readonly cluster: string;
  /** All addresses that pods of other clusters have; undefined if not known. */
  readonly networks?: readonly Prefix[];
}

/**
 * The pods and nodes of other clusters that policies can match. Rules that match what is not a known pod, such as the entity `world`, need
 * all pods in their range: else they would match pods, too. Where addresses are held off that are not identified, rules that depend on identities
 * need all addresses: those of pods that the rule does not match would stay closed.
 */
export function demandOf(policies: readonly CompiledPolicy[], scope: DemandScope): IdentityWants {
  const requests = new Map<string, IdentityRequest>();
  let nodes = false;
  for (const peer of peersOf(policies)) {
    nodes ||= needsNodes(peer);
    const request = requestOf(peer, scope);
    if (request !== undefined) requests.set(JSON.stringify(request), request);
  }
  if (policies.some(hasNamedPortOfAny)) requests.set("{}", {});
  const everything = requests.get("{}");
  const sorted = [...requests].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, it]) => it);
  return { requests: everything === undefined ? sorted : [everything], ...(nodes ? { nodes } : {}) };
}

/**
 * What policies in all namespaces need, so that no address stays closed to them that they mean to admit.
 *
 * @param closed - The addresses that nodes hold off while they are not identified.
 */
export function addressesNeeded(
  policies: readonly CompiledPolicy[],
  closed: Remote,
): readonly IdentityRequest[] {
  const clusters: Clusters = unitedClusters(policies.map((it) => clustersToIdentify(it, closed)));
  if (clusters === "none") return [];
  return [{ ...(clusters === "any" ? {} : { clusters: clusters.toSorted() }), addresses: true }];
}

/** The number of a named port is known for known pods only. */
function hasNamedPortOfAny({ egress }: CompiledPolicy): boolean {
  const isNamed = ({ ports }: Rule): boolean => ports !== "any" && ports.some((it) => it.kind === "named");
  return egress?.rules.some((it) => it.peers === "any" && isNamed(it)) === true;
}

/** Each once: many policies have the same peers. */
function peersOf(policies: Iterable<CompiledPolicy>): Iterable<Peer> {
  const peers = new Map<string, Peer>();
  for (const { ingress, egress } of policies)
    for (const rule of [...(ingress?.rules ?? []), ...(egress?.rules ?? [])])
      for (const peer of rule.peers === "any" ? [] : rule.peers) peers.set(peer.key, peer);
  return peers.values();
}

function needsNodes(peer: Peer): boolean {
  if (peer.kind === "entity") return peer.entity !== "host" && peer.entity !== "kube-apiserver";
  return peer.kind === "nodes" || peer.kind === "fqdn" || (peer.kind === "cidr" && !peer.matchesNodes);
}

function requestOf(peer: Peer, scope: DemandScope): IdentityRequest | undefined {
  switch (peer.kind) {
    case "pods":
      return requestOfSelector(peer.selector, scope.cluster);
    case "cidr":
      return !peer.matchesPods && canHoldPods(peer.prefixes, scope) ? {} : undefined;
    case "entity":
      return peer.entity.startsWith("world") ? {} : undefined;
    case "fqdn":
      return {};
    case "nodes":
    case "unidentified":
      return undefined;
    default:
      return peer satisfies never;
  }
}

function canHoldPods(prefixes: readonly Prefix[], { networks }: DemandScope): boolean {
  return networks === undefined || prefixes.some((it) => networks.some((network) => overlaps(it, network)));
}

/** Undefined if the selector selects pods of the own cluster only. The service account is not part of a request, which is wider so. */
function requestOfSelector(selector: Selector, cluster: string): IdentityRequest | undefined {
  const { requirements } = selector;
  const clusters = otherClusters(selector, cluster);
  if (clusters === "none") return undefined;
  const namespaces = requirements.find((it) => it.attribute === "namespace" && it.operator === "In")?.values;
  return defined({
    clusters: clusters === "any" ? undefined : [...clusters],
    namespaces: namespaces === undefined ? undefined : [...namespaces],
    namespaceSelector: labelsOf(requirements, "ns:"),
    podSelector: labelsOf(requirements, "pod:"),
  });
}

function labelsOf(requirements: Selector["requirements"], prefix: "ns:" | "pod:"): LabelSelector | undefined {
  const matchExpressions = requirements
    .filter((it) => it.attribute.startsWith(prefix))
    .map(({ attribute, operator, values }) => ({
      key: labelOf(attribute),
      operator,
      ...(values.length === 0 ? {} : { values: [...values] }),
    }));
  return matchExpressions.length === 0 ? undefined : { matchExpressions };
}

function labelOf(attribute: Attribute): string {
  return attribute.slice(attribute.indexOf(":") + 1);
}
