import type {
  ClusterNetworkPolicy,
  ClusterPolicyPeer,
  ClusterPolicyProtocol,
  ClusterPolicyRule,
} from "#api/policy.networking.k8s.io/v1alpha2/types.ts";
import type { Way } from "../model.ts";
import type { Chance } from "./chance.fake.ts";
import {
  CIDRS,
  CLUSTERS,
  expression,
  labelSelector,
  namespaceSelector,
  PORT_NAMES,
  PORTS,
} from "./generate.fake.ts";

/** ClusterNetworkPolicy by chance. Policies of a tier have different priorities: what equal ones mean is undefined. */
export function clusterPolicy(chance: Chance, name: string, number: number): ClusterNetworkPolicy {
  const pods = () => ({
    namespaceSelector: namespaceSelector(chance),
    podSelector: labelSelector(chance, true),
  });
  const rules = (way: Way): ClusterPolicyRule[] => chance.some(0, 3, () => ruleOf(chance, way));
  return {
    metadata: { name },
    spec: {
      tier: chance.one(["Admin", "Baseline"]),
      priority: number * 10 + chance.int(10),
      subject: chance.is(0.5) ? { namespaces: namespaceSelector(chance) } : { pods: pods() },
      ...chance.maybe(0.7, () => ({ ingress: rules("ingress") })),
      ...chance.maybe(0.7, () => ({ egress: rules("egress") })),
    },
  };
}

function ruleOf(chance: Chance, way: Way): ClusterPolicyRule {
  const action = chance.one(["Accept", "Deny", "Pass"] as const);
  const peers = chance.some(1, 2, () => peerOf(chance, way, action === "Accept"));
  return {
    ...chance.maybe(0.3, () => ({ name: "rule" })),
    action,
    ...(way === "ingress" ? { from: peers } : { to: peers }),
    ...chance.maybe(0.6, () => ({ protocols: chance.some(1, 2, () => protocol(chance)) })),
  };
}

function peerOf(chance: Chance, way: Way, isAccepting: boolean): ClusterPolicyPeer {
  switch (chance.int(way === "ingress" ? 3 : isAccepting ? 6 : 5)) {
    case 0:
      return { namespaces: namespaceSelector(chance) };
    case 1:
    case 2:
      return {
        pods: { namespaceSelector: namespaceSelector(chance), podSelector: labelSelector(chance, true) },
      };
    case 3:
      return { networks: chance.some(1, 2, () => chance.one(CIDRS).cidr) };
    case 4:
      return {
        nodes: chance.one([
          {},
          { matchLabels: { pool: "x" } },
          { matchExpressions: [expression(chance, "io.cilium.k8s.policy.cluster", CLUSTERS)] },
        ]),
      };
    default:
      return { domainNames: chance.some(1, 2, () => chance.one(["example.com", "*.example.com", "*.com"])) };
  }
}

function protocol(chance: Chance): ClusterPolicyProtocol {
  if (chance.is(0.25)) return { destinationNamedPort: chance.one(PORT_NAMES) };
  const start = chance.one(PORTS);
  const ports = chance.one([
    {},
    { destinationPort: { number: start } },
    { destinationPort: { range: { start, end: start + chance.int(100) } } },
  ]);
  return { [chance.one(["tcp", "udp", "sctp"])]: ports };
}
