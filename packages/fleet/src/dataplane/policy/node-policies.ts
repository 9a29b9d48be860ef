import { rm } from "node:fs/promises";
import { join } from "node:path";
import { networkInterfaces } from "node:os";
import type { AddressBlock, MeshNetwork, NetworkMode } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { NODE_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { OWN_CLUSTER_LABEL } from "#api/fairlead.dev/names.ts";
import type { PolicySettings } from "#policy/compile/draft.ts";
import { Enforced } from "#policy/enforced.ts";
import { policySettings } from "#policy/settings.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { defined } from "@fairlead/base/defined.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import type { Node, Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Controller, Informer, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { createEventRecorder } from "@fairlead/kube/events/events.ts";
import { readGatewayDevices, readLinks } from "@fairlead/os/iproute/driver.ts";
import type { LoadLibC } from "@fairlead/os/libc/libc.ts";
import { isNetns } from "@fairlead/os/netns/netns.ts";
import { TableWatch } from "@fairlead/os/nft/netlink/table-watch.ts";
import { readBridges, unseenBridges } from "./bridges.ts";
import { warnOfClosed } from "./closed-groups.ts";
import { DnsProxies, oneOfEachFamily } from "./dns-proxies.ts";
import { DnsServers } from "./dns-servers.ts";
import { engineOf } from "./engines.ts";
import { FlowLog } from "./flow-log.ts";
import { FqdnSets, onlyLearns } from "./fqdn-sets.ts";
import { POLICY_TABLE } from "./names.ts";
import { openPods, type PodLinks, podLinks } from "./pod-links.ts";
import { PolicyReport } from "./policy-report.ts";
import { PolicyDraft } from "./policy-draft.ts";
import { PolicySession } from "./session.ts";
import { readMark, restoreTable } from "./saved-table.ts";
import { planSourceLinks, type SourceLinks } from "./source-links.ts";
import { PolicySpace } from "./space.ts";

export interface NodePoliciesOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  /** Started by the caller, as are all the others here. */
  readonly networks: Informer<MeshNetwork>;
  /** Those of this cluster's nodes have the fleet addresses of pods. */
  readonly blocks: Informer<AddressBlock>;
  readonly services: Informer<Service>;
  readonly slices: Informer<EndpointSlice>;
  /** Has this Node. */
  readonly nodes: Informer<Node>;
  /** File of the node's network namespace. Default: that of this process. */
  readonly netns?: string;
  /** File of the network namespace `fleet`, which is there in a parallel network. */
  readonly fleetNetns: string;
  /** Folder of the tables that the node begins with after a boot. Default: none are kept. */
  readonly stateDir?: string;
  /** Shorter TTLs of DNS answers count as this for policies about names. Unit: seconds. Default: 10. */
  readonly minDnsTtl?: number;
  /** Loads the C library. Default: by the foreign function interface, if it is installed. */
  readonly loadLibC?: LoadLibC;
  /** Other tables of this program, of which the caller wants to know that one of them was deleted. */
  readonly tables?: readonly string[];
  readonly onDeleted?: () => void;
  /** A table was deleted by another program, and is there again. */
  readonly onLost: (table: string) => void;
  readonly deps: RuntimeDeps;
}

/** No watch reports that a cause in the node is gone. Unit: milliseconds. */
const MAX_RETRY_MS = 10_000;

/** How often the tables are compared as a whole, in case that another program changed them. Unit: milliseconds. */
const COMPARE_MS = 60_000;

/** How often the namespace `fleet` is looked for. Unit: milliseconds. */
const LOOK_MS = 500;

/** Of one pod: more than of other events, since people follow them. */
const FLOW_EVENTS = { burst: 100, refillMs: 6000, similar: 100 };

type Place = "node" | "fleet";

/** Files of the tables that a node begins with after a boot. */
const SAVED: Readonly<Record<Place, string>> = { node: "policy.nft", fleet: "fleet-policy.nft" };

interface Network {
  readonly mode: NetworkMode;
  readonly settings: PolicySettings;
}

/**
 * Network policies of one node, while its cluster is in a network: a table in the namespace of the node, unless a network plugin enforces
 * policies there, and in a parallel network the same table in `fleet`, which no plugin sees. Stopping it leaves the tables as they are;
 * starting it changes only what is wrong.
 */
export class NodePolicies implements Component {
  readonly #options: NodePoliciesOptions;
  readonly #key: ObjectKey;
  readonly #controller: Controller;
  readonly #node: PolicySpace;
  #fleet: PolicySpace | undefined;
  #running: Running | undefined;
  readonly #report: PolicyReport;
  readonly #watches = new Map<Place, TableWatch>();
  /** Passes without success, one after the other. */
  #failures = 0;
  #comparedAtMs = Number.NEGATIVE_INFINITY;
  #engine: string | undefined;
  /** What is wrong with bridges. */
  #unseen: string | undefined;
  /** The boot at which the node loaded its saved table. */
  #restored: string | undefined;
  #links: SourceLinks = { unchecked: [], shared: [] };
  #podLinks: PodLinks | undefined;

  constructor(options: NodePoliciesOptions) {
    const { deps, networks, nodeName } = options;
    this.#options = options;
    this.#key = objectKey(undefined, nodeName);
    this.#node = this.#space("node", options.netns);
    this.#report = new PolicyReport(options);
    this.#controller = createController(
      {
        name: "policy",
        concurrency: 1,
        maxRetryMs: MAX_RETRY_MS,
        reconcile: (_key, signal) => this.#reconcile(signal),
        sources: [watching(networks, () => [this.#key])],
      },
      deps,
    );
  }

  /**
   * Before `start`, and without the API server: what is in the kernel stays as it is, and where that has lost its table, as at a boot, the last
   * known one is loaded.
   *
   * @param place - The namespace of the node, or `fleet` when it was made.
   */
  async restore(place: Place, signal: AbortSignal): Promise<void> {
    const { netns, fleetNetns, deps } = this.#options;
    const file = this.#savedOf(place);
    if (file === undefined) return;
    await restoreTable({ file, netns: place === "node" ? netns : fleetNetns, log: deps.log }, signal);
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#report.start(signal);
    await this.#controller.start(signal);
    this.#controller.enqueue(this.#key);
  }

  /** Resolves when the kernel holds what the informers hold: for tests and benches. */
  idle(signal: AbortSignal): Promise<void> {
    return this.#controller.idle(signal);
  }

  /** Reports what was denied until now: for tests. */
  async report(signal: AbortSignal): Promise<void> {
    await this.#running?.report(signal);
  }

  /** In place of `start`. */
  async remove(signal: AbortSignal): Promise<void> {
    await this.#node.remove(signal);
    await this.#forgetFleet();
    await this.#report.remove(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#controller[Symbol.asyncDispose]();
    await this.#report[Symbol.asyncDispose]();
    await this.#stop();
    await this.#node[Symbol.asyncDispose]();
  }

  async #reconcile(signal: AbortSignal): Promise<ReconcileResult | void> {
    const network = this.#network();
    if (network === undefined) {
      await this.#stop();
      await this.#forgetFleet();
      this.#report.set(undefined);
      return this.#node.remove(signal);
    }
    const running = await this.#run(network, signal);
    const now = this.#options.deps.clock.monotonic();
    if (now - this.#comparedAtMs >= COMPARE_MS) {
      await this.#look(signal);
      this.#comparedAtMs = now;
    }
    const spaces = await this.#spaces(network.mode);
    await this.#sync(running, spaces, signal);
    const open = this.#engine === undefined ? running.open(this.#podLinks) : undefined;
    this.#report.set(
      defined({
        engine: this.#engine,
        unseen: this.#unseen,
        restored: this.#restored,
        shared: this.#links.shared,
        open,
      }),
    );
    const lacksFleet = network.mode === "parallel" && this.#fleet === undefined;
    const compareInMs = Math.max(1, this.#comparedAtMs + COMPARE_MS - now);
    return { requeueAfterMs: lacksFleet ? LOOK_MS : Math.min(compareInMs, running.dueInMs) };
  }

  async #sync(running: Running, spaces: readonly PolicySpace[], signal: AbortSignal): Promise<void> {
    try {
      await running.sync(spaces, { ...this.#links, pods: this.#podLinks }, signal);
      this.#failures = 0;
    } catch (error) {
      this.#failures += 1;
      // What passes by itself is not worth a report.
      if (this.#failures > 1 && !signal.aborted) this.#report.set({ failed: messageOf(error) });
      throw error;
    }
  }

  #watch(place: Place, netns: string | undefined): void {
    if (this.#watches.has(place)) return;
    const { tables = [], onDeleted, deps } = this.#options;
    const watch = new TableWatch({
      ...defined({ netns, loadLibC: this.#options.loadLibC }),
      tables: [POLICY_TABLE.name, ...tables],
      onDeleted: () => {
        this.#doubt();
        this.#controller.enqueue(this.#key);
        onDeleted?.();
      },
      deps,
    });
    this.#watches.set(place, watch);
  }

  async #endWatch(place: Place): Promise<void> {
    await this.#watches.get(place)?.[Symbol.asyncDispose]();
    this.#watches.delete(place);
  }

  /** Compares what no watch reports. */
  async #look(signal: AbortSignal): Promise<void> {
    this.#doubt();
    const { netns, stateDir, deps } = this.#options;
    this.#restored = stateDir === undefined ? undefined : await readMark(stateDir);
    const where = { signal, ...defined({ netns }) };
    // Not by /sys, which shows the namespace that it was mounted in.
    const links = await readLinks(where);
    this.#links = planSourceLinks(links, await readGatewayDevices(where));
    if (netns !== undefined) return;
    const engine = engineOf(links.map((it) => it.device));
    if (engine !== undefined && engine !== this.#engine) {
      deps.log.warn("the network plugin enforces policies in the node's network; this agent does not", {
        engine,
      });
      await this.#node.remove(signal);
    }
    this.#engine = engine;
    this.#podLinks = podLinks(links, networkInterfaces());
    const unseen = engine === undefined ? unseenBridges(await readBridges(links)) : undefined;
    if (unseen !== undefined && unseen !== this.#unseen) deps.log.warn(unseen);
    this.#unseen = unseen;
  }

  async #spaces(mode: NetworkMode): Promise<readonly PolicySpace[]> {
    const { fleetNetns } = this.#options;
    const hasFleet = mode === "parallel" && (await isNetns(fleetNetns));
    // The namespace would live on while something in it is open.
    if (!hasFleet) await this.#leaveFleet();
    else this.#fleet ??= this.#space("fleet", fleetNetns);
    this.#watch("node", this.#options.netns);
    if (hasFleet) this.#watch("fleet", fleetNetns);
    return [
      ...(this.#engine === undefined ? [this.#node] : []),
      ...(this.#fleet === undefined ? [] : [this.#fleet]),
    ];
  }

  /** Undefined: the cluster is in no network. */
  #network(): Network | undefined {
    const network = [...this.#options.networks.store.list()].find((it) => !isDeleting(it));
    const cluster = network?.metadata.labels?.[OWN_CLUSTER_LABEL];
    if (network === undefined || cluster === undefined) return undefined;
    const { spec } = network;
    return { mode: spec.mode, settings: policySettings(cluster, spec) };
  }

  async #run({ settings }: Network, signal: AbortSignal): Promise<Running> {
    if (this.#running !== undefined && sameJson(this.#running.settings, settings)) return this.#running;
    await this.#running?.[Symbol.asyncDispose]();
    const running = new Running(this.#options, settings, () => this.#controller.enqueue(this.#key));
    this.#running = running;
    this.#doubt();
    await running.start(signal);
    return running;
  }

  #doubt(): void {
    this.#node.doubt();
    this.#fleet?.doubt();
  }

  #savedOf(place: Place): string | undefined {
    const { stateDir } = this.#options;
    return stateDir === undefined ? undefined : join(stateDir, SAVED[place]);
  }

  #space(place: Place, netns: string | undefined): PolicySpace {
    const { deps, loadLibC, onLost } = this.#options;
    return new PolicySpace({ ...defined({ netns, loadLibC, saved: this.#savedOf(place) }), onLost, deps });
  }

  async #leaveFleet(): Promise<void> {
    await this.#endWatch("fleet");
    await this.#fleet?.[Symbol.asyncDispose]();
    this.#fleet = undefined;
  }

  async #forgetFleet(): Promise<void> {
    const file = this.#savedOf("fleet");
    if (file !== undefined) await rm(file, { force: true });
  }

  async #stop(): Promise<void> {
    await this.#leaveFleet();
    await this.#endWatch("node");
    await this.#running?.[Symbol.asyncDispose]();
    this.#running = undefined;
  }
}

/** What is done while the cluster is in a network. */
class Running implements AsyncDisposable {
  readonly settings: PolicySettings;
  readonly #session: PolicySession;
  readonly #draft = new PolicyDraft();
  readonly #enforced = new Enforced();
  readonly #stop = new AbortController();
  readonly #log: FlowLog;
  /** Whether allowed connections of some pods are logged. */
  #isLogging = false;
  #logging: Promise<void> = Promise.resolve();
  readonly #names: FqdnSets;
  readonly #proxy: DnsProxies;
  #spaces: readonly PolicySpace[] = [];
  /** Whether this process is in the network of the node: its sockets are. */
  readonly #isInside: boolean;
  readonly #deps: RuntimeDeps;
  #isFirst = true;

  constructor(options: NodePoliciesOptions, settings: PolicySettings, onChange: () => void) {
    this.settings = settings;
    const { deps, services, slices, minDnsTtl = 10 } = options;
    this.#isInside = options.netns === undefined;
    this.#deps = deps;
    this.#names = new FqdnSets(deps.clock, onChange);
    this.#proxy = new DnsProxies({
      enforced: this.#enforced,
      servers: new DnsServers(services, slices),
      learn: (it) => this.#names.learn({ ...it, addresses: this.#session.withoutPods(it.addresses) }),
      minTtl: minDnsTtl,
      deps,
    });
    const session = new PolicySession({ ...options, settings, onChange });
    this.#session = session;
    this.#log = new FlowLog({
      deps: options.deps,
      eventsOf: () => createEventRecorder(options.client, NODE_MANAGER, options.deps, FLOW_EVENTS),
      enforced: this.#enforced,
      read: (kind, signal) => {
        const isDue = kind === "denied" ? session.hasPolicies : this.#isLogging;
        return Promise.all(isDue ? this.#spaces.map((it) => it.counted(kind, signal)) : []);
      },
      nameOf: (address) => session.nameOf(address),
      podOf: (address) => session.podOf(address),
      node: () => session.node,
      isLogged: (pod) => session.isLogged(pod),
    });
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#session.start(AbortSignal.any([signal, this.#stop.signal]));
    this.#logging = this.#log.run(this.#stop.signal);
  }

  /** Reports what was denied until now: for tests. */
  report(signal: AbortSignal): Promise<void> {
    return this.#log.report(signal);
  }

  /** When `sync` is due though nothing has been reported. Unit: milliseconds. */
  get dueInMs(): number {
    const saves = this.#spaces.map((it) => it.dueInMs);
    return Math.max(1, Math.min(this.#names.expiresInMs, this.#proxy.retryInMs, ...saves));
  }

  /** What is not enforced for new pods; undefined: nothing. */
  open(links: PodLinks | undefined): string | undefined {
    return this.#session.hasPods ? openPods(this.#session.prefixProblem, links) : undefined;
  }

  async sync(
    spaces: readonly PolicySpace[],
    { unchecked, pods }: SourceLinks & { readonly pods: PodLinks | undefined },
    signal: AbortSignal,
  ): Promise<void> {
    this.#spaces = spaces;
    const [node] = spaces;
    await this.#names.expire(async () => new Set(await node?.answerers()));
    const actual = this.#isFirst ? await node?.read(signal) : undefined;
    this.#isFirst = false;
    const { changes, written } = this.#names.take(this.#session.take(), actual);
    const proxies = oneOfEachFamily(this.#session.nodeAddresses);
    this.#guard(pods);
    this.#draft.setUnchecked(unchecked);
    const logged = this.#session.loggedAddresses;
    this.#draft.setLogged(logged);
    this.#isLogging = logged.length > 0;
    warnOfClosed(changes.groups, this.#deps.log);
    this.#draft.apply(changes);
    this.#enforced.apply(changes);
    await this.#proxy.listen(this.#isInside && this.#draft.isProxied ? proxies : []);
    // Another program may have the port.
    this.#draft.setProxies(this.#proxy.hasFailed ? [] : proxies);
    const { table } = this.#draft;
    const wanted = {
      ...table.takeChanges(),
      whole: table.whole,
      judging: {
        enforced: this.#enforced,
        cluster: this.settings.cluster,
        isUnidentified: (it: IpAddress) => this.#isUnidentified(it),
      },
      mayRevoke: !onlyLearns(changes),
      isSaved: this.#session.hasPolicies,
    };
    try {
      for (const it of spaces) await it.sync(wanted, signal);
      written();
    } catch (error) {
      // Others may lack the changes, too.
      for (const it of spaces) it.doubt();
      throw error;
    }
  }

  /** By the sets that the kernel has, where these say it: the session may be ahead of them. */
  #isUnidentified(address: IpAddress): boolean {
    const isIdentified = this.#enforced.isIdentified(address) ?? this.#session.isIdentified(address);
    return !isIdentified && this.#session.isRemote(address);
  }

  #guard(links: PodLinks | undefined): void {
    const isByLink = this.#session.prefixProblem !== undefined;
    this.#draft.guard(this.#session.hasPolicies, isByLink ? links?.uplinks : undefined);
    this.#draft.setNodePrefixes(this.#session.podPrefixes, this.#session.elsewhere);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#logging;
    await this.#proxy[Symbol.asyncDispose]();
    await this.#session[Symbol.asyncDispose]();
  }
}
