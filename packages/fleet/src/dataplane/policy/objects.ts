import { defined } from "@fairlead/base/defined.ts";
import { type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { byText } from "@fairlead/base/text.ts";
import type { IdentitySlice } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { labelsOfPod } from "#domain/identity-slice.ts";
import type { NamedPort, PolicyNamespace, PolicyNode, PolicyPod } from "#policy/model.ts";
import type { Container, Namespace, Node, Pod } from "@fairlead/kube/api/core/v1/types.ts";

/** Objects of the API as policies see them. Pure. */

/** Undefined: not a pod to policies. Its traffic is that of the node, or there is none. */
export function podOf(
  pod: Pod,
  cluster: string,
  fleetAddresses: readonly string[] = [],
): PolicyPod | undefined {
  const { metadata, spec } = pod;
  const addresses = addressesOf(pod, fleetAddresses);
  if (addresses.length === 0) return undefined;
  return {
    cluster,
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    labels: metadata.labels ?? {},
    serviceAccount: spec?.serviceAccountName ?? "default",
    addresses,
    ports: namedPorts(pod),
    ...defined({ node: spec?.nodeName }),
  };
}

function addressesOf({ spec, status }: Pod, fleetAddresses: readonly string[]): readonly IpAddress[] {
  const hasEnded = status?.phase === "Succeeded" || status?.phase === "Failed";
  if (spec?.hostNetwork === true || hasEnded) return [];
  return parsed([...(status?.podIPs ?? []).map((it) => it.ip), ...fleetAddresses]);
}

/** Each node holds the pods of the whole cluster: what policies see of them, and no more. */
export function trimmedPod({ metadata, spec, status }: Pod): Pod {
  const { name, namespace, uid, resourceVersion, labels } = metadata;
  const { nodeName, hostNetwork, serviceAccountName, containers = [], initContainers } = spec ?? {};
  const portsOf = (it: Container): Container => ({
    name: it.name,
    image: "",
    ...defined({ ports: it.ports, restartPolicy: it.restartPolicy }),
  });
  return {
    metadata: { name, ...defined({ namespace, uid, resourceVersion, labels }) },
    spec: {
      containers: containers.map(portsOf),
      ...defined({ nodeName, hostNetwork, serviceAccountName, initContainers: initContainers?.map(portsOf) }),
    },
    status: defined({ phase: status?.phase, podIPs: status?.podIPs }),
  };
}

function namedPorts({ spec }: Pod): readonly NamedPort[] {
  // Sidecars are init containers that continue to run.
  const sidecars = (spec?.initContainers ?? []).filter((it) => it.restartPolicy === "Always");
  return [...(spec?.containers ?? []), ...sidecars].flatMap(({ ports = [] }) =>
    ports.flatMap(({ name, protocol = "TCP", containerPort }) =>
      name === undefined ? [] : [{ name, protocol, port: containerPort }],
    ),
  );
}

export function namespaceOf(
  { metadata: { name, labels = {} } }: Namespace,
  cluster: string,
): PolicyNamespace {
  return { cluster, name, labels };
}

export function nodeOf({ metadata: { name, labels = {} }, status }: Node, cluster: string): PolicyNode {
  const addresses = (status?.addresses ?? []).filter((it) => it.type !== "Hostname").map((it) => it.address);
  return { cluster, name, labels, addresses: parsed(addresses) };
}

/** The prefixes of a node's pods, as far as the cluster allocates them. */
export function podCidrsOf(node: Node | undefined): readonly string[] {
  const { podCIDR, podCIDRs } = node?.spec ?? {};
  return podCIDRs ?? (podCIDR === undefined ? [] : [podCIDR]);
}

/** What an IdentitySlice reports of another cluster. */
export interface Reported {
  readonly pods: readonly PolicyPod[];
  readonly namespaces: readonly PolicyNamespace[];
  readonly nodes: readonly PolicyNode[];
  /** Those that no selector of pods selects. */
  readonly addresses: readonly IpAddress[];
}

/** What a member published later comes later. */
export function byPublication(a: IdentitySlice, b: IdentitySlice): number {
  return byText(a.spec.publishedAt, b.spec.publishedAt);
}

export function reportedBy({ spec }: IdentitySlice): Reported {
  const { cluster, namespace = "", labels = {} } = spec;
  const isOf = (type: IdentitySlice["spec"]["type"]): boolean => spec.type === type;
  return {
    pods: (isOf("Pods") ? (spec.pods ?? []) : []).map((it) => ({
      cluster,
      namespace,
      name: it.name,
      labels: labelsOfPod(spec, it),
      serviceAccount: spec.serviceAccount ?? "default",
      addresses: parsed(it.addresses),
      ports: spec.ports ?? [],
    })),
    namespaces: isOf("Namespace") ? [{ cluster, name: namespace, labels }] : [],
    nodes: (isOf("Nodes") ? (spec.nodes ?? []) : []).map((it) => ({
      cluster,
      name: it.name,
      labels: it.labels ?? {},
      addresses: parsed(it.addresses),
    })),
    addresses: isOf("Addresses") ? parsed(spec.addresses ?? []) : [],
  };
}

function parsed(addresses: readonly string[]): readonly IpAddress[] {
  return addresses.flatMap((it) => tryParseAddress(it) ?? []);
}
