import { type IpAddress, parseAddress } from "@fairlead/base/netaddr/address.ts";
import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import type {
  NetworkPolicy,
  NetworkPolicyPeer,
  NetworkPolicyPort,
} from "@fairlead/kube/api/networking/v1/types.ts";
import type { Traffic } from "../enforced.ts";
import type { NamedPort, PolicyNode, PolicyPod } from "../model.ts";
import type { Chance } from "./chance.fake.ts";
import type { World } from "./world.fake.ts";

/** Worlds and policies by chance: few names, so that much of it meets. */

export const CLUSTERS = ["a", "b", "c"];
export const NAMESPACES = ["shop", "web", "db"];
export const APPS = ["cart", "front", "api"];
export const PORT_NAMES = ["http", "dns"];
export const PORTS = [53, 80, 443, 8080];
export const ACCOUNTS = ["default", "robot"];
export const TEAMS = ["red", "blue"];
export const EXTERNAL: readonly IpAddress[] = ["8.8.8.8", "10.9.0.1", "2001:db8::8"].map(parseAddress);

const NAMES: World["names"] = new Map([
  ["www.example.com", [parseAddress("8.8.8.8"), parseAddress("2001:db8::8")]],
  ["a.b.example.com", [parseAddress("10.9.0.1"), parseAddress("10.1.0.2")]],
  ["example.com", [parseAddress("192.168.0.1")]],
]);

function newCidrGroups(): World["cidrGroups"] {
  return [
    {
      metadata: { name: "one", labels: { team: "red" } },
      spec: { externalCIDRs: ["8.8.8.0/24", "10.1.0.0/16"] },
    },
    { metadata: { name: "two" }, spec: { externalCIDRs: ["10.9.0.0/16", "2001:db8::/32", "fd00::/16"] } },
  ];
}

function newServices(): World["services"] {
  return [
    { namespace: "shop", name: "cart", labels: { app: "cart" }, selector: { app: "cart" }, addresses: [] },
    { namespace: "web", name: "front", labels: {}, selector: { app: "front", tier: "1" }, addresses: [] },
    {
      namespace: "shop",
      name: "out",
      labels: { app: "cart" },
      addresses: ["8.8.8.8", "10.2.0.3"].map(parseAddress),
    },
  ];
}

export function newWorld(chance: Chance, network: World["network"]): World {
  const world: World = {
    cluster: "a",
    node: "n0",
    isLocalByDefault: chance.is(0.5),
    network,
    pods: new Map(),
    namespaces: new Map(),
    nodes: new Map(),
    networkPolicies: new Map(),
    ciliumPolicies: new Map(),
    clusterPolicies: new Map(),
    cidrGroups: [],
    services: [],
    apiServers: [parseAddress("192.168.0.2"), parseAddress("fd01::2")],
    names: NAMES,
    cidrMatchesPods: chance.is(0.3),
    cidrMatchesNodes: chance.is(0.3),
  };
  world.cidrGroups.push(...newCidrGroups());
  world.services.push(...newServices());
  for (const cluster of CLUSTERS) for (const name of NAMESPACES) setNamespace(world, chance, cluster, name);
  for (const cluster of CLUSTERS) for (const name of ["n0", "n1"]) setNode(world, chance, cluster, name);
  for (let index = 0; index < 8; index++) setPod(world, chance);
  return world;
}

export function setNamespace(world: World, chance: Chance, cluster: string, name: string): void {
  const labels = {
    "kubernetes.io/metadata.name": name,
    ...chance.maybe(0.7, () => ({ team: chance.one(TEAMS) })),
  };
  world.namespaces.set(`${cluster}/${name}`, { cluster, name, labels });
}

