import type {
  CiliumEgressRule,
  CiliumIngressRule,
  CiliumNetworkPolicy,
  CiliumPolicySpec,
  CiliumPortRule,
} from "#api/cilium.io/v2/types.ts";
import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import type { Way } from "../model.ts";
import type { Chance } from "./chance.fake.ts";
import {
  APPS,
  CIDRS,
  CLUSTERS,
  expression,
  labelSelector,
  NAMESPACES,
  PORT_NAMES,
  PORTS,
  TEAMS,
} from "./generate.fake.ts";

/** CiliumNetworkPolicy and CiliumClusterwideNetworkPolicy by chance. */

type CiliumRule = CiliumIngressRule & CiliumEgressRule;

export function ciliumPolicy(chance: Chance, name: string, hasNamespace: boolean): CiliumNetworkPolicy {
  const namespace = hasNamespace ? chance.one(NAMESPACES) : undefined;
  const spec = (): CiliumPolicySpec => specOf(chance, namespace);
  return {
    metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
    ...(chance.is(0.8) ? { spec: spec() } : { specs: chance.some(1, 2, spec) }),
  };
}

function specOf(chance: Chance, namespace: string | undefined): CiliumPolicySpec {
  const lists = (["ingress", "ingressDeny", "egress", "egressDeny"] as const).filter(() => chance.is(0.45));
  const rules = (list: (typeof lists)[number]): CiliumRule[] =>
    chance.some(0, 2, () =>
      ruleOf(chance, list.startsWith("ingress") ? "ingress" : "egress", list.endsWith("Deny")),
    );
  return {
    ...(namespace === undefined && chance.is(0.3)
      ? { nodeSelector: nodeSelector(chance) }
      : { endpointSelector: subject(chance, namespace) }),
    ...Object.fromEntries(lists.map((it) => [it, rules(it)])),
    ...chance.maybe(0.3, () => ({
      enableDefaultDeny: {
        ...chance.maybe(0.6, () => ({ ingress: chance.is(0.5) })),
        ...chance.maybe(0.6, () => ({ egress: chance.is(0.5) })),
      },
    })),
    ...chance.maybe(0.1, () => ({
      description: "why",
      labels: [{ key: "a", value: "b" }],
      log: { value: "x" },
    })),
  };
}

function prefixed(chance: Chance, key: string): string {
  return chance.one(["", "", "k8s:", "any:"]) + key;
}

function subject(chance: Chance, namespace: string | undefined): LabelSelector {
  if (chance.is(0.3)) return {};
  const derived =
    namespace === undefined
      ? chance.one([
          { "io.kubernetes.pod.namespace": chance.one(NAMESPACES) },
          { "io.cilium.k8s.namespace.labels.team": chance.one(TEAMS) },
        ])
      : { "k8s:io.kubernetes.pod.namespace": namespace };
  return chance.is(0.3) ? { matchLabels: derived } : labelSelector(chance, true);
}

function nodeSelector(chance: Chance): LabelSelector {
  return chance.is(0.4)
    ? {}
    : {
        matchLabels: chance.is(0.5) ? { pool: "x" } : { "kubernetes.io/hostname": chance.one(["n0", "n1"]) },
      };
}

function peerNode(chance: Chance): LabelSelector {
  return chance.is(0.3)
    ? { matchExpressions: [expression(chance, "io.cilium.k8s.policy.cluster", CLUSTERS)] }
    : nodeSelector(chance);
}

function endpoint(chance: Chance): LabelSelector {
  if (chance.is(0.05)) return { matchLabels: { "reserved:host": "" } };
  if (chance.is(0.15)) return {};
  const labels: readonly [number, string, readonly string[]][] = [
    [0.6, "app", APPS],
    [0.3, "io.kubernetes.pod.namespace", NAMESPACES],
    [0.2, "io.cilium.k8s.policy.cluster", CLUSTERS],
    [0.1, "io.cilium.k8s.policy.serviceaccount", ["robot"]],
    [0.1, "io.cilium.k8s.namespace.labels.team", TEAMS],
  ];
  const pairs = labels.filter(([probability]) => chance.is(probability));
  return {
    matchLabels: Object.fromEntries(
      pairs.map(([, key, values]) => [prefixed(chance, key), chance.one(values)]),
    ),
    ...chance.maybe(0.2, () => ({
      matchExpressions: [
        chance.is(0.5)
          ? expression(chance, "io.cilium.k8s.policy.cluster", CLUSTERS)
          : expression(chance, "k8s:tier", ["1", "2"]),
      ],
    })),
  };
}

