import { byText } from "@fairlead/base/text.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { ApiObject } from "#values/object.ts";
import type { Store } from "#storage/store.ts";
import type { MatchCondition } from "../conditions.ts";
import type { Rule, Selectors } from "../match.ts";

/** Where a webhook is called. Source: admissionregistration.k8s.io/v1, `WebhookClientConfig`. */
export interface ClientConfig {
  readonly url?: string;
  readonly service?: {
    readonly namespace: string;
    readonly name: string;
    readonly path?: string;
    readonly port?: number;
  };
  /** PEM, in base64. */
  readonly caBundle?: string;
}

/** One webhook of a configuration that has passed validation. */
export interface Hook extends Selectors {
  /** Unique among all hooks, also among those of other generations of its configuration. */
  readonly id: string;
  readonly name: string;
  readonly configuration: string;
  readonly clientConfig: ClientConfig;
  readonly rules: readonly Rule[];
  readonly failurePolicy: "Fail" | "Ignore";
  readonly matchPolicy: "Exact" | "Equivalent";
  readonly sideEffects: string;
  /** Unit: seconds. */
  readonly timeoutSeconds: number;
  readonly admissionReviewVersions: readonly string[];
  readonly matchConditions: readonly MatchCondition[];
  readonly reinvocationPolicy: "Never" | "IfNeeded";
}

const GROUP = "admissionregistration.k8s.io";

/** The webhooks of one kind of configuration, in the order in which they are called: by the configurations' names. */
export class Hooks {
  readonly #store: Store;
  readonly #table: string;
  #hooks: readonly Hook[] | undefined;

  constructor(store: Store, plural: "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") {
    this.#store = store;
    this.#table = `${plural}.${GROUP}`;
    store.onChange(({ table }) => {
      if (table.id === this.#table) this.#hooks = undefined;
    });
  }

  get all(): readonly Hook[] {
    this.#hooks ??= [...this.#store.table(this.#table).entries()]
      .toSorted((a, b) => byText(a.key, b.key))
      .flatMap(({ object }) => hooksOf(object));
    return this.#hooks;
  }
}

function hooksOf(configuration: ApiObject): readonly Hook[] {
  const { name, resourceVersion = "" } = configuration.metadata;
  const webhooks = configuration["webhooks"];
  if (!Array.isArray(webhooks)) return [];
  return webhooks.filter(isObject).map((webhook, at): Hook => ({
    rules: [],
    failurePolicy: "Fail",
    matchPolicy: "Equivalent",
    sideEffects: "",
    timeoutSeconds: 10,
    matchConditions: [],
    reinvocationPolicy: "Never",
    // Validation saw to the rest.
    ...(webhook as unknown as Pick<Hook, "name" | "clientConfig" | "admissionReviewVersions">),
    configuration: name,
    id: `${name}/${resourceVersion}/${at}`,
  }));
}
