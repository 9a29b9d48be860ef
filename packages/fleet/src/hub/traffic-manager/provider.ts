import type { TrafficTarget } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";

/** One name, and its targets. Probes and the choice of healthy targets come before: a provider only publishes them. */
export interface TrafficName {
  /** A DNS label: the name is `<label>.<zone of the provider>`. */
  readonly label: string;
  /** The profile that asks for it, "namespace/name". */
  readonly profile: ObjectKey;
  readonly ttlSeconds: number;
  /** May be empty: then the name exists and leads nowhere. */
  readonly targets: readonly TrafficTarget[];
}

export type Outcome = (
  | {
      readonly kind: "programmed";
      /** Whether something had to be written. */
      readonly changed: boolean;
    }
  /** The name has another owner, whose records stay as they are. */
  | { readonly kind: "taken"; readonly message: string }
  /** The provider needs a change first: for example, of a key or a zone. */
  | { readonly kind: "refused"; readonly message: string }
) & {
  /** When to reconcile again without a change: for answers that change with time, and state that cannot be watched. */
  readonly againInMs?: number;
};

/**
 * Makes the names of profiles resolve. Each reconcile reads the actual state, compares it with the desired state, and
 * writes the difference, if any. What throws is retried.
 */
export interface TrafficProvider extends AsyncDisposable {
  /** The domain of all its names, without a final dot. */
  readonly zone: string;
  /** Resolves once it can be asked. */
  start(signal: AbortSignal): Promise<void>;
  /** Points the name at its targets. Targets and records of others stay as they are. */
  program(name: TrafficName, signal: AbortSignal): Promise<Outcome>;
  /** Deletes a name of this owner. A name of another owner, or one that is already deleted, is not an error. */
  withdraw(label: string, signal: AbortSignal): Promise<void>;
  /** Reports names that another client changed. A provider that cannot watch never does, and returns `againInMs` instead. */
  subscribe(onChange: (label: string) => void): Disposable;
}
