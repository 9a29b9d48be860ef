/** One node of a parallel network, with the real kernel, and an API server and a container runtime in memory. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec } from "@fairlead/base/exec.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { type Logger, silentLogger } from "@fairlead/base/log.ts";
import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  type Allocation,
  type Gateway,
  GATEWAYS,
  MESH_NETWORKS,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { MANAGED_BY, MANAGED_BY_LABEL } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { ATTACH_LABEL } from "@fairlead/fleet/dataplane/pod-attachment/selection.ts";
import { createNodeAgent } from "@fairlead/fleet/dataplane/node/agent.ts";
import { NAMESPACES, NODES, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { FakePodRuntime } from "@fairlead/os/cri/runtime.fake.ts";
import { generateKeyPair } from "@fairlead/os/wireguard/keys.ts";
import { deleteNetns, inNetns, isNetns } from "@fairlead/os/netns/netns.ts";

export const NETWORK = objectKey(FLEET_SYSTEM_NAMESPACE, "p");
const BLOCK = objectKey(FLEET_SYSTEM_NAMESPACE, "node.n1");
const OWN_GATEWAY = objectKey(FLEET_SYSTEM_NAMESPACE, "a-0");
const WORK = { namespace: "work" };
export const SECOND = { ...WORK, name: "second", uid: "3e11eac6-7a4d-4d2f-9c8d-1c7f3f3c2b51" };

export class NodeAgentWorld implements AsyncDisposable {
  readonly client = new FakeKubeClient();
  readonly runtime = new FakePodRuntime();
  readonly folder = mkdtempSync(join(tmpdir(), "fairlead-node-"));
  readonly stateDir = join(this.folder, "state");
  readonly fleet = join(this.stateDir, "fleet");
  readonly pod: string;
  /** What agents failed to do. */
  readonly failures: string[] = [];
  /** The key of the gateway of the other member, b. */
  readonly remote = generateKeyPair();

  /** Network namespace of the pod that was added. */
  #second: string | undefined;

  private constructor(pod: string) {
    this.pod = pod;
  }

  /**
   * @param pod - Network namespace of the node's one pod.
   * @param labels - Of the network: those of a member that knows its name make the agent enforce policies.
   */
  static async start(pod: string, labels: Readonly<Record<string, string>> = {}): Promise<NodeAgentWorld> {
    const world = new NodeAgentWorld(pod);
    world.#seedNetwork(labels);
    await world.#seedPod();
    return world;
  }

  #seedNetwork(labels: Readonly<Record<string, string>>): void {
    const at = (name: string) => ({ metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name } });
    const member = (cluster: string, net: number): AddressBlock => ({
      ...at(cluster),
      spec: { profile: "p", cluster, ipv4: [`10.112.${net}.0/21`], ipv6: [`fd00:112:0:${net}00::/56`] },
    });
    const gateway = (cluster: string, index: number, more: Partial<Gateway["spec"]> = {}): Gateway => ({
      ...at(`${cluster}-0`),
      spec: { cluster, ordinal: 0, node: "n1", index, ...more },
    });
    this.client.seed(MESH_NETWORKS, {
      metadata: { ...at("p").metadata, labels: { ...labels } },
      spec: {
        mode: "parallel",
        ipv4: "10.112.0.0/12",
        ipv6: "fd00:112::/48",
        vipIPv4: "10.127.0.0/16",
        vipIPv6: "fd00:112:0:ff00::/64",
        keyEpoch: 1,
      },
    });
    this.client.seed(ADDRESS_BLOCKS, member("a", 0), member("b", 8), {
      ...at("node.n1"),
      spec: {
        ...member("a", 0).spec,
        node: "n1",
        nodeAddress: "192.0.2.1",
        ipv4: ["10.112.0.0/24"],
        ipv6: ["fd00:112::/64"],
      },
    });
    this.client.seed(
      GATEWAYS,
      gateway("a", 0),
      gateway("b", 1, {
        basePort: 31_820,
        fleetAddress: "10.112.8.1",
        keys: [{ epoch: 1, publicKey: this.remote.publicKey }],
      }),
    );
  }

  /** A pod behind a Service that is exported and imported. */
  async #seedPod(): Promise<void> {
    this.client.seed(NAMESPACES, { metadata: { name: WORK.namespace } });
    this.client.seed(NODES, { metadata: { name: "n1" } });
    this.client.seed(PODS, {
      metadata: { ...WORK, name: "hello" },
      spec: { nodeName: "n1", containers: [] },
      status: { phase: "Running", podIPs: [{ ip: "10.244.0.7" }, { ip: "fd00:244::7" }] },
    });
    const { uid = "" } = (await this.client.get(PODS, objectKey("work", "hello"))).metadata;
    this.client.seed(MCS_SERVICE_EXPORTS, { metadata: { ...WORK, name: "hello" } });
    this.client.seed(MCS_SERVICE_IMPORTS, {
      metadata: { ...WORK, name: "hello", labels: { [MANAGED_BY_LABEL]: MANAGED_BY } },
      spec: { type: "ClusterSetIP", ips: ["10.127.0.9"], ports: [{ port: 80, protocol: "TCP" }] },
    });
    const slice = (label: string, name: string) => ({
      metadata: { ...WORK, name, labels: { [label]: "hello" } },
      addressType: "IPv4" as const,
      ports: [
        { name: "http", port: 8080, protocol: "TCP" as const },
        { name: "tell", port: 5353, protocol: "UDP" as const },
      ],
      endpoints: [{ addresses: ["10.244.0.7"], targetRef: { kind: "Pod", uid } }],
    });
    this.client.seed(
      ENDPOINT_SLICES,
      slice("kubernetes.io/service-name", "hello-1"),
      slice("multicluster.kubernetes.io/service-name", "hello-2"),
    );
    this.runtime.run({ podUid: uid, podNamespace: "work", podName: "hello", netns: this.pod });
  }

  /** Starts an agent; disposed of, it does nothing more. */
  startAgent(): AsyncDisposable {
    const stop = new AbortController();
    const agent = createNodeAgent({
      client: this.client,
      nodeName: "n1",
      stateDir: this.stateDir,
      fleetNetns: this.fleet,
      runtime: this.runtime,
      deps: systemDeps(this.#log()),
    });
    const started = agent.start(stop.signal).catch((error: unknown) => {
      if (!stop.signal.aborted) throw error;
    });
    return {
      async [Symbol.asyncDispose]() {
        stop.abort();
        await started;
        await agent[Symbol.asyncDispose]();
      },
    };
  }

  #log(): Logger {
    const log: Logger = {
      ...silentLogger,
      error: (message, fields) => void this.failures.push(`${message} ${JSON.stringify(fields)}`),
      child: () => log,
    };
    return log;
  }

  /** Fleet addresses of the pod, once it has some, and the public key of the gateway. */
  async published(): Promise<Pick<Allocation, "ipv4" | "ipv6"> & { readonly publicKey: string }> {
    const block = await this.client.get(ADDRESS_BLOCKS, BLOCK);
    const gateway = await this.client.get(GATEWAYS, OWN_GATEWAY);
    const [allocation] = block.status?.allocations ?? [];
    const [key] = gateway.spec.keys ?? [];
    if (allocation === undefined || key === undefined) throw new Error("the agent has published nothing yet");
    return { ipv4: allocation.ipv4, ipv6: allocation.ipv6, publicKey: key.publicKey };
  }

  /** The exported Service gets another UDP port. */
  async expose(port: number): Promise<void> {
    const slice = await this.client.get(ENDPOINT_SLICES, objectKey(WORK.namespace, "hello-1"));
    const ports = [
      ...(slice.ports ?? []).filter((it) => it.name !== "more"),
      { name: "more", port, protocol: "UDP" as const },
    ];
    await this.client.update(ENDPOINT_SLICES, { ...slice, ports });
  }

  /** A pod begins on the node, which asks for an interface. @param netns - Its network namespace. */
  addPod(netns: string): void {
    this.#second = netns;
    const pod: Pod = {
      metadata: { ...SECOND, labels: { [ATTACH_LABEL]: "true" } },
      spec: { nodeName: "n1", containers: [] },
      status: { phase: "Running", podIPs: [{ ip: "10.244.0.8" }, { ip: "fd00:244::8" }] },
    };
    this.client.state.put(PODS, pod);
    this.runtime.run({ podUid: SECOND.uid, podNamespace: "work", podName: "second", netns });
  }

  /** That pod was never there. No agent may run. */
  async forgetPod(): Promise<void> {
    await this.client.delete(PODS, objectKey("work", "second"));
    this.runtime.end(SECOND.uid);
    const block = await this.client.get(ADDRESS_BLOCKS, BLOCK);
    const allocations = block.status?.allocations?.filter((it) => it.podUID !== SECOND.uid);
    const status = { ...block.status, allocations };
    await this.client.mergePatch(ADDRESS_BLOCKS, BLOCK, { status }, { subresource: "status" });
  }

  /** The hub names an epoch of keys, and the other member has a key of it. */
  async useEpoch(keyEpoch: number): Promise<void> {
    const remote = objectKey(FLEET_SYSTEM_NAMESPACE, "b-0");
    const gateway = await this.client.get(GATEWAYS, remote);
    const [first] = gateway.spec.keys ?? [];
    const next = { epoch: keyEpoch, publicKey: generateKeyPair().publicKey };
    const keys = first === undefined || keyEpoch === first.epoch ? [first] : [first, next];
    await this.client.mergePatch(GATEWAYS, remote, { spec: { keys } });
    await this.client.mergePatch(MESH_NETWORKS, NETWORK, { spec: { keyEpoch } });
  }

  /** Another node of the cluster begins, and publishes its key. */
  addNode(): void {
    const block: AddressBlock = {
      metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name: "node.n2" },
      spec: {
        profile: "p",
        cluster: "a",
        node: "n2",
        nodeAddress: "192.0.2.2",
        ipv4: ["10.112.1.0/24"],
        ipv6: ["fd00:112:0:1::/64"],
      },
      status: { keys: [{ epoch: 1, publicKey: this.remote.publicKey }] },
    };
    this.client.state.put(ADDRESS_BLOCKS, block);
  }

  async removeNode(): Promise<void> {
    await this.client.delete(ADDRESS_BLOCKS, objectKey(FLEET_SYSTEM_NAMESPACE, "node.n2"));
  }

  /** The agent's table in `fleet`. */
  table(): Promise<string> {
    return this.run(this.fleet, "nft", ["list", "set", "inet", "fairlead", "exposed-4"]);
  }

  /** The whole state that the agent keeps, without what differs between equal states: indexes, counters, private keys. */
  async state(): Promise<string> {
    if (!(await isNetns(this.fleet))) return "no namespace";
    const inFleet = (command: string, ...args: readonly string[]) => this.run(this.fleet, command, args);
    const inPod = (...args: readonly string[]) => this.run(this.pod, "ip", args);
    const block = await this.client.find(ADDRESS_BLOCKS, BLOCK);
    const gateway = await this.client.find(GATEWAYS, OWN_GATEWAY);
    const parts = {
      allocations: JSON.stringify(block?.status?.allocations),
      gateway: JSON.stringify({ ...gateway?.spec, keys: gateway?.spec.keys?.length }),
      hostLinks: await this.run(undefined, "ip", ["-br", "link", "show"]),
      hostRoutes: await this.run(undefined, "ip", ["route", "show", "dev", "fl-host"]),
      links: await inFleet("ip", "-br", "link"),
      addresses: await inFleet("ip", "-br", "addr"),
      routes: await inFleet("ip", "route", "show", "table", "all"),
      routes6: await inFleet("ip", "-6", "route", "show", "table", "all"),
      rules: await inFleet("ip", "rule"),
      nextHops: await inFleet("ip", "nexthop"),
      table: await inFleet("nft", "--stateless", "list", "ruleset"),
      pod: await inPod("-br", "addr"),
      podRoutes: await inPod("route", "show", "table", "all"),
      podRoutes6: await inPod("-6", "route", "show", "table", "all"),
      podRules: await inPod("rule"),
      second:
        this.#second === undefined
          ? ""
          : await this.run(this.#second, "ip", ["-br", "addr", "show", "eth-fleet"]),
    };
    return Object.entries(parts)
      .map(([name, text]) => `# ${name}\n${normal(text)}`)
      .join("\n");
  }

  /** Not by the agent's commands, which a test may break. */
  async run(netns: string | undefined, command: string, args: readonly string[]): Promise<string> {
    const line = netns === undefined ? { command, args } : inNetns(netns, command, args);
    const path = "/usr/sbin:/usr/bin:/sbin:/bin";
    const result = await exec(line.command, line.args, { addEnv: { PATH: path }, allowFailure: true });
    return result.stdout;
  }

  /** Deletes the agent's folder, as if the disk were new. */
  async loseStateFolder(): Promise<void> {
    await deleteNetns(this.fleet, AbortSignal.timeout(10_000));
    rmSync(this.stateDir, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await deleteNetns(this.fleet, AbortSignal.timeout(10_000));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Sorted, and without indexes of devices. */
function normal(text: string): string {
  return text
    .split("\n")
    .map((line) =>
      line
        .replaceAll(/@if\d+/g, "")
        .replaceAll(/\s+/g, " ")
        .trim(),
    )
    .filter((line) => line !== "" && !/^(fe80|multicast|local fe80|anycast)/.test(line))
    .toSorted()
    .join("\n");
}
