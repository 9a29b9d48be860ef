import type {
  NetworkPolicy,
  NetworkPolicyPeer,
  NetworkPolicyPort,
} from "@fairlead/kube/api/networking/v1/types.ts";
import { ciliumVerdict } from "./oracle-cilium.fake.ts";
import { clusterVerdict } from "./oracle-cluster.fake.ts";
import { fits, isInCluster, isInside, isNamedPort, labelsOf, type Question } from "./oracle-words.fake.ts";
import { type Actor, isOwnNode, isOwnPod, namespaceOf, type World } from "./world.fake.ts";

/**
 * What the manifests say, straight and slowly: the expectation of the tests. It shares no code with the compiler, and knows neither sets nor
 * groups.
 */
export function isAllowed(world: World, question: Question): boolean {
  const { way, subject, peer } = question;
  const [source, destination] = way === "egress" ? [subject, peer] : [peer, subject];
  if (source.kind === "node" && isOwnNode(world, source.node) && isOwnPod(world, destination)) return true;
  return (
    clusterVerdict(world, "Admin", question) ??
    namespacedVerdict(world, question) ??
    clusterVerdict(world, "Baseline", question) ??
    true
  );
}

/** Of NetworkPolicies and Cilium's kinds, which are one tier. */
function namespacedVerdict(world: World, question: Question): boolean | undefined {
  const standard = [...world.networkPolicies.values()].filter((it) => isIsolated(world, it, question));
  const cilium = ciliumVerdict(world, question);
  if (cilium.isDenied) return false;
  if (cilium.isAllowed || standard.some((it) => doesAllow(world, it, question))) return true;
  return cilium.isIsolated || standard.length > 0 ? false : undefined;
}

function isIsolated(
  world: World,
  { metadata, spec = {} }: NetworkPolicy,
  { way, subject }: Question,
): boolean {
  const types = spec.policyTypes ?? [];
  const isIngress = types.length === 0 || types.includes("Ingress");
  const isEgress = types.length === 0 ? (spec.egress ?? []).length > 0 : types.includes("Egress");
  return (
    (way === "ingress" ? isIngress : isEgress) &&
    subject.kind === "pod" &&
    subject.pod.namespace === metadata.namespace &&
    fits(spec.podSelector ?? {}, labelsOf(world, subject))
  );
}

function doesAllow(world: World, { metadata, spec = {} }: NetworkPolicy, question: Question): boolean {
  const rules =
    question.way === "ingress"
      ? (spec.ingress ?? []).map((it) => ({ peers: it.from ?? [], ports: it.ports ?? [] }))
      : (spec.egress ?? []).map((it) => ({ peers: it.to ?? [], ports: it.ports ?? [] }));
  return rules.some(
    ({ peers, ports }) =>
      (peers.length === 0 || peers.some((it) => isPeer(world, it, metadata.namespace, question.peer))) &&
      (ports.length === 0 || ports.some((it) => isPort(it, question))),
  );
}

function isPeer(world: World, peer: NetworkPolicyPeer, namespace: string | undefined, actor: Actor): boolean {
  const { podSelector, namespaceSelector, ipBlock } = peer;
  if (ipBlock !== undefined)
    return (
      isInside(ipBlock.cidr, actor.address) &&
      !(ipBlock.except ?? []).some((it) => isInside(it, actor.address))
    );
  if (actor.kind !== "pod") return false;
  const home = namespaceOf(world, actor.pod);
  if (home === undefined) return false;
  const isHome =
    namespaceSelector === undefined
      ? actor.pod.namespace === namespace
      : fits(namespaceSelector, home.labels);
  const pods = podSelector ?? {};
  return isHome && isInCluster(world, pods, actor.pod) && fits(pods, labelsOf(world, actor));
}

function isPort({ protocol = "TCP", port, endPort }: NetworkPolicyPort, question: Question): boolean {
  const { traffic } = question;
  if (traffic.kind !== "transport" || traffic.protocol !== protocol) return false;
  if (port === undefined) return true;
  if (typeof port === "number") return traffic.port >= port && traffic.port <= (endPort ?? port);
  return isNamedPort(port, question, [protocol]);
}
