/**
 * Cases as in the conformance suite of the Network Policy API, as data: ClusterNetworkPolicies of both tiers, with NetworkPolicies between
 * them. Pods as in policy-cases.ts.
 */

import type {
  ClusterNetworkPolicy,
  ClusterPolicyRule,
} from "@fairlead/fleet/api/policy.networking.k8s.io/v1alpha2/types.ts";
import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import type { NetworkPolicy } from "@fairlead/kube/api/networking/v1/types.ts";
import type { PolicyCase } from "./policy-cases.ts";

type Spec = NonNullable<ClusterNetworkPolicy["spec"]>;

const house = (...values: string[]): LabelSelector => ({
  matchExpressions: [{ key: "ns", operator: "In", values }],
});
const X = { namespaces: house("x") };
const Y = { namespaces: house("y") };
const Z = { namespaces: house("z") };
const tcp = (number: number) => ({ tcp: { destinationPort: { number } } });
const isX = (it: string): boolean => it.startsWith("x/");
const isY = (it: string): boolean => it.startsWith("y/");
const isZ = (it: string): boolean => it.startsWith("z/");

function admin(name: string, spec: Partial<Spec>): ClusterNetworkPolicy {
  return { metadata: { name }, spec: { tier: "Admin", priority: 50, subject: X, ...spec } };
}

function baseline(spec: Partial<Spec>): ClusterNetworkPolicy {
  return {
    metadata: { name: "default" },
    spec: { tier: "Baseline", priority: 50, subject: X, ...spec },
  };
}

const rule = (action: ClusterPolicyRule["action"], more: Omit<ClusterPolicyRule, "action">) => ({
  action,
  ...more,
});
const EVERY = { namespaces: {} };

/** What a NetworkPolicy allows to come to the pods of x. */
function own(...from: NonNullable<NonNullable<NetworkPolicy["spec"]>["ingress"]>): NetworkPolicy {
  return {
    metadata: { namespace: "x", name: "p" },
    spec: { podSelector: {}, policyTypes: ["Ingress"], ingress: from },
  };
}
const FROM_Y = { from: [{ namespaceSelector: house("y") }] };

export const CLUSTER_CASES: readonly PolicyCase[] = [
  {
    name: "decide by the first rule for egress that matches",
    clusterPolicies: [
      admin("p", {
        egress: [
          rule("Accept", { to: [Y], protocols: [tcp(80)] }),
          rule("Deny", { to: [Y] }),
          rule("Accept", { to: [Y] }),
        ],
      }),
    ],
    policies: [],
    allows: (from, to, port) => !isX(from) || !isY(to) || port === 80,
  },
  {
    name: "decide by the first rule for ingress that matches",
    clusterPolicies: [
      admin("p", {
        ingress: [rule("Deny", { from: [Y], protocols: [tcp(81)] }), rule("Accept", { from: [Y, Z] })],
      }),
    ],
    policies: [own()],
    allows: (from, to, port) => !isX(to) || isZ(from) || (isY(from) && port === 80),
  },
  {
    name: "decide by the policy with the lower priority",
    clusterPolicies: [
      admin("b", { priority: 60, ingress: [rule("Accept", { from: [EVERY] })] }),
      admin("a", { priority: 40, ingress: [rule("Deny", { from: [Y] })] }),
    ],
    policies: [],
    allows: (from, to) => !isX(to) || !isY(from),
    change: {
      clusterPolicies: [
        admin("b", { priority: 30, ingress: [rule("Accept", { from: [EVERY] })] }),
        admin("a", { priority: 40, ingress: [rule("Deny", { from: [Y] })] }),
      ],
      allows: () => true,
    },
  },
  {
    name: "leave it to NetworkPolicies what they pass",
    clusterPolicies: [
      admin("p", { ingress: [rule("Pass", { from: [Y] }), rule("Deny", { from: [EVERY] })] }),
      baseline({ ingress: [rule("Deny", { from: [EVERY] })] }),
    ],
    policies: [own(FROM_Y)],
    allows: (from, to) => !isX(to) || isY(from),
    change: { policies: [own()], allows: (_, to) => !isX(to) },
  },
  {
    name: "decide in the baseline tier where no NetworkPolicy selects a pod",
    clusterPolicies: [
      baseline({ ingress: [rule("Accept", { from: [Z] }), rule("Deny", { from: [EVERY] })] }),
    ],
    policies: [],
    allows: (from, to) => !isX(to) || isZ(from),
    change: { policies: [own(FROM_Y)], allows: (from, to) => !isX(to) || isY(from) },
  },
  {
    name: "match pods by CIDRs",
    clusterPolicies: (world) => [
      admin("p", {
        egress: [
          rule("Accept", { to: [{ networks: [`${world.pod("y/a").peer.v4}/32`] }] }),
          rule("Deny", { to: [{ networks: ["0.0.0.0/0", "::/0"] }] }),
        ],
      }),
    ],
    policies: [],
    allows: (from, to) => !isX(from) || to === "y/a",
  },
  {
    name: "match named ports, and ranges",
    clusterPolicies: [
      admin("p", {
        ingress: [
          rule("Deny", { from: [Y], protocols: [{ destinationNamedPort: "serve-81-tcp" }] }),
          rule("Deny", {
            from: [Z],
            protocols: [{ tcp: { destinationPort: { range: { start: 70, end: 80 } } } }],
          }),
        ],
      }),
    ],
    policies: [],
    allows: (from, to, port) => !isX(to) || isX(from) || (isY(from) ? port === 80 : port === 81),
  },
  {
    name: "select pods by the labels of both",
    clusterPolicies: [
      admin("p", {
        subject: { pods: { namespaceSelector: house("x", "y"), podSelector: { matchLabels: { pod: "a" } } } },
        ingress: [
          rule("Deny", {
            from: [{ pods: { namespaceSelector: house("z"), podSelector: { matchLabels: { pod: "b" } } } }],
          }),
        ],
      }),
    ],
    policies: [],
    allows: (from, to) => from !== "z/b" || (to !== "x/a" && to !== "y/a"),
  },
  ...(["udp", "sctp"] as const).map((verb): PolicyCase => ({
    name: `match ports of ${verb.toUpperCase()}`,
    verb,
    clusterPolicies: [
      admin("p", {
        egress: [
          rule("Deny", { to: [Y], protocols: [{ [verb]: { destinationPort: { number: 81 } } }, tcp(80)] }),
        ],
      }),
    ],
    policies: [],
    allows: (from, to, port) => !isX(from) || !isY(to) || port === 80,
  })),
];
