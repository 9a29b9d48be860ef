/**
 * The cases of the NetworkPolicy suite of Kubernetes (test/e2e/network/netpol), as data: namespaces x, y and z with pods a, b and
 * c each, which serve ports 80 and 81. Loopback is not looked at.
 */

import type { ClusterNetworkPolicy } from "@fairlead/fleet/api/policy.networking.k8s.io/v1alpha2/types.ts";
import type { NetworkPolicy } from "@fairlead/kube/api/networking/v1/types.ts";
import type { PolicyWorld, Verb } from "./policy-world.ts";

type Spec = NonNullable<NetworkPolicy["spec"]>;
type Peers = NonNullable<NonNullable<Spec["ingress"]>[number]["from"]>;

/** A pod as "x/a". */
export type IsAllowed = (from: string, to: string, port: number, world: PolicyWorld) => boolean;

/** Objects, or what makes them once it is known which addresses pods have. */
type Given<T> = readonly T[] | ((world: PolicyWorld) => readonly T[]);

export interface PolicyCase {
  readonly name: string;
  /** How pods ask. Default: "tcp". */
  readonly verb?: Verb;
  readonly policies: Given<NetworkPolicy>;
  readonly clusterPolicies?: Given<ClusterNetworkPolicy>;
  readonly allows: IsAllowed;
  /** What happens after the policies are there. */
  readonly change?: {
    readonly policies?: readonly NetworkPolicy[];
    readonly clusterPolicies?: readonly ClusterNetworkPolicy[];
    readonly labels?: Readonly<Record<string, Readonly<Record<string, string>>>>;
    readonly namespaceLabels?: Readonly<Record<string, Readonly<Record<string, string>>>>;
    readonly allows: IsAllowed;
  };
}

function policy(name: string, spec: Spec, namespace = "x"): NetworkPolicy {
  return { metadata: { namespace, name }, spec };
}

const pod = (name: string) => ({ podSelector: { matchLabels: { pod: name } } });
const ns = (name: string) => ({ namespaceSelector: { matchLabels: { ns: name } } });
const some = (key: string, operator: "In" | "NotIn", ...values: string[]) => ({
  matchExpressions: [{ key, operator, values }],
});
const EVERY = { podSelector: {} };
const A = pod("a");

function ingress(subject: Spec, ...rules: NonNullable<Spec["ingress"]>): Spec {
  return { ...subject, policyTypes: ["Ingress"], ingress: rules };
}

function egress(subject: Spec, ...rules: NonNullable<Spec["egress"]>): Spec {
  return { ...subject, policyTypes: ["Egress"], egress: rules };
}

const from = (...peers: Peers) => ({ from: peers });
const nsOf = (it: string): string => it.slice(0, 1);
const podOf = (it: string): string => it.slice(2);
/** Others than `subject` are free, as far as ingress goes. */
const onlyFrom =
  (subject: (to: string) => boolean, allows: IsAllowed): IsAllowed =>
  (one, two, port, world) =>
    !subject(two) || allows(one, two, port, world);
const onlyTo =
  (subject: (from: string) => boolean, allows: IsAllowed): IsAllowed =>
  (one, two, port, world) =>
    !subject(one) || allows(one, two, port, world);
const isXA = (it: string): boolean => it === "x/a";
const isX = (it: string): boolean => nsOf(it) === "x";
const always: IsAllowed = () => true;
const never: IsAllowed = () => false;

/** The CIDR of one pod. */
const cidrOf = (world: PolicyWorld, id: string): string => `${world.pod(id).peer.v4}/32`;
const subnetOf = (world: PolicyWorld, id: string): string => world.pod(id).peer.v4.replace(/\.\d+$/, ".0/24");
const isInSubnet = (world: PolicyWorld, id: string, of: string): boolean =>
  subnetOf(world, id) === subnetOf(world, of);

