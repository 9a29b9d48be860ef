import type {
  ClusterPolicyPeer,
  ClusterPolicyProtocol,
  SelectedPods,
} from "#api/policy.networking.k8s.io/v1alpha2/types.ts";
import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import { fits, isInCluster, isInside, isNamedPort, labelsOf, type Question } from "./oracle-words.fake.ts";
import { doesNameMatch } from "./oracle-cilium.fake.ts";
import { type Actor, namespaceOf, type World } from "./world.fake.ts";

/** ClusterNetworkPolicy, as manifests. Undefined: the tier leaves it to the next one. */
export function clusterVerdict(
  world: World,
  tier: "Admin" | "Baseline",
  question: Question,
): boolean | undefined {
  const policies = [...world.clusterPolicies.values()]
    .filter(({ spec }) => spec?.tier === tier && isSelected(world, spec.subject, question.subject))
    .toSorted((a, b) => (a.spec?.priority ?? 0) - (b.spec?.priority ?? 0));
  const rules = policies.flatMap(
    ({ spec }) => (question.way === "ingress" ? spec?.ingress : spec?.egress) ?? [],
  );
  const first = rules.find(
    ({ from = [], to = [], protocols }) =>
      [...from, ...to].some((it) => doesMatch(world, it, question.peer)) &&
      (protocols === undefined || protocols.some((it) => isPort(it, question))),
  );
  return first === undefined || first.action === "Pass" ? undefined : first.action === "Accept";
}

function isSelected(
  world: World,
  { namespaces, pods }: { readonly namespaces?: LabelSelector; readonly pods?: SelectedPods },
  actor: Actor,
): boolean {
  if (actor.kind !== "pod") return false;
  const home = namespaceOf(world, actor.pod)?.labels;
  if (home === undefined) return false;
  if (namespaces !== undefined) return fits(namespaces, home);
  return (
    pods !== undefined && fits(pods.namespaceSelector, home) && fits(pods.podSelector, labelsOf(world, actor))
  );
}

function doesMatch(world: World, peer: ClusterPolicyPeer, actor: Actor): boolean {
  const { nodes, networks, domainNames, pods } = peer;
  if (networks !== undefined) return networks.some((it) => isInside(it, actor.address));
  if (nodes !== undefined)
    return (
      actor.kind === "node" &&
      isInCluster(world, nodes, actor.node) &&
      fits(nodes, { ...actor.node.labels, "io.cilium.k8s.policy.cluster": actor.node.cluster })
    );
  if (domainNames !== undefined)
    return (
      actor.kind === "external" &&
      [...world.names].some(
        ([name, addresses]) =>
          addresses.includes(actor.address) &&
          domainNames.some((it) => doesNameMatch(name, it.replace(/^\*\./, "**."))),
      )
    );
  return (
    actor.kind === "pod" &&
    isInCluster(world, pods?.podSelector ?? {}, actor.pod) &&
    isSelected(world, peer, actor)
  );
}

function isPort(protocol: ClusterPolicyProtocol, question: Question): boolean {
  const { traffic } = question;
  if (traffic.kind !== "transport") return false;
  if (protocol.destinationNamedPort !== undefined)
    return isNamedPort(protocol.destinationNamedPort, question, ["TCP", "UDP", "SCTP"]);
  const ports = { TCP: protocol.tcp, UDP: protocol.udp, SCTP: protocol.sctp }[traffic.protocol];
  if (ports === undefined) return false;
  const { number, range } = ports.destinationPort ?? {};
  if (range !== undefined) return traffic.port >= range.start && traffic.port <= range.end;
  return number === undefined || traffic.port === number;
}
