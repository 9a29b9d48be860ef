import type { IdentityWants } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { PolicyReader } from "#dataplane/policy/policy-reader.ts";
import { remoteNetworks } from "#dataplane/policy/remote-networks.ts";
import { wantsOf } from "#domain/identity-wants.ts";
import type { MeshNetwork } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { defined } from "@fairlead/base/defined.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { PolicySettings } from "#policy/compile/draft.ts";
import { addressesNeeded, demandOf } from "#policy/demand.ts";
import { Remote } from "#policy/remote.ts";
import type { CompiledPolicy } from "#policy/model.ts";
import { policySettings } from "#policy/settings.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { type MeshInformers, podNetworks } from "../fleet-addresses.ts";
import { isInGlobalNamespace } from "../global-services.ts";
import type { Session } from "../session.ts";
import type { PolicyConditions } from "./policy-conditions.ts";

interface Parts {
  readonly session: Session;
  readonly mesh: MeshInformers;
  readonly conditions: PolicyConditions;
}

interface Reading {
  readonly settings: PolicySettings;
  readonly reader: PolicyReader;
  readonly policies: ReadonlyMap<string, CompiledPolicy>;
  readonly stack: AsyncDisposableStack;
  isKnown: boolean;
}

/** What the policies here need to know of other clusters. */
export class PolicyDemand implements AsyncDisposable {
  readonly #session: Session;
  readonly #mesh: MeshInformers;
  readonly #onChange: () => void;
  readonly #conditions: PolicyConditions;
  #reading: Reading | undefined;

  constructor({ session, mesh, conditions }: Parts, onChange: () => void) {
    this.#session = session;
    this.#mesh = mesh;
    this.#onChange = onChange;
    this.#conditions = conditions;
  }

  /** @param network - Of the own cluster; undefined: it is in none. */
  async follow(network: MeshNetwork | undefined): Promise<void> {
    const { cluster, local, here, deps } = this.#session;
    const settings = policySettings(cluster, network?.spec);
    if (sameJson(this.#reading?.settings, settings)) return;
    await this[Symbol.asyncDispose]();
    const policies = new Map<string, CompiledPolicy>();
    const stack = new AsyncDisposableStack();
    const stop = new AbortController();
    stack.defer(() => stop.abort());
    const reader = new PolicyReader({
      settings,
      services: here.services,
      slices: here.slices,
      follow: (of, options, onChange) => {
        const informer = stack.use(createInformer(local, of, options, deps));
        informer.subscribe((change) => {
          onChange(change);
          this.#onChange();
        });
        return informer;
      },
      isEnding: (namespace) => {
        const found = here.namespaces.store.get(objectKey(undefined, namespace));
        return found !== undefined && isDeleting(found);
      },
      upsert: (policy) => void policies.set(policy.key, policy),
      remove: (key) => void policies.delete(key),
      onCompiled: (...compiled) => this.#conditions.compiled(...compiled),
    });
    const reading: Reading = { settings, reader, policies, stack, isKnown: false };
    this.#reading = reading;
    for (const it of [here.services, here.slices])
      stack.use(
        it.subscribe(() => {
          if (reader.servicesChanged()) this.#onChange();
        }),
      );
    stack.use(
      here.namespaces.subscribe(({ key, after }) => {
        if (after === undefined) reader.namespaceGone(key);
      }),
    );
    for (const it of reader.informers) it.start(stop.signal);
    void Promise.all(reader.informers.map((it) => it.synced(stop.signal))).then(
      () => this.#know(reading),
      () => {},
    );
  }

  #know(reading: Reading): void {
    reading.isKnown = true;
    this.#onChange();
  }

  /**
   * Undefined while not all policies are known. In namespaces that are not global, pods of other clusters are not known, but for rules that would be
   * closed to them.
   */
  get wants(): IdentityWants | undefined {
    if (this.#reading?.isKnown !== true) return undefined;
    this.#reading.reader.settle();
    const all = [...this.#reading.policies.values()];
    const policies = all.filter(
      ({ id: { namespace } }) => namespace === undefined || isInGlobalNamespace(this.#session, namespace),
    );
    const { networks, blocks } = this.#mesh;
    const [network] = networks.store.list();
    const known = podNetworks(network, blocks.store.list());
    const { cluster } = this.#session;
    const closed = new Remote(cluster, remoteNetworks(network?.spec, blocks.store.list(), cluster));
    const { requests, nodes = false } = demandOf(policies, { cluster, ...defined({ networks: known }) });
    return wantsOf([...requests, ...addressesNeeded(all, closed)], nodes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const before = this.#reading;
    this.#reading = undefined;
    await before?.stack.disposeAsync();
  }
}
