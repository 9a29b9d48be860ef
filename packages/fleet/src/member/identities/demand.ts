import type { IdentityWants } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { PolicyReader } from "#dataplane/policy/policy-reader.ts";
import { wantsOf } from "#domain/identity-wants.ts";
import { demandOf } from "#policy/demand.ts";
import type { CompiledPolicy } from "#policy/model.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { isInGlobalNamespace } from "../global-services.ts";
import type { Session } from "../session.ts";
import type { PolicyConditions } from "./policy-conditions.ts";

interface Reading {
  readonly isLocalByDefault: boolean;
  readonly policies: ReadonlyMap<string, CompiledPolicy>;
  readonly stack: AsyncDisposableStack;
  isKnown: boolean;
}

/** What the policies here need to know of other clusters. */
export class PolicyDemand implements AsyncDisposable {
  readonly #session: Session;
  readonly #onChange: () => void;
  readonly #conditions: PolicyConditions;
  #reading: Reading | undefined;

  constructor(session: Session, onChange: () => void, conditions: PolicyConditions) {
    this.#session = session;
    this.#onChange = onChange;
    this.#conditions = conditions;
  }

  /** @param isLocalByDefault - Whether peers that name no cluster are those of the own one. */
  async follow(isLocalByDefault: boolean): Promise<void> {
    if (this.#reading?.isLocalByDefault === isLocalByDefault) return;
    await this[Symbol.asyncDispose]();
    const { cluster, local, here, deps } = this.#session;
    const policies = new Map<string, CompiledPolicy>();
    const stack = new AsyncDisposableStack();
    const reading: Reading = { isLocalByDefault, policies, stack, isKnown: false };
    this.#reading = reading;
    const stop = new AbortController();
    stack.defer(() => stop.abort());
    const reader = new PolicyReader({
      settings: { cluster, isLocalByDefault, cidrMatchesPods: false, cidrMatchesNodes: false },
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

  /** Undefined while not all policies are known. In namespaces that are not global, pods of other clusters are not known. */
  get wants(): IdentityWants | undefined {
    if (this.#reading?.isKnown !== true) return undefined;
    const policies = [...this.#reading.policies.values()].filter(
      ({ id: { namespace } }) => namespace === undefined || isInGlobalNamespace(this.#session, namespace),
    );
    const { requests, nodes = false } = demandOf(policies, { cluster: this.#session.cluster });
    return wantsOf(requests, nodes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const before = this.#reading;
    this.#reading = undefined;
    await before?.stack.disposeAsync();
  }
}
