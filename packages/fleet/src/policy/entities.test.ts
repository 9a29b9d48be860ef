import { describe, expect, it } from "vitest";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { compilePolicy } from "./compile/compile.ts";
import { Enforced } from "./enforced.ts";
import { Resolver } from "./resolver/resolver.ts";

const SETTINGS = { cluster: "a", isLocalByDefault: true, cidrMatchesPods: false, cidrMatchesNodes: false };
const SERVER = parseAddress("10.1.0.1");
/** What asks the server, by its address. */
const CLIENTS = {
  "a pod of the own cluster": "10.1.0.2",
  "the own node": "192.0.2.1",
  "another node of the own cluster": "192.0.2.2",
  "the own API server": "192.0.2.9",
  "the Internet": "8.8.8.8",
  "a pod of b": "10.2.0.2",
  "a pod of b that calls itself so": "10.2.0.3",
  "a node of b": "198.51.100.1",
  "a node of b that calls itself so": "198.51.100.2",
  "a pod of a cluster that calls itself so": "10.3.0.2",
} as const;
type Client = keyof typeof CLIENTS;

/** The members of an entity, whatever the members of other clusters say of themselves. */
const ENTITIES: Readonly<Record<string, readonly Client[]>> = {
  host: ["the own node"],
  "remote-node": ["another node of the own cluster", "a node of b", "a node of b that calls itself so"],
  "kube-apiserver": ["the own API server"],
  // As in Cilium, remote nodes are a part of it.
  cluster: [
    "a pod of the own cluster",
    "the own node",
    "another node of the own cluster",
    "a node of b",
    "a node of b that calls itself so",
  ],
  world: ["the own API server", "the Internet"],
  "world-ipv4": ["the own API server", "the Internet"],
  "world-ipv6": [],
  none: [],
  init: [],
  health: [],
  ingress: [],
  unmanaged: [],
  all: Object.keys(CLIENTS) as Client[],
};

/** The clients that a policy about an entity admits, while other clusters have pods and nodes with this word at all places. */
function admitted(entity: string, peer: object): readonly string[] {
  const word = entity;
  const resolver = new Resolver({ cluster: "a", node: "n" });
  const labels = {
    [`reserved:${word}`]: "",
    [`reserved.${word}`]: "",
    reserved: word,
    entity: word,
    "io.cilium.k8s.policy.cluster": "a",
    "io.kubernetes.pod.namespace": "shop",
  };
  const pod = (
    cluster: string,
    client: Client,
    [namespace, name]: readonly [string, string],
    own = {},
  ): void => {
    resolver.upsertNamespace({ cluster, name: namespace, labels: own });
    const addresses = [parseAddress(CLIENTS[client])];
    const serviceAccount = own === labels ? word : "default";
    resolver.upsertPod({ cluster, namespace, name, labels: own, serviceAccount, addresses, ports: [] });
  };
  const node = (cluster: string, name: string, client: Client, own = {}): void =>
    resolver.upsertNode({ cluster, name, labels: own, addresses: [parseAddress(CLIENTS[client])] });
  resolver.upsertNamespace({ cluster: "a", name: "shop", labels: {} });
  const server = { cluster: "a", namespace: "shop", name: "server", labels: { app: "server" }, node: "n" };
  resolver.upsertPod({ ...server, serviceAccount: "default", addresses: [SERVER], ports: [] });
  pod("a", "a pod of the own cluster", ["shop", "client"]);
  node("a", "n", "the own node");
  node("a", "m", "another node of the own cluster");
  resolver.setApiServers([parseAddress(CLIENTS["the own API server"])]);
  pod("b", "a pod of b", ["shop", "client"]);
  pod("b", "a pod of b that calls itself so", [word, word], labels);
  node("b", "m", "a node of b");
  // The name of the own node, too.
  node("b", "n", "a node of b that calls itself so", labels);
  pod(word, "a pod of a cluster that calls itself so", [word, word], labels);

  const policy = {
    metadata: { namespace: "shop", name: "p" },
    spec: { endpointSelector: { matchLabels: { app: "server" } }, ingress: [peer] },
  };
  const objects = { cidrGroups: [], services: [] };
  const { policies } = compilePolicy("CiliumNetworkPolicy", policy, SETTINGS, objects);
  for (const it of policies) resolver.upsertPolicy(it);
  const enforced = new Enforced();
  enforced.apply(resolver.take());
  return Object.entries(CLIENTS).flatMap(([client, source]) => {
    const traffic = { kind: "transport", protocol: "TCP", port: 80 } as const;
    const flow = { source: parseAddress(source), destination: SERVER, traffic };
    return enforced.verdict(flow, "ingress").isAllowed ? [client] : [];
  });
}

describe("an entity", () => {
  it.each(Object.entries(ENTITIES))(
    "%s has the same members when pods, nodes, namespaces and clusters elsewhere are named after it",
    (entity, expected) => {
      expect(admitted(entity, { fromEntities: [entity] })).toEqual(expected);
      if (entity === "all") return;
      const endpoint = { matchLabels: { [`reserved:${entity}`]: "" } };
      expect(admitted(entity, { fromEndpoints: [endpoint] })).toEqual(expected);
    },
  );
});
