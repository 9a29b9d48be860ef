import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  type Allocation,
  type AttachMode,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { NODE_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { createEventRecorder, type EventRecorder } from "@fairlead/kube/events/events.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { setCondition } from "@fairlead/kube/objects/conditions.ts";
import type { Controller, Informer, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { isNetns } from "@fairlead/os/netns/netns.ts";
import type { PodRuntime } from "@fairlead/os/cri/runtime.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { NodePolicies } from "../policy/node-policies.ts";
import { GlobalServices } from "../global-services/global-services.ts";
import { GLOBAL_TABLE } from "../global-services/table.ts";
import { VIRTUAL_IP_TABLE } from "../virtual-ips/table.ts";
import { WithdrawnFlows } from "../withdrawn-flows/withdrawn-flows.ts";
import { VirtualIPs } from "../virtual-ips/virtual-ips.ts";
import { nodeAddress, planAddresses } from "../pod-attachment/addresses.ts";
import { ATTACH_LABEL, attachReason, exportedPods } from "../pod-attachment/selection.ts";
import { importingNamespaces, isExported } from "./exports.ts";
import { planExposed, planPods } from "./exposure.ts";
import { HostMonitor } from "./host-monitor.ts";
import { createNodeInformers, type NodeInformers, nodeSources, zoneOf } from "./informers.ts";
import { type Attached, Attachments } from "./attachments.ts";
import { EchoProbes } from "./echo-probes.ts";
import { TUNNEL_MTU, tunnelTarget } from "./fleet-network.ts";
import { HOST_TABLE } from "./host-table.ts";
import { FleetKernel } from "./kernel.ts";
import { publicKeysOf } from "./keys.ts";
import { untilOnlyAgent } from "./only-agent.ts";
import { createNodeMeters, type NodeFigures, nodeFigures } from "./node-meters.ts";
import { PathReporter, type Reported } from "./path-reporter.ts";
import {
  type Allocations,
  allocationsOf,
  clusterAllocations,
  type NodeState,
  readState,
  withAllocations,
} from "./state.ts";
import { FLEET_TABLE, renderFleetTable } from "./table.ts";
import { bytesOf, Tunnels } from "./tunnels.ts";
import { Ways } from "./ways.ts";

export interface NodeAgentOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  /** Folder of keys and of the state of WireGuard. */
  readonly stateDir: string;
  /** File of the network namespace `fleet`. */
  readonly fleetNetns: string;
  /** Of the processes of wireguard-go, so that they do not end with the container of this program. */
  readonly cgroup?: string;
  /** The container runtime; undefined: pods have no interfaces of their own in `fleet`. */
  readonly runtime: PodRuntime | undefined;
  /** Shorter TTLs of DNS answers count as this for policies about names. Unit: seconds. Default: 10. */
  readonly minDnsTtl?: number;
  readonly deps: RuntimeDeps;
}

/** No watch reports that a cause in the node is gone, such as a missing program. Unit: milliseconds. */
const MAX_RETRY_MS = 10_000;

/** How often everything is compared with the kernel, in case that another program changed it. Unit: milliseconds. */
const COMPARE_MS = 60_000;

export interface NodeAgentComponent extends Component {
  /** Brings the last known policies where the kernel has none. Before `start`, and without the API server. */
  restore(signal: AbortSignal): Promise<void>;
  /** Removes this node's part of the data path. In place of `start`. */
  remove(signal: AbortSignal): Promise<void>;
}

/** The agent of one node in a parallel network: keeps the node's part of the data path, and deletes nothing when it stops. */
export function createNodeAgent(options: NodeAgentOptions): NodeAgentComponent {
  return new NodeAgent(options);
}

class NodeAgent implements NodeAgentComponent {
  readonly #options: NodeAgentOptions;
  readonly #informers: NodeInformers;
  readonly #kernel: FleetKernel;
  readonly #tunnels: Tunnels;
  readonly #probes: EchoProbes;
  readonly #ways: Ways;
  readonly #attachments: Attachments;
  readonly #virtualIPs: VirtualIPs;
  readonly #policies: NodePolicies;
  readonly #globalServices: GlobalServices;
  readonly #controller: Controller;
  readonly #others: readonly Component[];
  readonly #host: HostMonitor;
  readonly #stack = new AsyncDisposableStack();
  readonly #key: ObjectKey;
  readonly #events: EventRecorder;
  readonly #stop = new AbortController();
  /** Of the last pass; undefined without one. */
  #figures: NodeFigures | undefined;
  #exposedPorts = 0;
  #comparedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: NodeAgentOptions) {
    const { client, nodeName, fleetNetns, deps } = options;
    this.#options = options;
    this.#key = objectKey(undefined, nodeName);
    this.#events = createEventRecorder(client, NODE_MANAGER, deps);
    this.#informers = createNodeInformers(client, nodeName, deps);
    const nft = this.#stack.use(createNft({ netns: fleetNetns }));
    const hostNft = this.#stack.use(createNft());
    const guard = (signal: AbortSignal): Promise<void> => this.#policies.restore("fleet", signal);
    const onLost = (table: string): void =>
      this.#warn("TablePutBack", `nftables table ${table} was deleted by another program, and was put back`);
    this.#kernel = new FleetKernel({ nodeName, fleetNetns, nft, hostNft, guard, onLost });
    this.#tunnels = this.#stack.use(
      new Tunnels({
        ...options,
        isUsed: (target) => this.#probes.isUsed(target),
        onPaths: () => this.#controller.enqueue(this.#key),
        onEnded: (device) =>
          this.#warn(
            "TunnelEnded",
            `the process of the WireGuard device ${device} has ended, and is started again`,
          ),
      }),
    );
    this.#attachments = new Attachments({ runtime: options.runtime, fleetNetns, ...deps });
    this.#probes = this.#stack.use(
      new EchoProbes({
        ...deps,
        fleetNetns,
        onChange: (target, hasDied) => {
          if (hasDied) {
            this.#tunnels.suspect(target);
            this.#ways.died();
          }
          this.#controller.enqueue(this.#key);
        },
        bytes: () => this.#bytesOfTunnels(),
      }),
    );
    this.#ways = new Ways({ nodeName, kernel: this.#kernel, probes: this.#probes, ...deps });
    const { mcsImports: serviceImports, slices } = this.#informers;
    this.#virtualIPs = this.#stack.use(new VirtualIPs({ serviceImports, slices, fleetNetns, onLost, deps }));
    this.#policies = new NodePolicies({
      ...options,
      ...this.#informers,
      tables: [FLEET_TABLE, HOST_TABLE, VIRTUAL_IP_TABLE, GLOBAL_TABLE].map((it) => it.name),
      onDeleted: () => this.#compare(),
      onLost,
    });
    this.#globalServices = new GlobalServices({ ...this.#informers, nodeName, onLost, deps });
    this.#controller = createController(
      {
        name: "node",
        concurrency: 1,
        maxRetryMs: MAX_RETRY_MS,
        reconcile: (_key, signal) => this.#reconcile(signal),
        sources: nodeSources(this.#informers, this.#key),
      },
      deps,
    );
    this.#host = new HostMonitor({
      fleetNetns,
      deps,
      own: () => this.#figures?.own,
      openPods: (stack, signal) => this.#attachments.openOthers(stack, signal),
      onChange: () => this.#controller.enqueue(this.#key),
    });
    this.#stack.use(
      createNodeMeters(deps.metrics, () => ({ node: this.#figures, host: this.#host.condition })),
    );
    const reporter = new PathReporter({ client, deps, read: (signal) => this.#readPaths(signal) });
    const withdrawn = new WithdrawnFlows({ ...this.#informers, deps });
    this.#others = [this.#policies, this.#globalServices, reporter, this.#host, withdrawn];
  }

  async start(signal: AbortSignal): Promise<void> {
    this.#stack.use(await untilOnlyAgent(this.#options.deps, signal));
    const informers = Object.values(this.#informers) as Informer<KubeObject>[];
    for (const informer of informers) {
      this.#stack.use(informer);
      informer.start(signal);
    }
    await Promise.all(informers.map((it) => it.synced(signal)));
    this.#stack.use(this.#controller);
    await this.#controller.start(signal);
    this.#controller.enqueue(this.#key);
    for (const it of this.#others) {
      this.#stack.use(it);
      await it.start(signal);
    }
  }

  restore(signal: AbortSignal): Promise<void> {
    return this.#policies.restore("node", signal);
  }

  async remove(signal: AbortSignal): Promise<void> {
    await this.#policies.remove(signal);
    await this.#globalServices.remove(signal);
    await this.#leave(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#stack.disposeAsync();
  }

  async #reconcile(signal: AbortSignal): Promise<ReconcileResult | void> {
    const { nodeName, deps } = this.#options;
    const state = readState(this.#informers, nodeName);
    if (state === undefined) return this.#leave(signal);
    await this.#ways.leaveDead(state, signal);
    const now = deps.clock.monotonic();
    if (now - this.#comparedAtMs >= COMPARE_MS) this.#doubt();
    try {
      const { allocations, exhausted, freeInMs } = this.#planAllocations(state);
      await this.#kernel.prepare(signal);
      const attached = await this.#applyPods(withAllocations(state, allocations), signal);
      // Others use an address as soon as it is recorded.
      const known = allocationsOf(state.block);
      const reachable = allocations.filter(
        ({ podUID, releasedAt }) =>
          releasedAt !== undefined || known.has(podUID) || attached.isReachable(podUID),
      );
      // Neither waits for the other: the API server may be away, and a gateway may have many tunnels to set up.
      const keys = await this.#tunnels.loadKeys(state.network.keyEpoch);
      const status = { allocations: [...reachable], keys: publicKeysOf(keys) };
      const recording = Promise.allSettled([this.#recordStatus(state, status, signal)]);
      await this.#ways.apply(state, await this.#tunnels.apply(state, keys, signal), signal);
      const figures = { allocations, attached, exhausted, exposed: this.#exposedPorts };
      this.#figures = nodeFigures(state.block.spec, figures);
      if (now - this.#comparedAtMs >= COMPARE_MS) this.#comparedAtMs = now;
      const [recorded] = await recording;
      if (recorded.status === "rejected") throw recorded.reason;
      await this.#tunnels.publish(state, keys, signal);
      const compareInMs = this.#comparedAtMs + COMPARE_MS - deps.clock.monotonic();
      return { requeueAfterMs: Math.max(1, Math.min(freeInMs, attached.dueInMs, compareInMs)) };
    } catch (error) {
      this.#doubt();
      throw error;
    }
  }

  /** A table was deleted. */
  #compare(): void {
    this.#doubt();
    this.#virtualIPs.doubt();
    this.#globalServices.doubt();
    this.#controller.enqueue(this.#key);
  }

  /** In the log, and as an Event of the Node. */
  #warn(reason: string, message: string): void {
    this.#options.deps.log.warn(message);
    const node = this.#informers.nodes.store.get(this.#key);
    if (node !== undefined) this.#events.record(NODES, node, { type: "Warning", reason, message });
  }

  /** The next pass compares everything with the kernel. */
  #doubt(): void {
    this.#kernel.doubt();
    this.#tunnels.doubt();
  }

  /** The interfaces of pods, and what may come to them. */
  async #applyPods(state: NodeState, signal: AbortSignal): Promise<Attached> {
    const { network, block } = state;
    const own = new Map(
      [...this.#informers.pods.store.list()].map(({ metadata, status }) => [
        metadata.uid,
        (status?.podIPs ?? []).map((it) => it.ip),
      ]),
    );
    const pods = [...allocationsOf(block).values()].map((it) => ({
      ...it,
      ownAddresses: own.get(it.podUID) ?? [],
    }));
    const attached = await this.#attachments.apply(pods, network, TUNNEL_MTU, signal);
    await this.#applyTable(state, attached, signal);
    return attached;
  }

  /** The cluster is in no parallel network, or this node has no block of it any more: nothing of it stays. */
  async #leave(signal: AbortSignal): Promise<void> {
    if (!(await isNetns(this.#options.fleetNetns))) return;
    this.#ways.leave();
    this.#figures = undefined;
    await this.#virtualIPs.stop();
    await this.#attachments.removeAll(signal);
    await this.#tunnels.removeAll(signal);
    await this.#kernel.remove(signal);
    this.#comparedAtMs = Number.NEGATIVE_INFINITY;
    this.#options.deps.log.info("this node is in no parallel network any more; its part was removed");
  }

  async #readPaths(signal: AbortSignal): Promise<Reported> {
    const state = readState(this.#informers, this.#options.nodeName);
    const observed = await this.#tunnels.observe(signal);
    this.#probes.noteBytes(bytesOf(observed));
    return {
      gateway: state?.gateway,
      relays: state?.network.relays ?? [],
      tunnels: observed.map((it) => {
        const { mtu = it.mtu, ...echo } = this.#probes.stateOf(tunnelTarget(it.pair));
        return { ...it, mtu: Math.min(mtu, it.mtu), echo };
      }),
    };
  }

  async #bytesOfTunnels(): Promise<ReadonlyMap<string, number>> {
    return bytesOf(await this.#tunnels.observe(this.#stop.signal));
  }

  #planAllocations({ block, network }: NodeState): Allocations {
    const { deps } = this.#options;
    const nowMs = deps.clock.now();
    const plan = planAddresses(block.status?.allocations ?? [], {
      podUIDs: this.#attachedPods(network.attach ?? "selected"),
      blocks: [...block.spec.ipv4, ...block.spec.ipv6],
      nowMs,
    });
    if (plan.exhausted.length > 0)
      deps.log.warn("no fleet address is free for pods of this node", { pods: plan.exhausted.length });
    return {
      allocations: plan.allocations,
      exhausted: plan.exhausted.length,
      freeInMs: plan.dueAtMs === undefined ? Number.POSITIVE_INFINITY : Math.max(1, plan.dueAtMs - nowMs),
    };
  }

  async #recordStatus(
    { block }: NodeState,
    status: NonNullable<AddressBlock["status"]>,
    signal: AbortSignal,
  ): Promise<void> {
    await applyIfChanged(this.#options.client, ADDRESS_BLOCKS, {
      current: block,
      desired: {
        metadata: { namespace: block.metadata.namespace ?? "", name: block.metadata.name },
        status: { ...status, ...defined({ conditions: this.#conditionsOf(block) }) },
      },
      fieldManager: NODE_MANAGER,
      subresource: "status",
      signal,
    });
  }

  #conditionsOf({ status }: AddressBlock): Condition[] | undefined {
    const { condition } = this.#host;
    const before = status?.conditions;
    return condition === undefined ? before : setCondition(before, condition, this.#options.deps.clock);
  }

  /** UIDs of the pods of this node that have fleet addresses. */
  #attachedPods(mode: AttachMode): readonly string[] {
    const { pods, slices, namespaces } = this.#informers;
    const exported = exportedPods(slices.store.list(), (namespace, name) =>
      isExported(this.#informers, objectKey(namespace, name)),
    );
    const importing = importingNamespaces(this.#informers);
    return [...pods.store.list()].flatMap((pod) => {
      const { uid, namespace = "" } = pod.metadata;
      const { labels } = namespaces.store.get(objectKey(undefined, namespace))?.metadata ?? {};
      const reason = attachReason(pod, {
        mode,
        namespaceLabel: labels?.[ATTACH_LABEL],
        isImporting: importing.has(namespace),
        exported,
      });
      return reason === undefined || uid === undefined ? [] : [uid];
    });
  }

  async #applyTable(
    { network, block, members }: NodeState,
    { isAttached }: Attached,
    signal: AbortSignal,
  ): Promise<void> {
    const { ipv4, ipv6 } = network;
    const own = members.get(block.spec.cluster);
    const allocations: ReadonlyMap<string, Allocation> = allocationsOf(block);
    const { pods, slices } = this.#informers;
    const addresses = planPods(pods.store.list(), allocations, isAttached);
    const exposed = planExposed(
      slices.store.list(),
      (it) => isExported(this.#informers, it as ObjectKey),
      allocations,
    );
    this.#exposedPorts = exposed.length;
    const table = renderFleetTable({
      pods: addresses,
      exposed,
      own: [...block.spec.ipv4.slice(0, 1), ...block.spec.ipv6.slice(0, 1)].map((it) => nodeAddress(it)),
      node: [...block.spec.ipv4, ...block.spec.ipv6],
      cluster: [...(own?.ipv4 ?? []), ...(own?.ipv6 ?? [])],
      fleet: [ipv4, ipv6],
    });
    await this.#kernel.applyTable(table, signal);
    const node = objectKey(undefined, this.#options.nodeName);
    this.#virtualIPs.update({
      cluster: block.spec.cluster,
      node: { name: this.#options.nodeName, zone: zoneOf(this.#informers.nodes.store.get(node)) },
      blocks: [network.vipIPv4, network.vipIPv6],
      allocations: new Map([
        ...clusterAllocations(this.#informers.blocks.store.list(), block.spec.cluster),
        ...allocations,
      ]),
      translated: new Map(
        addresses.flatMap((it) => (it.isAttached ? [] : [[it.fleetAddress, it.podAddress] as const])),
      ),
    });
  }
}
