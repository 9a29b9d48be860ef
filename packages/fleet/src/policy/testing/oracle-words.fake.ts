import { formatAddress, type IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import { BlockList } from "node:net";
import type { Traffic } from "../enforced.ts";
import type { Way } from "../model.ts";
import { type Actor, namespaceOf, type World } from "./world.fake.ts";

/** What the oracles of all kinds share. */

export interface Question {
  readonly way: Way;
  /** The end whose policies decide. */
  readonly subject: Actor;
  readonly peer: Actor;
  readonly traffic: Traffic;
}

const CLUSTER = "io.cilium.k8s.policy.cluster";

/** Without the label of a cluster, selectors are about pods and nodes of the own one, if the network says so. */
export function isInCluster(
  world: World,
  selector: LabelSelector,
  of: { readonly cluster: string },
): boolean {
  const keys = [
    ...Object.keys(selector.matchLabels ?? {}),
    ...(selector.matchExpressions ?? []).map((it) => it.key),
  ];
  return keys.some((it) => plain(it) === CLUSTER) || !world.isLocalByDefault || of.cluster === world.cluster;
}

function plain(key: string): string {
  return key.replace(/^(?:k8s|any):/, "");
}

/** The labels by which selectors of pods see a pod. */
export function labelsOf(world: World, { pod }: Actor & { kind: "pod" }): Readonly<Record<string, string>> {
  const inherited = Object.entries(namespaceOf(world, pod)?.labels ?? {});
  return {
    ...pod.labels,
    ...Object.fromEntries(inherited.map(([key, value]) => [`io.cilium.k8s.namespace.labels.${key}`, value])),
    "io.kubernetes.pod.namespace": pod.namespace,
    [CLUSTER]: pod.cluster,
    "io.cilium.k8s.policy.serviceaccount": pod.serviceAccount,
  };
}

export function fits(selector: LabelSelector, labels: Readonly<Record<string, string>>): boolean {
  const pairs = Object.entries(selector.matchLabels ?? {});
  return (
    pairs.every(([key, value]) => labels[plain(key)] === value) &&
    (selector.matchExpressions ?? []).every(({ key, operator, values = [] }) => {
      const value = labels[plain(key)];
      const isThere = value !== undefined;
      if (operator === "Exists") return isThere;
      if (operator === "DoesNotExist") return !isThere;
      const isOne = isThere && values.includes(value);
      return operator === "In" ? isOne : !isOne;
    })
  );
}

export function isNamedPort(
  name: string,
  { traffic, way, subject, peer }: Question,
  protocols: readonly string[],
): boolean {
  const destination = way === "egress" ? peer : subject;
  return (
    destination.kind === "pod" &&
    traffic.kind === "transport" &&
    protocols.includes(traffic.protocol) &&
    destination.pod.ports.some(
      (it) => it.name === name && it.protocol === traffic.protocol && it.port === traffic.port,
    )
  );
}

export function isInside(cidr: string, address: IpAddress): boolean {
  const family = typeof address === "number" ? "ipv4" : "ipv6";
  const bits = family === "ipv4" ? 32 : 128;
  const [network = "", length = String(bits)] = cidr.split("/");
  if (network.includes(":") !== (family === "ipv6")) return false;
  const list = new BlockList();
  list.addSubnet(network, Number(length), family);
  return list.check(formatAddress(address), family);
}