/** The cases that the suite has for other protocols than TCP. */
function ofProtocol(protocol: "UDP" | "SCTP"): readonly PolicyCase[] {
  const verb = protocol === "UDP" ? "udp" : "sctp";
  return [
    {
      name: `deny by default the ${protocol} packets that come to the pods of a namespace`,
      verb,
      policies: [policy("p", ingress(EVERY))],
      allows: onlyFrom(isX, never),
    },
    {
      name: `allow a namespace to one ${protocol} port`,
      verb,
      policies: [policy("p", ingress(A, { from: [ns("y")], ports: [{ protocol, port: 81 }] }))],
      allows: onlyFrom(isXA, (it, _, port) => nsOf(it) === "y" && port === 81),
    },
    {
      name: `allow ${protocol} packets of a pod of another namespace, named by one peer`,
      verb,
      policies: [policy("p", ingress(A, from({ ...ns("y"), ...pod("a") })))],
      allows: onlyFrom(isXA, (it) => it === "y/a"),
    },
  ];
}

export const POLICY_CASES: readonly PolicyCase[] = [
  {
    name: "deny by default what comes to the pods of a namespace",
    policies: [policy("p", ingress(EVERY))],
    allows: onlyFrom(isX, never),
  },
  {
    name: "deny by default everything of the pods of a namespace",
    policies: [policy("p", { ...EVERY, policyTypes: ["Ingress", "Egress"] })],
    allows: (one, two) => !isX(one) && !isX(two),
  },
  {
    name: "allow pods of the own namespace by their labels",
    policies: [policy("p", ingress(A, from(pod("b"))))],
    allows: onlyFrom(isXA, (it) => it === "x/b"),
  },
  {
    name: "allow everything to a target",
    policies: [policy("deny", ingress(EVERY)), policy("p", ingress(A, {}))],
    allows: onlyFrom(isX, (_, to) => isXA(to)),
  },
  {
    name: "allow all pods of the own namespace to a target",
    policies: [policy("deny", ingress(EVERY)), policy("p", ingress(A, from({ podSelector: {} })))],
    allows: onlyFrom(isX, (it, to) => isXA(to) && isX(it)),
  },
  {
    name: "allow pods of all namespaces",
    policies: [policy("p", ingress(A, from({ namespaceSelector: {} })))],
    allows: always,
  },
  {
    name: "allow a namespace by its labels",
    policies: [policy("p", ingress(A, from(ns("y"))))],
    allows: onlyFrom(isXA, (it) => nsOf(it) === "y"),
  },
  {
    name: "allow pods by an expression",
    policies: [policy("p", ingress(A, from({ podSelector: some("pod", "In", "b") })))],
    allows: onlyFrom(isXA, (it) => it === "x/b"),
  },
  {
    name: "allow namespaces by an expression",
    policies: [policy("p", ingress(A, from({ namespaceSelector: some("ns", "In", "y") })))],
    allows: onlyFrom(isXA, (it) => nsOf(it) === "y"),
  },
  {
    name: "allow pods or namespaces, named by two peers",
    policies: [
      policy(
        "p",
        ingress(
          A,
          from({ podSelector: some("pod", "In", "b") }, { namespaceSelector: some("ns", "NotIn", "x") }),
        ),
      ),
    ],
    allows: onlyFrom(isXA, (it) => it === "x/b" || !isX(it)),
  },
  {
    name: "allow pods in namespaces, named by one peer",
    policies: [policy("p", ingress(A, from({ namespaceSelector: some("ns", "NotIn", "x"), ...pod("b") })))],
    allows: onlyFrom(isXA, (it) => !isX(it) && podOf(it) === "b"),
  },
  {
    name: "allow several pods and namespaces, named by one peer",
    policies: [
      policy(
        "p",
        ingress(
          A,
          from({ namespaceSelector: some("ns", "NotIn", "x"), podSelector: some("pod", "In", "b", "c") }),
        ),
      ),
    ],
    allows: onlyFrom(isXA, (it) => !isX(it) && podOf(it) !== "a"),
  },
  {
    name: "allow any of several selectors of pods",
    policies: [policy("p", ingress(A, from(pod("b"), pod("c"))))],
    allows: onlyFrom(isXA, isX),
  },
  {
    name: "allow only another namespace",
    policies: [policy("p", ingress(EVERY, from(ns("y"))))],
    allows: onlyFrom(isX, (it) => nsOf(it) === "y"),
  },
  {
    name: "allow a port",
    policies: [policy("p", ingress(A, { ...from(ns("y")), ports: [{ port: 81 }] }))],
    allows: onlyFrom(isXA, (it, _, port) => nsOf(it) === "y" && port === 81),
  },
  {
    name: "allow several ports by stacked policies",
    policies: [
      policy("one", ingress(A, { ports: [{ port: 80 }] })),
      policy("two", ingress(A, { ...from(ns("y")), ports: [{ port: 81 }] })),
    ],
    allows: onlyFrom(isXA, (it, _, port) => port === 80 || nsOf(it) === "y"),
  },
  {
    name: "allow everything",
    policies: [policy("p", ingress(EVERY, {}))],
    allows: always,
  },
  {
    name: "allow one named port to come",
    policies: [policy("p", ingress(A, { ports: [{ port: "serve-81-tcp" }] }))],
    allows: onlyFrom(isXA, (_, __, port) => port === 81),
  },
  {
    name: "allow a namespace to one named port",
    policies: [policy("p", ingress(A, { ...from(ns("y")), ports: [{ port: "serve-80-tcp" }] }))],
    allows: onlyFrom(isXA, (it, _, port) => nsOf(it) === "y" && port === 80),
  },
  {
    name: "allow one named port to be left for",
    policies: [policy("p", egress(A, { ports: [{ port: "serve-80-tcp" }] }))],
    allows: onlyTo(isXA, (_, __, port) => port === 80),
  },
  {
    name: "are updated",
    policies: [policy("p", ingress(EVERY, {}))],
    allows: always,
    change: { policies: [policy("p", ingress(EVERY))], allows: onlyFrom(isX, never) },
  },
  {
    name: "allow a namespace once it has the label",
    policies: [policy("p", ingress(A, from({ namespaceSelector: { matchLabels: { new: "yes" } } })))],
    allows: onlyFrom(isXA, never),
    change: { namespaceLabels: { y: { new: "yes" } }, allows: onlyFrom(isXA, (it) => nsOf(it) === "y") },
  },
  {
    name: "allow a pod once it has the label",
    policies: [policy("p", ingress(A, from({ podSelector: { matchLabels: { new: "yes" } } })))],
    allows: onlyFrom(isXA, never),
    change: { labels: { "x/b": { new: "yes" } }, allows: onlyFrom(isXA, (it) => it === "x/b") },
  },
  {
    name: "deny a pod once it has the label",
    policies: [policy("p", ingress({ podSelector: { matchLabels: { target: "yes" } } }))],
    allows: always,
    change: { labels: { "x/a": { target: "yes" } }, allows: onlyFrom(isXA, never) },
  },
  {
    name: "deny pods of other namespaces",
    policies: [policy("p", ingress(EVERY, from({ podSelector: {} })))],
    allows: onlyFrom(isX, isX),
  },
  {
    name: "deny what a pod sends",
    policies: [policy("p", egress(A))],
    allows: onlyTo(isXA, never),
  },
  {
    name: "deny what all pods of a namespace send",
    policies: [policy("p", egress(EVERY))],
    allows: onlyTo(isX, never),
  },
  {
    name: "have both directions in one policy",
    policies: [
      policy("p", {
        ...A,
        policyTypes: ["Ingress", "Egress"],
        ingress: [from(ns("y"))],
        egress: [{ ports: [{ port: 80 }] }],
      }),
    ],
    allows: (one, two, port) => (!isXA(two) || nsOf(one) === "y") && (!isXA(one) || port === 80),
  },
  {
    name: "deny what a client sends although the server allows it",
    policies: [policy("client", egress(A)), policy("server", ingress(A, {}), "y")],
    allows: onlyTo(isXA, never),
  },
  {
    name: "allow a client to send to pods of another namespace only",
    policies: [policy("p", egress(A, { to: [{ ...ns("y"), ...pod("a") }] }))],
    allows: onlyTo(isXA, (_, to) => to === "y/a"),
  },
  {
    name: "allow every port of a protocol",
    policies: [policy("p", ingress(A, { ports: [{ protocol: "TCP" }] }))],
    allows: always,
  },
  {
    name: "allow everything where one of several policies for ingress does",
    policies: [
      policy("deny", ingress(EVERY)),
      policy("some", ingress(A, from(pod("b")))),
      policy("all", ingress(EVERY, {})),
    ],
    allows: always,
  },
  {
    name: "allow everything where one of several policies for egress does",
    policies: [
      policy("deny", egress(EVERY)),
      policy("some", egress(A, { ports: [{ port: 80 }] })),
      policy("all", egress(EVERY, {})),
    ],
    allows: always,
  },
  {
    name: "are no longer enforced when they are deleted",
    policies: [policy("deny", ingress(EVERY)), policy("egress", egress(EVERY))],
    allows: (one, two) => !isX(one) && !isX(two),
    change: { policies: [], allows: always },
  },
  {
    name: "allow to send to a CIDR, in which a pod is",
    policies: (world) => [policy("p", egress(A, { to: [{ ipBlock: { cidr: cidrOf(world, "y/b") } }] }))],
    allows: onlyTo(isXA, (_, to) => to === "y/b"),
  },
  {
    name: "deny the exceptions of a CIDR",
    policies: (world) => [
      policy(
        "p",
        egress(A, { to: [{ ipBlock: { cidr: subnetOf(world, "y/b"), except: [cidrOf(world, "y/b")] } }] }),
      ),
    ],
    allows: onlyTo(isXA, (_, to, __, world) => isInSubnet(world, to, "y/b") && to !== "y/b"),
  },
  {
    name: "allow an exception of one CIDR that another CIDR has",
    policies: (world) => [
      policy(
        "p",
        egress(A, { to: [{ ipBlock: { cidr: subnetOf(world, "y/b"), except: [cidrOf(world, "y/b")] } }] }),
      ),
      policy("q", egress(A, { to: [{ ipBlock: { cidr: cidrOf(world, "y/b") } }] })),
    ],
    allows: onlyTo(isXA, (_, to, __, world) => isInSubnet(world, to, "y/b")),
  },
  {
    name: "allow to come from a CIDR, without an exception",
    policies: (world) => [
      policy("p", ingress(A, from({ ipBlock: { cidr: "10.244.0.0/16", except: [subnetOf(world, "y/b")] } }))),
    ],
    allows: onlyFrom(isXA, (it, _, __, world) => !isInSubnet(world, it, "y/b")),
  },
  {
    name: "control ingress and egress of a pod independently",
    policies: [policy("in", ingress(A, from(pod("b")))), policy("out", egress(A, { to: [pod("c")] }))],
    allows: (one, two) => (!isXA(two) || one === "x/b") && (!isXA(one) || two === "x/c"),
  },
  {
    name: "isolate a pod from which a policy allows SCTP only",
    policies: [policy("p", ingress(A, { ports: [{ protocol: "SCTP", port: 80 }] }))],
    allows: onlyFrom(isXA, never),
  },
  {
    name: "do not take SCTP for TCP",
    policies: [
      policy("deny", ingress(EVERY)),
      policy(
        "p",
        ingress(A, {
          ports: [
            { protocol: "SCTP", port: 81 },
            { protocol: "TCP", port: 80 },
          ],
        }),
      ),
    ],
    allows: onlyFrom(isX, (_, to, port) => isXA(to) && port === 80),
  },
  {
    name: "deny TCP where a policy allows UDP only",
    policies: [policy("p", ingress(A, { ports: [{ protocol: "UDP", port: 81 }] }))],
    allows: onlyFrom(isXA, never),
  },
  {
    name: "allow a namespace by the label that every namespace has",
    policies: [
      policy(
        "p",
        ingress(A, from({ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "y" } } })),
      ),
    ],
    allows: onlyFrom(isXA, (it) => nsOf(it) === "y"),
  },
  {
    name: "allow namespaces by an expression on the label that every namespace has",
    policies: [
      policy("p", ingress(A, from({ namespaceSelector: some("kubernetes.io/metadata.name", "NotIn", "x") }))),
    ],
    allows: onlyFrom(isXA, (it) => !isX(it)),
  },
  ...(["UDP", "SCTP"] as const).flatMap((protocol) => ofProtocol(protocol)),
  {
    name: "allow one named UDP port to come",
    verb: "udp",
    policies: [policy("p", ingress(A, { ports: [{ protocol: "UDP", port: "serve-80-udp" }] }))],
    allows: onlyFrom(isXA, (_, __, port) => port === 80),
  },
  {
    name: "deny UDP where a policy allows TCP only",
    verb: "udp",
    policies: [policy("p", ingress(A, { ports: [{ protocol: "TCP" }] }))],
    allows: onlyFrom(isXA, never),
  },
  {
    name: "allow a range of ports",
    policies: [policy("p", ingress(A, { ports: [{ port: 81, endPort: 90 }] }))],
    allows: onlyFrom(isXA, (_, __, port) => port === 81),
  },
];
