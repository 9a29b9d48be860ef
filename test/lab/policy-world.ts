/** Two nodes with their pods and the real kernel, whose policies come from an API server in memory. */

import type { ChildProcess } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type IdentitySlice, IDENTITY_SLICES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/identities.ts";
import { ADDRESS_BLOCKS, MESH_NETWORKS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import {
  CILIUM_CLUSTERWIDE_NETWORK_POLICIES,
  type CiliumNetworkPolicy,
} from "@fairlead/fleet/api/cilium.io/v2/types.ts";
import { MANAGED_BY_LABEL, OWN_CLUSTER_LABEL } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import {
  CLUSTER_NETWORK_POLICIES,
  type ClusterNetworkPolicy,
} from "@fairlead/fleet/api/policy.networking.k8s.io/v1alpha2/types.ts";
import { NodePolicies } from "@fairlead/fleet/dataplane/policy/node-policies.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { defined } from "@fairlead/base/defined.ts";
import { byText } from "@fairlead/base/text.ts";
import { exec, start } from "@fairlead/base/exec.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { EVENTS, NAMESPACES, NODES, type Pod, PODS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { NETWORK_POLICIES, type NetworkPolicy } from "@fairlead/kube/api/networking/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { Informer } from "@fairlead/kube/types.ts";
import { SCTP_PROGRAM } from "@fairlead/lab/images/agnhost/sctp.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { type LoadLibC, loadLibC } from "@fairlead/os/libc/libc.ts";
import { ROUTER_SYSCTLS, STATIC_IPV6_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { type NetnsFixture, netnsFixture } from "../support/netns-fixture.ts";
import { addPod, ip, type Peer, startPeer } from "./proxy-world.ts";

/** The node number of a pod is in its addresses. */
const NODE_NUMBERS = [1, 2] as const;
type NodeNumber = (typeof NODE_NUMBERS)[number];
const nodeName = (number: NodeNumber): string => `n${number}`;
/** Pods of other clusters are behind the second node, for which they are not its own. */
const FAR_NET = 9;
/** How long a probe waits for an answer. Nothing here takes a millisecond; what is dropped is never answered. */
const PROBE_MS = 250;

/** Nothing here has such an address. */
const PARALLEL = {
  ipv4: "10.112.0.0/14",
  ipv6: "fd00:112::/32",
  vipIPv4: "10.116.0.0/16",
  vipIPv6: "fd00:116::/64",
  keyEpoch: 1,
};

export interface WorldPod {
  readonly namespace: string;
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly node: NodeNumber;
  /** The node that it is reported to be on. Default: that. */
  readonly reportedOn?: NodeNumber;
  /** Another cluster than "own", whose pods are known by IdentitySlices. On the second node. */
  readonly cluster?: string;
  /** Nothing reports it: as a server outside of the fleet. On the second node. */
  readonly isOutside?: true;
}

interface StartedPod extends WorldPod {
  readonly netns: string;
  readonly peer: Peer;
}

export const PORTS = [80, 81] as const;
export type Verb = "tcp" | "udp" | "sctp";

/** Until it is disposed of, the sockets and programs that this thread makes are in the namespace. */
async function enterNetns(path: string): Promise<Disposable> {
  const libc = await loadLibC();
  if (libc === undefined) throw new Error("koffi is not installed");
  const [home, away] = ["/proc/thread-self/ns/net", path].map((it) => openSync(it, "r")) as [number, number];
  const enter = (fd: number): void => {
    const isDone = libc.setns(fd, CLONE_NEWNET) === 0;
    closeSync(fd);
    if (!isDone) throw new Error("cannot enter a network namespace");
  };
  enter(away);
  return { [Symbol.dispose]: () => enter(home) };
}

const CLONE_NEWNET = 0x4000_0000;

/** A kernel without SCTP needs a program for it. */
function sctp(netns: string, ...words: readonly string[]) {
  return inNetns(netns, "perl", ["-e", SCTP_PROGRAM, ...words]);
}

export class PolicyWorld implements AsyncDisposable {
  readonly client = new FakeKubeClient();
  readonly #fixture: NetnsFixture = netnsFixture();
  readonly #folder = mkdtempSync(join(tmpdir(), "policy-world-"));
  readonly #children: ChildProcess[] = [];
  readonly #pods = new Map<string, StartedPod>();
  /** As pods of the namespace "node". */
  readonly #nodes = new Map<string, StartedPod>();
  readonly #agents = new Map<
    NodeNumber,
    { readonly agent: NodePolicies; readonly stack: AsyncDisposable & { disposeAsync(): Promise<void> } }
  >();
  readonly #stack = new AsyncDisposableStack();
  #inside: NodeNumber | undefined;
  /** In a parallel network the second node stands for the namespace `fleet` of the first one. */
  #mode: "flat" | "parallel" = "flat";
  /** For the agents that start from now on. */
  loadLibC: LoadLibC | undefined;

  /** @param inside - The node whose network this thread enters, as programs of a node have it. */
  static async start(
    pods: readonly WorldPod[],
    inside?: NodeNumber,
    mode: "flat" | "parallel" = "flat",
  ): Promise<PolicyWorld> {
    const world = new PolicyWorld();
    world.#inside = inside;
    world.#mode = mode;
    await world.#makeNodes();
    world.client.seed(MESH_NETWORKS, {
      metadata: {
        namespace: FLEET_SYSTEM_NAMESPACE,
        name: mode,
        labels: { [OWN_CLUSTER_LABEL]: "own", [MANAGED_BY_LABEL]: "test" },
      },
      spec: mode === "flat" ? { mode } : { mode, ...PARALLEL },
    });
    for (const name of new Set(pods.filter((it) => it.cluster === undefined).map((it) => it.namespace)))
      world.client.seed(NAMESPACES, namespaceObject(name));
    await Promise.all(pods.map((it, at) => world.#addPod(it, 10 + at)));
    if (inside !== undefined) world.#stack.use(await enterNetns(await world.netns(inside)));
    for (const number of mode === "flat" ? NODE_NUMBERS : ([1] as const)) await world.startAgent(number);
    return world;
  }

  /** Tables that agents found deleted, and put back. */
  readonly lost: string[] = [];

  netns(node: NodeNumber): Promise<string> {
    return this.#fixture.netns(nodeName(node));
  }

  /** @param waits - Whether until the kernel has what the API server has. "restored": the API server is away. */
  async startAgent(node: NodeNumber, waits: boolean | "restored" = true): Promise<void> {
    const deps = systemDeps(silentLogger);
    const networks = createInformer(this.client, MESH_NETWORKS, {}, deps);
    const blocks = createInformer(this.client, ADDRESS_BLOCKS, {}, deps);
    const services = createInformer(this.client, SERVICES, {}, deps);
    const slices = createInformer(this.client, ENDPOINT_SLICES, {}, deps);
    const nodes = createInformer(this.client, NODES, {}, deps);
    const informers: readonly Informer<KubeObject>[] = [networks, blocks, services, slices, nodes];
    for (const it of informers) it.start(AbortSignal.timeout(600_000));
    const agent = new NodePolicies({
      client: this.client,
      nodeName: nodeName(node),
      networks,
      blocks,
      services,
      slices,
      nodes,
      fleetNetns: this.#mode === "flat" ? "/nowhere/fleet" : await this.netns(2),
      stateDir: join(this.#folder, nodeName(node)),
      ...defined({ loadLibC: this.loadLibC }),
      ...(node === this.#inside ? {} : { netns: await this.netns(node) }),
      onLost: (table) => this.lost.push(table),
      deps,
    });
    const stack = new AsyncDisposableStack();
    for (const it of informers) stack.use(it);
    stack.use(agent);
    this.#stack.use(stack);
    this.#agents.set(node, { agent, stack });
    await agent.restore("node", AbortSignal.timeout(600_000));
    if (waits === "restored") return;
    await agent.start(AbortSignal.timeout(600_000));
    if (waits) await this.settled();
  }

  async stopAgent(node: NodeNumber): Promise<void> {
    await this.#agents.get(node)?.stack.disposeAsync();
    this.#agents.delete(node);
  }

  /** The table of a node with the handles of all that is in it: what is recreated has another one. */
  async table(node: NodeNumber): Promise<string> {
    const text = await this.#run(node, "nft", ["--handle", "list", "table", "inet", "fairlead-policy"]);
    // What packets fill changes with the time.
    return text.replaceAll(/\tset (?:denied|allowed|noted)-[\s\S]*?\n\t}\n/g, "");
  }

  /** What the node loads when it boots. */
  savedTable(node: NodeNumber): string {
    return join(this.#folder, nodeName(node), "policy.nft");
  }

  /** Changes the kernel of a node as another program may. */
  async nft(node: NodeNumber, ...words: readonly string[]): Promise<void> {
    await this.#run(node, "nft", words);
  }

  async #run(node: NodeNumber, command: string, words: readonly string[]): Promise<string> {
    const line = inNetns(await this.netns(node), command, words);
    return (await exec(line.command, line.args, { timeoutMs: 10_000 })).stdout;
  }

  /** Until the kernel of both nodes has what the API server has. */
  async settled(): Promise<void> {
    // Watches of the server in memory deliver in later turns of the event loop.
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    for (const { agent } of this.#agents.values()) await agent.idle(AbortSignal.timeout(20_000));
  }

  /** The texts of Events about connections that were denied, and forgets them. */
  async denials(): Promise<readonly string[]> {
    for (const { agent } of this.#agents.values()) await agent.report(AbortSignal.timeout(10_000));
    await this.settled();
    const { items } = await this.client.list(EVENTS);
    for (const it of items) await this.client.delete(EVENTS, keyOf(it));
    return items.map((it) => it.message ?? "").toSorted(byText);
  }

  pod(id: string): StartedPod {
    const found = this.#pods.get(id) ?? this.#nodes.get(id);
    if (found === undefined) throw new Error(`there is no pod ${id}`);
    return found;
  }

  get ids(): readonly string[] {
    return [...this.#pods.keys()].toSorted(byText);
  }

  /** Makes these the only policies; undefined: those of the kind stay. */
  async setPolicies(
    policies: readonly NetworkPolicy[] | undefined,
    clusterPolicies?: readonly ClusterNetworkPolicy[],
  ): Promise<void> {
    await this.#set(NETWORK_POLICIES, policies);
    await this.#set(CLUSTER_NETWORK_POLICIES, clusterPolicies);
    await this.settled();
  }

  /** Makes these the only CiliumClusterwideNetworkPolicies. */
  async setClusterwidePolicies(policies: readonly CiliumNetworkPolicy[]): Promise<void> {
    await this.#set(CILIUM_CLUSTERWIDE_NETWORK_POLICIES, policies);
    await this.settled();
  }

  async #set<T extends KubeObject>(of: Resource<T>, objects: readonly T[] | undefined): Promise<void> {
    if (objects === undefined) return;
    for (const { metadata } of (await this.client.list(of)).items)
      await this.client.delete(of, objectKey(metadata.namespace, metadata.name));
    for (const it of objects) await this.client.create(of, it);
  }

  /** The API server learns the addresses of a pod that runs already, or learns that the pod is gone. */
  async setAddresses(id: string, isKnown: boolean): Promise<void> {
    const { namespace, name, peer } = this.pod(id);
    const podIPs = isKnown ? [{ ip: peer.v4 }, { ip: peer.v6 }] : [];
    await this.client.mergePatch(
      PODS,
      objectKey(namespace, name),
      { status: { podIPs } },
      { subresource: "status" },
    );
    await this.settled();
  }

  async label(id: string, labels: Readonly<Record<string, string>>): Promise<void> {
    const [namespace, name = ""] = id.split("/");
    await this.client.mergePatch(PODS, objectKey(namespace, name), { metadata: { labels } });
    await this.settled();
  }

  async labelNamespace(name: string, labels: Readonly<Record<string, string | null>>): Promise<void> {
    await this.client.mergePatch(NAMESPACES, objectKey(undefined, name), { metadata: { labels } });
    await this.settled();
  }

  /** Makes the nodes ask and answer, as "node/1" and "node/2". */
  async serveNodes(): Promise<void> {
    for (const node of NODE_NUMBERS) {
      const netns = await this.netns(node);
      const who = { namespace: "node", name: `${node}`, node };
      const peer = await startPeer(
        { name: `node/${node}`, v4: `192.0.2.${node}`, v6: `2001:db8::${node}` },
        { netns, ports: PORTS, children: this.#children },
      );
      this.#nodes.set(peer.name, { ...who, peer, netns });
    }
  }

  /** Makes all pods answer SCTP on their ports; a test that asks over SCTP calls it. */
  serveSctp(): void {
    for (const { netns } of this.#pods.values()) {
      const { command, args } = sctp(netns, "serve", ...PORTS.map(String));
      this.#children.push(start(command, args, { stdio: "inherit" }));
    }
  }

  /** Whether a pod gets an answer from another one. */
  async asks(
    from: string,
    to: string,
    how: {
      readonly port: number;
      readonly verb?: Verb;
      readonly family?: 4 | 6;
      readonly timeoutMs?: number;
    },
  ): Promise<boolean> {
    const { peer } = this.pod(to);
    const host = how.family === 6 ? peer.v6 : peer.v4;
    if (how.verb === "sctp") {
      const seconds = (how.timeoutMs ?? PROBE_MS) / 1000;
      const line = sctp(this.pod(from).netns, "connect", host, `${how.port}`, `${seconds}`);
      return (await exec(line.command, line.args, { allowFailure: true })).exitCode === 0;
    }
    const { error } = await this.pod(from).peer.ask(how.verb ?? "tcp", {
      host,
      port: how.port,
      timeoutMs: how.timeoutMs ?? PROBE_MS,
    });
    return error === "";
  }

  async #makeNodes(): Promise<void> {
    const [one, two] = [await this.netns(1), await this.netns(2)];
    for (const it of [one, two])
      await writeSysctls(it, { ...ROUTER_SYSCTLS, ...STATIC_IPV6_SYSCTLS }, AbortSignal.timeout(10_000));
    await ip(one, [`link add name wire type veth peer name wire netns ${two}`, "link set lo up"]);
    for (const [netns, own, other] of [
      [one, 1, 2],
      [two, 2, 1],
    ] as const)
      await ip(netns, [
        "link set wire up",
        `addr add 192.0.2.${own}/24 dev wire`,
        `addr add 2001:db8::${own}/64 dev wire nodad`,
        ...(own === 1 ? [FAR_NET] : []).flatMap((net) => [
          `route add 10.244.${net}.0/24 via 192.0.2.2`,
          `route add fd00:244:0:${net}::/64 via 2001:db8::2`,
        ]),
        `route add 10.244.${other}.0/24 via 192.0.2.${other}`,
        `route add fd00:244:0:${other}::/64 via 2001:db8::${other}`,
      ]);
    for (const number of NODE_NUMBERS) {
      // In a parallel network, pods of the first node are in the namespace of the second one, too.
      const nets = this.#mode === "parallel" && number === 1 ? NODE_NUMBERS : [number];
      this.client.seed(NODES, {
        metadata: { name: nodeName(number), labels: { number: `${number}` } },
        spec: { podCIDRs: nets.flatMap((it) => [`10.244.${it}.0/24`, `fd00:244:0:${it}::/64`]) },
        status: {
          addresses: [`192.0.2.${number}`, `2001:db8::${number}`].map((address) => ({
            type: "InternalIP" as const,
            address,
          })),
        },
      });
    }
  }

  async #addPod(pod: WorldPod, number: number): Promise<void> {
    const { namespace, name, node, cluster, isOutside = false } = pod;
    const net = cluster === undefined && !isOutside ? node : FAR_NET;
    const at = { v4: `10.244.${net}.${number}`, v6: `fd00:244:0:${net}::${number}` };
    const id = `${cluster === undefined ? "" : `${cluster}:`}${namespace}/${name}`;
    const link = `${number}`;
    await addPod(this.#fixture, await this.netns(node), { name: link, ...at });
    const peer = await startPeer(
      { name: id, ...at },
      { netns: await this.#fixture.netns(link), ports: PORTS, children: this.#children },
    );
    this.#pods.set(id, { ...pod, peer, netns: await this.#fixture.netns(link) });
    if (isOutside) return;
    if (cluster === undefined) this.client.seed(PODS, podObject(pod, at));
    else this.client.seed(IDENTITY_SLICES, ...slicesOf({ ...pod, cluster }, at));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
    for (const child of this.#children) child.kill("SIGKILL");
    await this.#fixture[Symbol.asyncDispose]();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function namespaceObject(name: string) {
  return { metadata: { name, labels: { "kubernetes.io/metadata.name": name, ns: name } } };
}

/** As in the suite of Kubernetes. */
function portsOf(port: number) {
  return (["TCP", "UDP", "SCTP"] as const).map((protocol) => ({
    name: `serve-${port}-${protocol.toLowerCase()}`,
    containerPort: port,
    protocol,
  }));
}

function podObject(pod: WorldPod, { v4, v6 }: Pick<Peer, "v4" | "v6">): Pod {
  const { namespace, name, node, reportedOn = node, labels = { pod: name } } = pod;
  return {
    metadata: { namespace, name, labels: { ...labels } },
    spec: {
      nodeName: nodeName(reportedOn),
      containers: [{ name: "c", image: "i", ports: PORTS.flatMap(portsOf) }],
    },
    status: { phase: "Running", podIPs: [{ ip: v4 }, { ip: v6 }] },
  };
}

function slicesOf(
  { cluster, namespace, name, labels = { pod: name } }: WorldPod & { readonly cluster: string },
  { v4, v6 }: Pick<Peer, "v4" | "v6">,
): readonly IdentitySlice[] {
  const publishedAt = "2026-01-01T00:00:00Z";
  const at = (slice: string) => ({ namespace: FLEET_SYSTEM_NAMESPACE, name: `${cluster}.${slice}` });
  return [
    {
      metadata: at(namespace),
      spec: {
        cluster,
        type: "Namespace",
        namespace,
        labels: namespaceObject(namespace).metadata.labels,
        publishedAt,
      },
    },
    {
      metadata: at(`${namespace}.${name}`),
      spec: {
        cluster,
        type: "Pods",
        namespace,
        labels: { ...labels },
        pods: [{ name, addresses: [v4, v6] }],
        publishedAt,
      },
    },
  ];
}

/** In place of the answer of a connection that is gone. */
export function silence(): Promise<undefined> {
  return new Promise((resolve) => {
    systemClock.after(500, () => resolve(undefined));
  });
}
