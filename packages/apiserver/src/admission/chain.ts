import type { Admission, Attributes } from "#registry/admission.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";

/** Mutation runs all plugins, and runs them again if a later plugin changed the object (KEP-1872). */
export interface Round {
  readonly isAgain: boolean;
  /** The state of a plugin from the first round for the second. */
  readonly memory: Map<AdmissionPlugin, unknown>;
  /** Asks for the second round. */
  reinvoke(): void;
}

/** One admission plugin. Source: k8s.io/apiserver, pkg/admission. */
export interface AdmissionPlugin {
  /** Whether it is one that is configured by objects, and now by some, so that updates have to pass through `mutate`. */
  isActive?(definition: ResourceDefinition): boolean;
  /** The object as the plugin wants it; never changed in place. */
  mutate?(attributes: Attributes, round: Round): ApiObject | undefined;
  validate?(attributes: Attributes): void;
}

/** Plugins in their order. */
export class AdmissionChain implements Admission {
  readonly #plugins: readonly AdmissionPlugin[];
  readonly #mutating: readonly AdmissionPlugin[];

  constructor(plugins: readonly AdmissionPlugin[]) {
    this.#plugins = plugins;
    this.#mutating = plugins.filter((it) => it.mutate !== undefined);
  }

  isActive(definition: ResourceDefinition): boolean {
    return this.#plugins.some((it) => it.isActive?.(definition) === true);
  }

  mutate(attributes: Attributes): ApiObject | undefined {
    const memory = new Map<AdmissionPlugin, unknown>();
    let isAskedFor = false;
    const reinvoke = (): void => {
      isAskedFor = true;
    };
    const object = this.#run(attributes, { isAgain: false, memory, reinvoke });
    if (!isAskedFor) return object;
    return this.#run({ ...attributes, object }, { isAgain: true, memory, reinvoke });
  }

  #run(attributes: Attributes, round: Round): ApiObject | undefined {
    let { object } = attributes;
    for (const plugin of this.#mutating) object = plugin.mutate?.({ ...attributes, object }, round);
    return object;
  }

  validate(attributes: Attributes): void {
    for (const plugin of this.#plugins) plugin.validate?.(attributes);
  }
}
