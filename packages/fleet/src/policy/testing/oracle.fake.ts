import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import type {
  NetworkPolicy,
  NetworkPolicyPeer,
  NetworkPolicyPort,
} from "@fairlead/kube/api/networking/v1/types.ts";
import { BlockList } from "node:net";
import { formatAddress } from "@fairlead/base/netaddr/address.ts";
import type { Traffic } from "../enforced.ts";
import type { Way } from "../model.ts";
import { type Actor, isOwnNode, namespaceOf, type World } from "./world.fake.ts";

/**
 * What the manifests say, straight and slowly: the expectation of the tests. It shares no code with the compiler, and knows neither sets nor
 * tiers of chains.
 */
export interface Question {
  readonly way: Way;
  /** The end whose policies decide. */
  readonly subject: Actor;
  readonly peer: Actor;
  readonly traffic: Traffic;
}

export function isAllowed(world: World, question: Question): boolean {
  const { way, subject, peer } = question;
  if (way === "ingress" && peer.kind === "node" && isOwnNode(world, peer.node)) return true;
  if (subject.kind !== "pod") return true;
  const isolating = [...world.networkPolicies.values()].filter((it) => isIsolated(world, it, question));
  return isolating.length === 0 || isolating.some((it) => doesAllow(world, it, question));
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
    namespaceOf(world, subject.pod) !== undefined &&
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
  return (
    isHome && isInCluster(world, podSelector ?? {}, actor) && fits(podSelector ?? {}, labelsOf(world, actor))
  );
}

/** Without the label of a cluster, selectors are about pods of the own one, if the network says so. */
export function isInCluster(world: World, selector: LabelSelector, actor: Actor & { kind: "pod" }): boolean {
  const keys = [
    ...Object.keys(selector.matchLabels ?? {}),
    ...(selector.matchExpressions ?? []).map((it) => it.key),
  ];
  const isNamed = keys.some((it) => it.replace(/^(k8s|any):/, "") === "io.cilium.k8s.policy.cluster");
  return isNamed || !world.isLocalByDefault || actor.pod.cluster === world.cluster;
}

/** The labels by which selectors of pods see a pod. */
export function labelsOf(world: World, { pod }: Actor & { kind: "pod" }): Readonly<Record<string, string>> {
  const inherited = Object.entries(namespaceOf(world, pod)?.labels ?? {});
  return {
    ...pod.labels,
    ...Object.fromEntries(inherited.map(([key, value]) => [`io.cilium.k8s.namespace.labels.${key}`, value])),
    "io.kubernetes.pod.namespace": pod.namespace,
    "io.cilium.k8s.policy.cluster": pod.cluster,
    "io.cilium.k8s.policy.serviceaccount": pod.serviceAccount,
  };
}

export function fits(selector: LabelSelector, labels: Readonly<Record<string, string>>): boolean {
  const pairs = Object.entries(selector.matchLabels ?? {});
  return (
    pairs.every(([key, value]) => labels[key] === value) &&
    (selector.matchExpressions ?? []).every(({ key, operator, values = [] }) => {
      const value = labels[key];
      const isThere = value !== undefined;
      if (operator === "Exists") return isThere;
      if (operator === "DoesNotExist") return !isThere;
      const isOne = isThere && values.includes(value);
      return operator === "In" ? isOne : !isOne;
    })
  );
}

function isPort(
  { protocol = "TCP", port, endPort }: NetworkPolicyPort,
  { traffic, way, subject, peer }: Question,
): boolean {
  if (traffic.kind !== "transport" || traffic.protocol !== protocol) return false;
  if (port === undefined) return true;
  if (typeof port === "number") return traffic.port >= port && traffic.port <= (endPort ?? port);
  return isNamedPort(port, traffic, way === "egress" ? peer : subject);
}

export function isNamedPort(
  name: string,
  traffic: Extract<Traffic, { kind: "transport" }>,
  destination: Actor,
): boolean {
  return (
    destination.kind === "pod" &&
    destination.pod.ports.some(
      (it) => it.name === name && it.protocol === traffic.protocol && it.port === traffic.port,
    )
  );
}

export function isInside(cidr: string, address: IpAddress): boolean {
  const [network = "", length] = cidr.split("/");
  const family = typeof address === "number" ? "ipv4" : "ipv6";
  if (network.includes(":") !== (family === "ipv6")) return false;
  const list = new BlockList();
  list.addSubnet(network, Number(length), family);
  return list.check(formatAddress(address), family);
}
