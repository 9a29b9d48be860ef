import type { TrafficTarget } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";

/** One name, and where it leads. What is probed and what counts as well is decided before: a provider only answers. */
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
  /** The name belongs to somebody else, whose records stay as they are. */
  | { readonly kind: "taken"; readonly message: string }
  /** It will not be done until somebody changes something: a key or a zone that does not fit. */
  | { readonly kind: "refused"; readonly message: string }
) & {
  /** When to ask again though nobody asked: answers that change with time, state that cannot be watched. */
  readonly againInMs?: number;
};

/**
 * Who makes the names of profiles resolve. Each pass reads what is there, compares it with what is wanted, and writes the
 * difference: where there is none, nothing is written. What throws is tried again.
 */
export interface TrafficProvider extends AsyncDisposable {
  /** The domain of all its names, without a final dot. */
  readonly zone: string;
  /** Resolves once it can be asked. */
  start(signal: AbortSignal): Promise<void>;
  /** Makes the name lead where it is wanted. Targets and records of others are left alone. */
  program(name: TrafficName, signal: AbortSignal): Promise<Outcome>;
  /** Takes away a name that is ours. One that is not, or is gone already, is no error. */
  withdraw(label: string, signal: AbortSignal): Promise<void>;
  /** Tells of names that somebody changed. A provider that cannot watch never does, and says `againInMs` instead. */
  subscribe(onChange: (label: string) => void): Disposable;
}
