import { isDeepStrictEqual } from "node:util";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { IDENTITY_SLICES, type IdentitySlice } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { FLOW_LOG_ALL, FLOW_LOG_ANNOTATION } from "#api/fairlead.dev/names.ts";
import type { PolicySettings } from "#policy/compile/draft.ts";
import type { PolicyNamespace, PolicyPod } from "#policy/model.ts";
import { Resolver } from "#policy/resolver/resolver.ts";
import type { Changes } from "#policy/state.ts";
import type { AddressBlock, MeshNetwork } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { RemoteNetwork } from "#policy/remote.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { formatAddress, type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import {
  type Namespace,
  NAMESPACES,
  type Node,
  NODES,
  type Pod,
  PODS,
  type Service,
} from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Change, Informer, InformerOptions, KubeClient } from "@fairlead/kube/types.ts";
import {
  byPublication,
  namespaceOf,
  nodeOf,
  podCidrsOf,
  podOf,
  type Reported,
  reportedBy,
  trimmedPod,
} from "./objects.ts";
import { PodFleetAddresses } from "./pod-fleet-addresses.ts";
import { type PlacedPod, PodPrefixes } from "./pod-prefixes.ts";
import { PolicyReader } from "./policy-reader.ts";
import { remoteNetworks } from "./remote-networks.ts";

export interface SessionOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  readonly settings: PolicySettings;
  /** Has the one that the cluster is in. Started by the caller. */
  readonly networks: Informer<MeshNetwork>;
  /** Of all namespaces. Started by the caller. */
  readonly services: Informer<Service>;
  readonly slices: Informer<EndpointSlice>;
  /** Of this cluster and its nodes: fleet addresses of pods. Started by the caller. */
  readonly blocks: Informer<AddressBlock>;
  readonly deps: RuntimeDeps;
  /** There may be changes to take. */
  readonly onChange: () => void;
}

/** What the API server of the own cluster says, brought to the resolver. Everything is read before the first changes are taken. */
export class PolicySession implements AsyncDisposable {
  readonly #options: SessionOptions;
  readonly #resolver: Resolver;
  readonly #stack = new AsyncDisposableStack();
  readonly #nodes: Informer<Node>;
  readonly #namespaces: Informer<Namespace>;
  readonly #pods: Informer<Pod>;
  readonly #apiServers: Informer<EndpointSlice>;
  readonly #slices: Informer<IdentitySlice>;
  readonly #informers: readonly Informer<KubeObject>[];
  readonly #fleetAddresses = new PodFleetAddresses();
  readonly #prefixes = new PodPrefixes();
  /** Namespaces whose allowed connections are logged. */
  readonly #logged = new Set<string>();
  readonly #reader: PolicyReader;
  /** The addresses that pods of other clusters have, where these are known. */
  #remote: readonly RemoteNetwork[] = [];

  /** The slice that said last what is known of a pod, namespace or node of another cluster. */
  readonly #reporters = new Map<string, ObjectKey>();

