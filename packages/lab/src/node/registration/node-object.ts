import type { Node, NodeCondition } from "@fairlead/kube/api/core/v1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";

/** The Node object that the kubelet writes. Pure. */

export interface NodeFacts {
  readonly name: string;
  /** One per family, the primary one first. */
  readonly addresses: readonly string[];
  readonly podCidrs: readonly string[];
  readonly capacity: Readonly<Record<string, string>>;
  readonly info: Readonly<Record<string, string>>;
  readonly kubeletPort: number;
  /** Full names of the images that the node can run. */
  readonly images: readonly string[];
  readonly zone: string | undefined;
}

export function nodeLabels({ name, zone, info }: NodeFacts): Record<string, string> {
  return {
    "kubernetes.io/hostname": name,
    "kubernetes.io/os": "linux",
    "kubernetes.io/arch": info["architecture"] ?? "",
    "fairlead.dev/node-image": nodeImage(info["kubeletVersion"] ?? ""),
    ...(zone === undefined ? {} : { "topology.kubernetes.io/zone": zone }),
  };
}

/** A node of a lab has nothing but its kubelet: "lab-1.36.0" for "v1.36.0+fairlead". */
function nodeImage(kubeletVersion: string): string {
  return `lab-${kubeletVersion.replace(/^v/, "").replace(/\+.*/, "")}`;
}

export function newNode(facts: NodeFacts): Node {
  const [podCIDR = ""] = facts.podCidrs;
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: facts.name, labels: nodeLabels(facts) },
    spec: { podCIDR, podCIDRs: [...facts.podCidrs] },
  };
}

/** What to merge into the node's metadata, or undefined when it has all. Labels of others stay. */
export function planLabels(
  node: Node,
  facts: NodeFacts,
): { readonly metadata: { readonly labels: Record<string, string> } } | undefined {
  const labels = nodeLabels(facts);
  const isSame = Object.entries(labels).every(([key, value]) => node.metadata.labels?.[key] === value);
  return isSame ? undefined : { metadata: { labels } };
}

const CONDITIONS: readonly (readonly [
  type: string,
  status: "True" | "False",
  reason: string,
  message: string,
])[] = [
  ["MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"],
  ["DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"],
  ["PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"],
  ["Ready", "True", "KubeletReady", "kubelet is posting ready status"],
];

/** The status to write, or undefined if the node already has it. Heartbeats use the Lease, not conditions. */
export function planStatus(
  node: Node,
  facts: NodeFacts,
  nowMs: number,
): NonNullable<Node["status"]> | undefined {
  const before = node.status?.conditions ?? [];
  const own = CONDITIONS.map(([type, status, reason, message]): NodeCondition => {
    const known = before.find((it) => it.type === type);
    if (known?.status === status && known.reason === reason && known.message === message) return known;
    const now = timestamp(nowMs);
    const since = known?.status === status ? (known.lastTransitionTime ?? now) : now;
    return { type, status, reason, message, lastHeartbeatTime: now, lastTransitionTime: since };
  });
  const others = before.filter((it) => !CONDITIONS.some(([type]) => type === it.type));
  const status: NonNullable<Node["status"]> = {
    addresses: [
      ...facts.addresses.map((address) => ({ type: "InternalIP" as const, address })),
      { type: "Hostname", address: facts.name },
    ],
    conditions: [...own, ...others],
    capacity: { ...facts.capacity },
    allocatable: { ...facts.capacity },
    daemonEndpoints: { kubeletEndpoint: { Port: facts.kubeletPort } },
    nodeInfo: { ...facts.info },
    images: facts.images.map((name) => ({ names: [name], sizeBytes: 0 })),
  };
  return sameJson({ ...node.status, ...status }, node.status) ? undefined : status;
}