export function setNode(world: World, chance: Chance, cluster: string, name: string): PolicyNode {
  const number = CLUSTERS.indexOf(cluster) * 10 + Number(name.slice(1));
  const labels = {
    "kubernetes.io/hostname": name,
    ...chance.maybe(0.5, () => ({ pool: chance.one(["x", "y"]) })),
  };
  const node = {
    cluster,
    name,
    labels,
    addresses: [parseAddress(`192.168.0.${number + 1}`), parseAddress(`fd01::${number + 1}`)],
  };
  world.nodes.set(`${cluster}/${name}`, node);
  return node;
}

/** Adds a pod, or changes or moves one. The addresses of a name are always the same, so that none is in use twice. */
export function setPod(world: World, chance: Chance): PolicyPod {
  const cluster = chance.is(0.5) ? "a" : chance.one(CLUSTERS);
  const namespace = chance.one(NAMESPACES);
  const number = chance.int(4);
  const name = `p${number}`;
  const host = NAMESPACES.indexOf(namespace) * 4 + number + 1;
  const net = CLUSTERS.indexOf(cluster) + 1;
  const pod: PolicyPod = {
    cluster,
    namespace,
    name,
    labels: podLabels(chance),
    serviceAccount: chance.one(ACCOUNTS),
    addresses: addressesOf(world, { cluster, net, host }).slice(0, chance.is(0.8) ? undefined : 1),
    ports: portsOf(chance),
    ...(cluster === "a" ? { node: chance.is(0.7) ? "n0" : "n1" } : {}),
  };
  world.pods.set(`${cluster}/${namespace}/${name}`, pod);
  return pod;
}

/** In no world is an address that of two pods. Rules of CIDRs are about fleet addresses, too. */
function addressesOf(
  { network, cluster: own }: World,
  { cluster, net, host }: { readonly cluster: string; readonly net: number; readonly host: number },
): readonly IpAddress[] {
  const plugin = [`10.${net}.0.${host}`, `fd00:${net}::${host}`];
  const fleet = [`10.112.${net}.${host}`, `fd00:112:${net}::${host}`];
  const all = network === "flat" ? plugin : cluster === own ? [...plugin, ...fleet] : fleet;
  return all.map(parseAddress);
}

function podLabels(chance: Chance): Record<string, string> {
  return {
    ...chance.maybe(0.9, () => ({ app: chance.one(APPS) })),
    ...chance.maybe(0.4, () => ({ tier: chance.one(["1", "2"]) })),
    // Nothing but the object itself says of which cluster a pod is.
    ...chance.maybe(0.1, () => ({ "io.cilium.k8s.policy.cluster": chance.one(CLUSTERS) })),
  };
}

function portsOf(chance: Chance): readonly NamedPort[] {
  return PORT_NAMES.filter(() => chance.is(0.6)).map((name) => ({
    name,
    protocol: name === "dns" ? "UDP" : "TCP",
    port: chance.one(PORTS),
  }));
}

export function traffic(chance: Chance): Traffic {
  const kind = chance.int(12);
  if (kind === 0) return { kind: "icmp", type: chance.one([0, 3, 8, 128]) };
  if (kind === 1) return { kind: "protocol", number: chance.one([2, 112, 47]) };
  return {
    kind: "transport",
    protocol: chance.one(["TCP", "TCP", "UDP", "SCTP"] as const),
    port: chance.one([...PORTS, 81, 9999]),
  };
}

export function labelSelector(chance: Chance, hasCluster: boolean): LabelSelector {
  return {
    ...chance.maybe(0.5, () => ({
      matchLabels: {
        ...chance.maybe(0.7, () => ({ app: chance.one(APPS) })),
        ...chance.maybe(0.2, () => ({ tier: "1" })),
        ...(hasCluster
          ? chance.maybe(0.3, () => ({ "io.cilium.k8s.policy.cluster": chance.one(CLUSTERS) }))
          : {}),
      },
    })),
    ...chance.maybe(0.35, () => ({
      matchExpressions: chance.some(1, 2, () => {
        const key =
          hasCluster && chance.is(0.3) ? "io.cilium.k8s.policy.cluster" : chance.one(["app", "tier"]);
        const values = key === "app" ? APPS : key === "tier" ? ["1", "2"] : CLUSTERS;
        return expression(chance, key, values);
      }),
    })),
  };
}