  constructor(options: SessionOptions) {
    this.#options = options;
    const { settings, nodeName } = options;
    this.#resolver = new Resolver({ cluster: settings.cluster, node: nodeName });
    this.#nodes = this.#follow(NODES, {}, (it) => this.#onNode(it));
    this.#namespaces = this.#follow(NAMESPACES, {}, (it) => this.#onNamespace(it));
    this.#pods = this.#follow(
      PODS,
      {
        trim: trimmedPod,
        indexes: {
          uid: (it) => [it.metadata.uid ?? ""],
          node: (it) => [it.spec?.nodeName ?? ""],
          address: (it) =>
            it.spec?.hostNetwork === true ? [] : (it.status?.podIPs ?? []).map((one) => one.ip),
        },
      },
      (it) => this.#onPod(it),
    );
    this.#apiServers = this.#follow(ENDPOINT_SLICES, API_SERVERS, () => this.#onApiServers());
    this.#slices = this.#follow(
      IDENTITY_SLICES,
      {
        namespace: FLEET_SYSTEM_NAMESPACE,
        indexes: { address: (it) => (it.spec.pods ?? []).flatMap((one) => one.addresses) },
      },
      (it) => this.#onSlice(it),
    );
    this.#reader = new PolicyReader({
      ...options,
      follow: (of, more, callback) => this.#follow(of, more, callback),
      isEnding: (namespace) => {
        const found = this.#namespaces.store.get(objectKey(undefined, namespace));
        return found !== undefined && isDeleting(found);
      },
      upsert: (policy) => this.#resolver.upsertPolicy(policy),
      remove: (key) => this.#resolver.deletePolicy(key),
    });
    this.#informers = [
      this.#nodes,
      this.#namespaces,
      this.#pods,
      this.#apiServers,
      ...this.#reader.informers,
      this.#slices,
    ];
  }

  async start(signal: AbortSignal): Promise<void> {
    const { blocks, networks, services, slices, onChange } = this.#options;
    for (const it of blocks.store.list()) this.#onBlock({ key: keyOf(it), before: undefined, after: it });
    this.#onRemote();
    this.#stack.use(
      blocks.subscribe((change) => {
        this.#onBlock(change);
        if (!sameJson(change.before?.spec, change.after?.spec)) this.#onRemote();
        onChange();
      }),
    );
    this.#stack.use(
      networks.subscribe(() => {
        this.#onRemote();
        onChange();
      }),
    );
    for (const it of [services, slices]) {
      this.#stack.use(
        it.subscribe(() => {
          this.#reader.servicesChanged();
          onChange();
        }),
      );
    }
    for (const it of this.#informers) it.start(signal);
    await Promise.all(this.#informers.map((it) => it.synced(signal)));
    for (const after of [...this.#slices.store.list()].toSorted(byPublication))
      this.#bringSlice({ key: keyOf(after), before: undefined, after });
  }

  take(): Changes {
    this.#reader.settle();
    return this.#resolver.take();
  }

  /** A pod of the own cluster by its own or its fleet address. */
  podOf(address: IpAddress): Pod | undefined {
    const text = formatAddress(address);
    const { store } = this.#pods;
    return (
      [...store.byIndex("address", text)].at(-1) ??
      [...store.byIndex("uid", this.#fleetAddresses.ownerOf(text) ?? "-")].at(-1)
    );
  }

  /** Addresses without those of pods of other clusters, known or not: no answer of DNS opens these. */
  withoutPods<T>(addresses: ReadonlyMap<IpAddress, T>): ReadonlyMap<IpAddress, T> {
    return new Map(
      [...addresses].filter(
        ([address]) => !this.#resolver.isRemote(address) || this.#resolver.isAnonymous(address),
      ),
    );
  }

  /** Whether an address is one of those that pods of other clusters have. */
  isRemote(address: IpAddress): boolean {
    return this.#resolver.isRemote(address);
  }

  /** Whether it is known what has an address. */
  isIdentified(address: IpAddress): boolean {
    return this.#resolver.isIdentified(address);
  }

  /** A pod of this node whose allowed connections are logged. */
  isLogged({ metadata, spec }: Pod): boolean {
    return spec?.nodeName === this.#options.nodeName && this.#logged.has(metadata.namespace ?? "");
  }

  /** The addresses of these pods. */
  get loggedAddresses(): readonly string[] {
    if (this.#logged.size === 0) return [];
    const { cluster } = this.#options.settings;
    return [...this.#pods.store.byIndex("node", this.#options.nodeName)]
      .filter((it) => this.isLogged(it))
      .flatMap((it) => podOf(it, cluster, this.#fleetAddresses.of(it.metadata.uid ?? ""))?.addresses ?? [])
      .map(formatAddress);
  }

  /** "cluster/namespace/name" of a pod of any cluster. */
  nameOf(address: IpAddress): string | undefined {
    const { metadata } = this.podOf(address) ?? {};
    if (metadata !== undefined)
      return `${this.#options.settings.cluster}/${metadata.namespace}/${metadata.name}`;
    const text = formatAddress(address);
    for (const { spec } of this.#slices.store.byIndex("address", text)) {
      const pod = spec.pods?.find((it) => it.addresses.includes(text));
      if (pod !== undefined) return `${spec.cluster}/${spec.namespace}/${pod.name}`;
    }
    return undefined;
  }

  /** Whether a policy could select a pod that is not known yet. */
  get hasPolicies(): boolean {
    return !this.#reader.isEmpty;
  }

  get node(): Node | undefined {
    return this.#nodes.store.get(objectKey(undefined, this.#options.nodeName));
  }

  /** The addresses that this node has in its own network. */
  get nodeAddresses(): readonly IpAddress[] {
    const internal = (this.node?.status?.addresses ?? []).filter((it) => it.type === "InternalIP");
    return internal.flatMap((it) => tryParseAddress(it.address) ?? []);
  }

  /** The prefixes of this node's pods, and of their fleet addresses. */
  get podPrefixes(): readonly string[] {
    const { nodeName, blocks } = this.#options;
    const own = [...blocks.store.list()].filter((it) => it.spec.node === nodeName);
    return [...this.#prefixes.used, ...own.flatMap(({ spec }) => [...spec.ipv4, ...spec.ipv6])];
  }

  /** Addresses in these of pods of other nodes. */
  get elsewhere(): readonly IpAddress[] {
    return this.#prefixes.elsewhere;
  }

  /** Why new pods of this node are not known by their addresses; undefined: they are. */
  get prefixProblem(): string | undefined {
    return this.#prefixes.problem;
  }

  /** Whether pods run on this node, apart from those of its own network. */
  get hasPods(): boolean {
    const { cluster } = this.#options.settings;
    const here = [...this.#pods.store.byIndex("node", this.#options.nodeName)];
    return here.some((it) => podOf(it, cluster) !== undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }

  #follow<T extends KubeObject>(
    of: Resource<T>,
    options: InformerOptions<T>,
    onChange: (change: Change<T>) => void,
  ): Informer<T> {
    const informer = this.#stack.use(createInformer(this.#options.client, of, options, this.#options.deps));
    this.#stack.use(
      informer.subscribe((change) => {
        onChange(change);
        this.#options.onChange();
      }),
    );
    return informer;
  }

  #onPod({ before, after }: Change<Pod>): void {
    const { cluster } = this.#options.settings;
    const fleetAddresses = this.#fleetAddresses.of(after?.metadata.uid ?? "") ?? [];
    const pod = after === undefined ? undefined : podOf(after, cluster, fleetAddresses);
    const { namespace = "", name = "" } = (after ?? before)?.metadata ?? {};
    this.#prefixes.change(`${namespace}/${name}`, after && this.#placed(after));
    if (pod !== undefined) this.#resolver.upsertPod(pod);
    else this.#resolver.deletePod(cluster, namespace, name);
  }

  #placed(pod: Pod): PlacedPod {
    const { settings, nodeName } = this.#options;
    const addresses = podOf(pod, settings.cluster)?.addresses ?? [];
    return { isLocal: pod.spec?.nodeName === nodeName, addresses };
  }

  /** The pods that get or lose fleet addresses. */
  #onBlock(change: Change<AddressBlock>): void {
    for (const uid of this.#fleetAddresses.change(change))
      for (const pod of this.#pods.store.byIndex("uid", uid))
        this.#onPod({ key: keyOf(pod), before: pod, after: pod });
  }

  #onRemote(): void {
    const { blocks, networks, settings } = this.#options;
    const network = [...networks.store.list()].find((it) => !isDeleting(it));
    const remote = remoteNetworks(network?.spec, blocks.store.list(), settings.cluster);
    if (isDeepStrictEqual(remote, this.#remote)) return;
    this.#remote = remote;
    this.#resolver.setRemote(remote);
  }

  #onNode({ before, after }: Change<Node>): void {
    const { settings, nodeName } = this.#options;
    const { cluster } = settings;
    if ((after ?? before)?.metadata.name === nodeName)
      this.#prefixes.set(podCidrsOf(after), () =>
        Array.from(this.#pods.store.list(), (it) => [
          `${it.metadata.namespace}/${it.metadata.name}`,
          this.#placed(it),
        ]),
      );
    if (after !== undefined) this.#resolver.upsertNode(nodeOf(after, cluster));
    else if (before !== undefined) this.#resolver.deleteNode(cluster, before.metadata.name);
  }

  #onApiServers(): void {
    const slices = [...this.#apiServers.store.list()];
    const addresses = slices.flatMap((it) => (it.endpoints ?? []).flatMap((one) => one.addresses));
    this.#resolver.setApiServers(addresses.flatMap((it) => tryParseAddress(it) ?? []));
  }

  #onNamespace({ before, after }: Change<Namespace>): void {
    const { cluster } = this.#options.settings;
    const { name = "" } = (after ?? before)?.metadata ?? {};
    if (after?.metadata.annotations?.[FLOW_LOG_ANNOTATION] === FLOW_LOG_ALL) this.#logged.add(name);
    else this.#logged.delete(name);
    if (after !== undefined) return this.#resolver.upsertNamespace(namespaceOf(after, cluster));
    this.#resolver.deleteNamespace(cluster, name);
    this.#reader.namespaceGone(name);
  }

  /** Of what two slices have, as after a hub that died in the middle of a change, the later one counts: the first ones are brought in order. */
  #onSlice(change: Change<IdentitySlice>): void {
    if (this.#slices.hasSynced) this.#bringSlice(change);
  }

  /** What moves to another slice may be there before it is gone from its own. */
  #bringSlice({ key, before, after }: Change<IdentitySlice>): void {
    const [was, is] = [reportedIn(before), reportedIn(after)];
    this.#resolver.setAnonymous(key, is.addresses);
    for (const it of is.namespaces) {
      this.#reporters.set(namespaceId(it), key);
      this.#resolver.upsertNamespace(it);
    }
    for (const it of is.nodes) {
      this.#reporters.set(nodeId(it), key);
      this.#resolver.upsertNode(it);
    }
    for (const it of is.pods) {
      this.#reporters.set(podId(it), key);
      this.#resolver.upsertPod(it);
    }
    this.#forget(key, was, is);
  }

  #forget(slice: ObjectKey, was: Reported, is: Reported): void {
    const left = new Set([...is.pods.map(podId), ...is.nodes.map(nodeId), ...is.namespaces.map(namespaceId)]);
    const isGone = (id: string): boolean =>
      !left.has(id) && this.#reporters.get(id) === slice && this.#reporters.delete(id);
    for (const it of was.pods)
      if (isGone(podId(it))) this.#resolver.deletePod(it.cluster, it.namespace, it.name);
    for (const it of was.nodes) if (isGone(nodeId(it))) this.#resolver.deleteNode(it.cluster, it.name);
    for (const it of was.namespaces)
      if (isGone(namespaceId(it))) this.#resolver.deleteNamespace(it.cluster, it.name);
  }
}

type Named = Pick<PolicyNamespace, "cluster" | "name">;
const podId = ({ cluster, namespace, name }: PolicyPod): string => `pod ${cluster} ${namespace} ${name}`;
const nodeId = ({ cluster, name }: Named): string => `node ${cluster} ${name}`;
const namespaceId = ({ cluster, name }: Named): string => `namespace ${cluster} ${name}`;

/** The Service of the API server. */
const API_SERVERS = { namespace: "default", labelSelector: "kubernetes.io/service-name=kubernetes" };

function reportedIn(slice: IdentitySlice | undefined): Reported {
  return slice === undefined ? NOTHING : reportedBy(slice);
}

const NOTHING: Reported = { pods: [], namespaces: [], nodes: [], addresses: [] };