const ENTITIES = [
  "all",
  "host",
  "remote-node",
  "cluster",
  "world",
  "world-ipv4",
  "world-ipv6",
  "kube-apiserver",
  "none",
  "init",
  "health",
  "ingress",
  "unmanaged",
];
const PATTERNS = ["*.example.com", "**.example.com", "*", "w*w.example.com", "a.*.example.com", "*.com"];

function ruleOf(chance: Chance, way: Way, isDenying: boolean): CiliumRule {
  const peers = chance.is(0.85) ? peersOf(chance, way, isDenying) : {};
  const kind = chance.int(10);
  return {
    ...peers,
    ...(kind < 5 ? { toPorts: chance.some(1, 2, () => portRule(chance, way, isDenying)) } : {}),
    ...(kind === 5 ? { icmps: chance.some(1, 2, () => icmpRule(chance)) } : {}),
    ...(isDenying ? {} : chance.maybe(0.1, () => ({ authentication: { mode: "disabled" as const } }))),
  };
}

function peersOf(chance: Chance, way: Way, isDenying: boolean): CiliumRule {
  const field = (name: string, list: readonly unknown[]): CiliumRule => ({
    [`${way === "ingress" ? "from" : "to"}${name}`]: list,
  });
  const kind = chance.int(way === "ingress" ? 6 : isDenying ? 7 : 8);
  switch (kind) {
    case 0:
    case 1:
      return field(
        "Endpoints",
        chance.some(0, 2, () => endpoint(chance)),
      );
    case 2:
      return field(
        "CIDR",
        chance.some(1, 2, () => chance.one([...CIDRS.map((it) => it.cidr), "8.8.8.8", "fd00:1::1"])),
      );
    case 3:
      return field(
        "CIDRSet",
        chance.some(1, 2, () => cidrRule(chance)),
      );
    case 4:
      return field(
        "Entities",
        chance.some(1, 2, () => chance.one(ENTITIES)),
      );
    case 5:
      return field(
        "Nodes",
        chance.some(1, 2, () => peerNode(chance)),
      );
    case 6:
      return field(
        "Services",
        chance.some(1, 2, () => service(chance)),
      );
    default:
      return field(
        "FQDNs",
        chance.some(1, 2, () =>
          chance.is(0.4)
            ? { matchName: chance.one(["example.com", "WWW.example.com."]) }
            : { matchPattern: chance.one(PATTERNS) },
        ),
      );
  }
}

function cidrRule(chance: Chance): object {
  const kind = chance.int(4);
  if (kind === 0)
    return {
      cidrGroupRef: chance.one(["one", "two", "three"]),
      ...chance.maybe(0.5, () => ({ except: ["10.1.0.0/30", "8.0.0.0/8"] })),
    };
  if (kind === 1) return { cidrGroupSelector: chance.one([{}, { matchLabels: { team: "red" } }]) };
  const { cidr, except } = chance.one(CIDRS);
  return { cidr, ...chance.maybe(0.5, () => ({ except })) };
}

function service(chance: Chance): object {
  const namespace = chance.maybe(0.6, () => ({ namespace: chance.one(["shop", "web"]) }));
  return chance.is(0.6)
    ? { k8sService: { serviceName: chance.one(["cart", "front", "out"]), ...namespace } }
    : { k8sServiceSelector: { selector: chance.one([{}, { matchLabels: { app: "cart" } }]), ...namespace } };
}

function portRule(chance: Chance, way: Way, isDenying: boolean): CiliumPortRule {
  const isDns = way === "egress" && !isDenying && chance.is(0.15);
  if (isDns)
    return {
      ports: [{ port: "53", protocol: "ANY" }],
      rules: { dns: [chance.one([{ matchPattern: "*" }, { matchName: "example.com" }])] },
    };
  return {
    ports: chance.some(1, 2, () => {
      if (chance.is(0.1)) return { protocol: chance.one(["VRRP", "IGMP"]) };
      const port = chance.one([...PORTS, 0]);
      return {
        port: chance.is(0.25) ? chance.one(PORT_NAMES) : String(port),
        ...chance.maybe(0.3, () => ({ endPort: port + chance.int(100) })),
        ...chance.maybe(0.7, () => ({ protocol: chance.one(["TCP", "UDP", "SCTP", "ANY"]) })),
      };
    }),
  };
}

function icmpRule(chance: Chance): NonNullable<CiliumRule["icmps"]>[number] {
  return {
    fields: chance.some(1, 2, () => {
      const family = chance.one(["IPv4", "IPv6"] as const);
      const type =
        family === "IPv4"
          ? chance.one([3, 8, "EchoRequest", "EchoReply"])
          : chance.one([3, 128, "EchoRequest"]);
      return { type, ...(family === "IPv4" && chance.is(0.5) ? {} : { family }) };
    }),
  };
}