export function expression(
  chance: Chance,
  key: string,
  values: readonly string[],
): NonNullable<LabelSelector["matchExpressions"]>[number] {
  const operator = chance.one(["In", "NotIn", "Exists", "DoesNotExist"] as const);
  if (operator === "Exists" || operator === "DoesNotExist") return { key, operator };
  return { key, operator, values: chance.some(1, 2, () => chance.one(values)) };
}

export function namespaceSelector(chance: Chance): LabelSelector {
  return {
    ...chance.maybe(0.5, () => ({
      matchLabels: chance.is(0.5)
        ? { team: chance.one(TEAMS) }
        : { "kubernetes.io/metadata.name": chance.one(NAMESPACES) },
    })),
    ...chance.maybe(0.2, () => ({ matchExpressions: [expression(chance, "team", TEAMS)] })),
  };
}

export const CIDRS: readonly { readonly cidr: string; readonly except: readonly string[] }[] = [
  { cidr: "10.0.0.0/8", except: ["10.1.0.0/16", "10.2.0.4/30"] },
  { cidr: "10.1.0.7/16", except: ["10.1.0.2/32"] },
  { cidr: "0.0.0.0/0", except: ["10.0.0.0/8", "8.8.8.0/24"] },
  { cidr: "::/0", except: ["fd00:1::/32", "fd00:2::4/126"] },
  { cidr: "fd00::/16", except: ["fd00:1::/32"] },
  { cidr: "10.112.0.0/14", except: ["10.112.2.0/24"] },
  { cidr: "192.168.0.0/24", except: ["192.168.0.1/32"] },
];

function networkPeer(chance: Chance): NetworkPolicyPeer {
  if (chance.is(0.3)) {
    const { cidr, except } = chance.one(CIDRS);
    return {
      ipBlock: { cidr, ...chance.maybe(0.5, () => ({ except: except.filter(() => chance.is(0.7)) })) },
    };
  }
  const hasPods = chance.is(0.6);
  return {
    ...(hasPods ? { podSelector: labelSelector(chance, true) } : {}),
    ...(!hasPods || chance.is(0.5) ? { namespaceSelector: namespaceSelector(chance) } : {}),
  };
}

function networkPort(chance: Chance): NetworkPolicyPort {
  const protocol = chance.maybe(0.5, () => ({ protocol: chance.one(["TCP", "UDP", "SCTP"] as const) }));
  if (chance.is(0.2)) return protocol;
  if (chance.is(0.3)) return { ...protocol, port: chance.one(PORT_NAMES) };
  const port = chance.one(PORTS);
  return { ...protocol, port, ...chance.maybe(0.3, () => ({ endPort: port + chance.int(100) })) };
}

export function networkPolicy(chance: Chance, name: string): NetworkPolicy {
  const peers = (): NetworkPolicyPeer[] => chance.some(0, 3, () => networkPeer(chance));
  const ports = (): object =>
    chance.maybe(0.6, () => ({ ports: chance.some(0, 2, () => networkPort(chance)) }));
  return {
    metadata: { name, namespace: chance.one(NAMESPACES) },
    spec: {
      podSelector: chance.is(0.3) ? {} : labelSelector(chance, true),
      ...chance.maybe(0.6, () => ({
        policyTypes: (["Ingress", "Egress"] as const).filter(() => chance.is(0.6)),
      })),
      ...chance.maybe(0.7, () => ({
        ingress: chance.some(0, 2, () => ({ ...chance.maybe(0.8, () => ({ from: peers() })), ...ports() })),
      })),
      ...chance.maybe(0.6, () => ({
        egress: chance.some(0, 2, () => ({ ...chance.maybe(0.8, () => ({ to: peers() })), ...ports() })),
      })),
    },
  };
}
