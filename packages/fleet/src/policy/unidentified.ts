import type { CidrPeer, CompiledPolicy, Direction, Peer, PortMatch, Rule, Way } from "./model.ts";
import { ALL_IPV4, ALL_IPV6, cidrPeer, unidentifiedPeer, unitedPeers } from "./peers.ts";
import { type Clusters, type Remote, unitedClusters } from "./remote.ts";
import { otherClusters } from "./selector.ts";

/**
 * Policies that allow an address of another cluster nothing, before its pod is known, that they deny when it is. An address that is not
 * identified is matched by no allowing rule whose result depends on what is there, and is denied where a rule that denies or passes could match
 * it. Pure.
 */

/** Returns the policy itself if nothing of it concerns such addresses. */
export function closedToUnidentified(policy: CompiledPolicy, remote: Remote): CompiledPolicy {
  if (remote.prefixes.length === 0) return policy;
  const [ingress, egress] = [
    closedDirection(policy, "ingress", remote),
    closedDirection(policy, "egress", remote),
  ];
  if (ingress === policy.ingress && egress === policy.egress) return policy;
  return { ...policy, ...(ingress && { ingress }), ...(egress && { egress }) };
}

function closedDirection(policy: CompiledPolicy, way: Way, remote: Remote): Direction | undefined {
  const direction = policy[way];
  const rules = direction?.rules.flatMap((it) => closedRule(it, way, remote));
  if (direction === undefined || rules === undefined) return undefined;
  const isSame =
    rules.length === direction.rules.length && rules.every((it, at) => it === direction.rules[at]);
  return isSame ? direction : { ...direction, rules };
}

/** The clusters whose addresses have to be identified for a policy: those of which they are not stay closed. */
export function clustersToIdentify({ ingress, egress }: CompiledPolicy, remote: Remote): Clusters {
  if (remote.prefixes.length === 0) return "none";
  const of = (direction: Direction | undefined, way: Way): readonly Clusters[] =>
    (direction?.rules ?? []).map((it) =>
      it.action === "allow" ? (isNarrowed(it, remote) ? "any" : "none") : guarded(it, way, remote),
    );
  return unitedClusters([...of(ingress, "ingress"), ...of(egress, "egress")]);
}

function closedRule(rule: Rule, way: Way, remote: Remote): readonly Rule[] {
  if (rule.action === "allow") return [narrowed(rule, remote)];
  const clusters = guarded(rule, way, remote);
  const addresses = clusters === "none" ? undefined : remote.of(clusters);
  if (addresses === undefined || addresses.prefixes.length === 0) return [rule];
  const ports = rule.ports === "any" || way === "ingress" ? rule.ports : rule.ports.map(anyNumber);
  return [{ ...rule, action: "deny", peers: [unidentifiedPeer(addresses)], ports }, rule];
}

/** So many clusters may a rule name that has a set of their addresses; others have that of all clusters. */
const MAX_NAMED = 8;

/** The clusters of which a rule denies or passes on some pods, and not all. */
function guarded(rule: Rule, way: Way, remote: Remote): Clusters {
  const clusters = namedBy(rule, way, remote);
  return typeof clusters === "string" || clusters.length <= MAX_NAMED ? clusters : "any";
}

function namedBy({ action, peers, ports }: Rule, way: Way, remote: Remote): Clusters {
  if (action === "allow") return "none";
  const isNamed = way === "egress" && ports !== "any" && ports.some((it) => it.kind === "named");
  if (peers === "any") return isNamed ? "any" : "none";
  return unitedClusters(
    peers.map((it) => {
      if (it.kind === "pods") return otherClusters(it.selector, remote.cluster);
      // Rules that deny what is not a known pod match what is not identified in any case. Nodes have no addresses of pods.
      const isOfSome = isNamed || (action === "pass" && !matchesAll(it));
      return isOfSome && overlapsRemote(it, remote) ? "any" : "none";
    }),
  );
}

function overlapsRemote(peer: Peer, remote: Remote): boolean {
  switch (peer.kind) {
    case "pods":
      return otherClusters(peer.selector, remote.cluster) !== "none";
    case "cidr":
    case "unidentified":
      return peer.prefixes.some((it) => remote.overlapping(it).length > 0);
    case "entity":
      return peer.entity.startsWith("world");
    case "fqdn":
      return true;
    case "nodes":
      return false;
    default:
      return peer satisfies never;
  }
}

function matchesAll(peer: Peer): boolean {
  return peer.kind === "cidr" && peer.matchesPods && peer.matchesNodes;
}

/** The number of a named port of a pod that is not known may be any. */
function anyNumber(port: PortMatch): PortMatch {
  return port.kind === "named" ? { kind: "range", protocol: port.protocol, first: 0, last: 65_535 } : port;
}

function isNarrowed({ peers }: Rule, remote: Remote): boolean {
  return peers !== "any" && peers.some((it) => isNarrowedPeer(it, remote));
}

/** Names are looked at where they are learned. */
function isNarrowedPeer(peer: Peer, remote: Remote): boolean {
  const isByAddress = peer.kind === "cidr" || peer.kind === "entity";
  return isByAddress && !matchesAll(peer) && overlapsRemote(peer, remote);
}

function narrowed(rule: Rule, remote: Remote): Rule {
  const { peers } = rule;
  if (peers === "any" || !isNarrowed(rule, remote)) return rule;
  const each = peers.flatMap((it) => (isNarrowedPeer(it, remote) ? narrowedPeer(it, remote) : [it]));
  return { ...rule, peers: unitedPeers(each) };
}

function narrowedPeer(peer: Peer, remote: Remote): readonly Peer[] {
  if (peer.kind === "cidr") return narrowedCidr(peer, remote);
  if (peer.kind !== "entity") return [peer];
  const prefixes = [
    ...(peer.entity === "world-ipv6" ? [] : [ALL_IPV4]),
    ...(peer.entity === "world-ipv4" ? [] : [ALL_IPV6]),
  ];
  return narrowedCidr({ prefixes, matchesPods: false, matchesNodes: false }, remote);
}

/** Of the addresses of other clusters, those that are identified: known ones if the rule matches these, and those that no selector selects. */
function narrowedCidr(
  { prefixes, matchesPods, matchesNodes }: Pick<CidrPeer, "prefixes" | "matchesPods" | "matchesNodes">,
  remote: Remote,
): readonly Peer[] {
  const mode = { matchesPods, matchesNodes };
  return [
    cidrPeer(prefixes, { ...mode, beyond: remote.whole }),
    ...(matchesPods || matchesNodes ? [cidrPeer(prefixes, { ...mode, within: "known" })] : []),
    cidrPeer(prefixes, { ...mode, within: "anonymous" }),
  ];
}
