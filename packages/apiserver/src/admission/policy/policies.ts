import type { Store } from "#storage/store.ts";
import type { Binding, BoundPolicy, Policy } from "./types.ts";

const GROUP = "admissionregistration.k8s.io";

/** The policies that are bound, by name. Read from the store when it changed, not for each request. */
export class BoundPolicies {
  readonly #store: Store;
  readonly #policies: string;
  readonly #bindings: string;
  #bound: readonly BoundPolicy[] | undefined;

  /** @param kind - The plurals of policies and bindings begin with it. */
  constructor(store: Store, kind: "validating" | "mutating") {
    this.#store = store;
    this.#policies = `${kind}admissionpolicies.${GROUP}`;
    this.#bindings = `${kind}admissionpolicybindings.${GROUP}`;
    store.onChange(({ table: { id } }) => {
      if (id === this.#policies || id === this.#bindings) this.#bound = undefined;
    });
  }

  get all(): readonly BoundPolicy[] {
    this.#bound ??= this.#collect();
    return this.#bound;
  }

  #collect(): readonly BoundPolicy[] {
    const bindings = Map.groupBy(
      [...this.#store.table(this.#bindings).entries()].map((it) => it.object as Binding),
      (it) => it.spec.policyName,
    );
    return [...this.#store.table(this.#policies).entries()]
      .map(({ key, object }) => ({ policy: object as Policy, bindings: bindings.get(key) ?? [] }))
      .filter((it) => it.bindings.length > 0);
  }
}
