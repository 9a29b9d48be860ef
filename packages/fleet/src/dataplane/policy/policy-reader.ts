import {
  CILIUM_CIDR_GROUPS,
  CILIUM_CLUSTERWIDE_NETWORK_POLICIES,
  CILIUM_NETWORK_POLICIES,
  type CiliumCidrGroup,
} from "#api/cilium.io/v2/types.ts";
import { CLUSTER_NETWORK_POLICIES } from "#api/policy.networking.k8s.io/v1alpha2/types.ts";
import { compilePolicy, type PolicyKind } from "#policy/compile/compile.ts";
import { beyondNamespace, closedByNamespace, costOfAll, type Priced } from "#policy/budget.ts";
import type { PolicyObjects, PolicyService, PolicySettings } from "#policy/compile/draft.ts";
import type { Compilation, CompiledPolicy } from "#policy/model.ts";
import { type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { NETWORK_POLICIES } from "@fairlead/kube/api/networking/v1/types.ts";
import type { Change, Informer, InformerOptions } from "@fairlead/kube/types.ts";

/** Kinds of policies. Only the first one is served everywhere. */
const KINDS: readonly (readonly [PolicyKind, Resource])[] = [
  ["NetworkPolicy", NETWORK_POLICIES],
  ["CiliumNetworkPolicy", CILIUM_NETWORK_POLICIES],
  ["CiliumClusterwideNetworkPolicy", CILIUM_CLUSTERWIDE_NETWORK_POLICIES],
  ["ClusterNetworkPolicy", CLUSTER_NETWORK_POLICIES],
];

const OPTIONAL = { isOptional: () => true };

export interface PolicyReaderOptions {
  readonly settings: PolicySettings;
  /** Of all namespaces, started by the caller. */
  readonly services: Informer<Service>;
  readonly slices: Informer<EndpointSlice>;
  /** Makes an informer, and calls back for each change. */
  readonly follow: <T extends KubeObject>(
    of: Resource<T>,
    options: InformerOptions<T>,
    onChange: (change: Change<T>) => void,
  ) => Informer<T>;
  readonly isEnding: (namespace: string) => boolean;
  readonly upsert: (policy: CompiledPolicy) => void;
  readonly remove: (key: string) => void;
  /** Called with each policy, when it is compiled. */
  readonly onCompiled?: (kind: PolicyKind, object: KubeObject, compilation: Compilation) => void;
}

interface Read extends Priced {
  readonly kind: PolicyKind;
  readonly object: KubeObject;
  /** What was reported of it: as it was compiled, or closed because those of its namespace are too large. */
  readonly reported: Compilation | undefined;
}

/**
 * Policies of all kinds, compiled, and compiled again when something that they refer to changes. `settle` reports what has changed: what
 * becomes of one may depend on the others of its namespace.
 */
export class PolicyReader {
  readonly #options: PolicyReaderOptions;
  readonly #policies = new Map<string, Read>();
  /** Of each namespace; undefined: of kinds of the cluster. */
  readonly #byNamespace = new Map<string | undefined, Set<string>>();
  readonly #closed = new Map<string | undefined, ReadonlySet<string>>();
  readonly #changed = new Map<string | undefined, Set<string>>();
  /** What was reported of policies that are gone. */
  readonly #gone: Compilation[] = [];
  /** Policies that went before their namespace did: its pods are still there. */
  readonly #lasting = new Map<string, string[]>();
  readonly #groups: Informer<CiliumCidrGroup>;
  readonly informers: readonly Informer<KubeObject>[];

  constructor(options: PolicyReaderOptions) {
    this.#options = options;
    this.#groups = options.follow(CILIUM_CIDR_GROUPS, OPTIONAL, () =>
      this.#compileAgain((it) => it.reads.cidrGroups),
    );
    this.informers = [
      this.#groups,
      ...KINDS.map(([kind, of]) => options.follow(of, OPTIONAL, (it) => this.#onPolicy(kind, it))),
    ];
  }

  get isEmpty(): boolean {
    return this.#policies.size === 0;
  }

  /**
   * Services or their endpoints have changed.
   *
   * @returns Whether a policy refers to services.
   */
  servicesChanged(): boolean {
    return this.#compileAgain((it) => it.reads.services);
  }

  /** Its pods are gone, and so may be its policies. */
  namespaceGone(name: string): void {
    for (const id of this.#lasting.get(name) ?? []) this.#set(id, undefined);
    this.#lasting.delete(name);
  }

  #compileAgain(isDue: (policy: Compilation) => boolean): boolean {
    const due = [...this.#policies].filter(([, policy]) => isDue(policy.compilation));
    for (const [id, policy] of due) this.#set(id, policy);
    return due.length > 0;
  }

  #onPolicy(kind: PolicyKind, { key, before, after }: Change<KubeObject>): void {
    const id = `${kind} ${key}`;
    const { namespace } = (after ?? before)?.metadata ?? {};
    if (after === undefined && namespace !== undefined && this.#options.isEnding(namespace))
      this.#lasting.set(namespace, [...(this.#lasting.get(namespace) ?? []), id]);
    else this.#set(id, after === undefined ? undefined : { kind, object: after });
  }

  #set(id: string, policy: Pick<Read, "kind" | "object"> | undefined): void {
    const known = this.#policies.get(id);
    const { namespace } = (policy ?? known)?.object.metadata ?? {};
    addTo(this.#changed, namespace, id);
    if (policy === undefined) {
      if (known?.reported !== undefined) this.#gone.push(known.reported);
      this.#policies.delete(id);
      this.#byNamespace.get(namespace)?.delete(id);
      return;
    }
    const { kind, object } = policy;
    const compilation = compilePolicy(kind, object, this.#options.settings, this.#objects());
    const createdAt = object.metadata.creationTimestamp ?? "";
    const cost = costOfAll(compilation.policies);
    addTo(this.#byNamespace, namespace, id);
    this.#policies.set(id, { kind, object, compilation, cost, createdAt, reported: known?.reported });
  }

  /** Reports what has changed since the last call. */
  settle(): void {
    for (const it of this.#gone.splice(0)) this.#report(it, undefined);
    for (const [namespace, changed] of this.#changed) this.#settleNamespace(namespace, changed);
    this.#changed.clear();
  }

  #settleNamespace(namespace: string | undefined, changed: ReadonlySet<string>): void {
    const ids = [...(this.#byNamespace.get(namespace) ?? [])];
    if (ids.length === 0) this.#byNamespace.delete(namespace);
    const before = this.#closed.get(namespace) ?? new Set();
    const priced = ids.flatMap((id) => this.#policies.get(id) ?? []);
    const beyond = namespace === undefined ? new Set() : beyondNamespace(priced);
    const closed = new Set(ids.filter((id) => beyond.has(this.#policies.get(id))));
    if (closed.size === 0) this.#closed.delete(namespace);
    else this.#closed.set(namespace, closed);
    for (const id of changed.union(before.symmetricDifference(closed))) {
      const read = this.#policies.get(id);
      if (read === undefined) continue;
      const { kind, object, compilation } = read;
      const reported = closed.has(id) ? closedByNamespace(compilation) : compilation;
      this.#policies.set(id, { ...read, reported });
      this.#options.onCompiled?.(kind, object, reported);
      this.#report(read.reported, reported);
    }
  }

  #report(former: Compilation | undefined, after: Compilation | undefined): void {
    const { upsert, remove } = this.#options;
    const keys = new Set(after?.policies.map((it) => it.key));
    for (const { key } of former?.policies ?? []) if (!keys.has(key)) remove(key);
    for (const it of after?.policies ?? []) upsert(it);
  }

  #objects(): PolicyObjects {
    const { services, slices } = this.#options;
    return {
      cidrGroups: [...this.#groups.store.list()],
      get services() {
        return servicesOf(services.store.list(), slices.store.list());
      },
    };
  }
}

function servicesOf(services: Iterable<Service>, slices: Iterable<EndpointSlice>): readonly PolicyService[] {
  const addresses = new Map<ObjectKey, IpAddress[]>();
  for (const { metadata, endpoints } of slices) {
    const key = `${metadata.namespace}/${metadata.labels?.["kubernetes.io/service-name"]}` as ObjectKey;
    const found = (endpoints ?? []).flatMap((it) =>
      it.addresses.flatMap((one) => tryParseAddress(one) ?? []),
    );
    addresses.set(key, [...(addresses.get(key) ?? []), ...found]);
  }
  return Array.from(services, ({ metadata, spec }) => {
    const { namespace = "", name, labels = {} } = metadata;
    const selector = Object.keys(spec?.selector ?? {}).length === 0 ? {} : { selector: spec?.selector ?? {} };
    const own = addresses.get(`${namespace}/${name}` as ObjectKey) ?? [];
    return { namespace, name, labels, addresses: own, ...selector };
  });
}

function addTo(sets: Map<string | undefined, Set<string>>, key: string | undefined, id: string): void {
  const known = sets.get(key);
  if (known === undefined) sets.set(key, new Set([id]));
  else known.add(id);
}
