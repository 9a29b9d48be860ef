import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { NamedPort, PolicyPod } from "../model.ts";
import type { Attribute, AttributeReader } from "../selector.ts";
import { pair, presence, type Selectable } from "./selector-index.ts";

/** Pods with equal labels, service account, namespace and cluster. Selectors match identities; there are fewer of them than pods. */
export interface Identity {
  readonly key: string;
  readonly cluster: string;
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly pods: Set<PodEntry>;
}

export interface PodEntry {
  readonly identity: Identity;
  readonly addresses: readonly IpAddress[];
  readonly ports: readonly NamedPort[];
  readonly isLocal: boolean;
}

export function identityKey(pod: PolicyPod): string {
  const labels = Object.keys(pod.labels).toSorted();
  return JSON.stringify([
    pod.cluster,
    pod.namespace,
    pod.serviceAccount,
    ...labels.flatMap((it) => [it, pod.labels[it]]),
  ]);
}

export function namespaceKey(cluster: string, name: string): string {
  return `${cluster}/${name}`;
}

/** @param namespaceLabels Undefined if the namespace is not known: then no selector may be asked. */
export function selectable(
  identity: Identity,
  namespaceLabels: Readonly<Record<string, string>>,
): Selectable {
  const { cluster, namespace, serviceAccount, labels } = identity;
  const tokens = [pair("cluster", cluster), pair("serviceaccount", serviceAccount)];
  for (const [prefix, of] of [["pod:", labels] as const, ["ns:", namespaceLabels] as const])
    for (const key of Object.keys(of)) tokens.push(presence(prefix + key), pair(prefix + key, of[key] ?? ""));
  return { namespace, tokens, read: identityReader(identity, namespaceLabels) };
}

export function identityReader(
  of: Pick<Identity, "cluster" | "namespace" | "serviceAccount" | "labels">,
  namespaceLabels: Readonly<Record<string, string>>,
): AttributeReader {
  return (attribute: Attribute) => {
    if (attribute === "cluster") return of.cluster;
    if (attribute === "namespace") return of.namespace;
    if (attribute === "serviceaccount") return of.serviceAccount;
    if (attribute.startsWith("pod:")) return own(of.labels, attribute.slice("pod:".length));
    return attribute.startsWith("ns:") ? own(namespaceLabels, attribute.slice("ns:".length)) : undefined;
  };
}

export function own(labels: Readonly<Record<string, string>>, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}
