import { cloneJson } from "@fairlead/base/json.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { ResourceDefinition, Strategy, WriteContext } from "#registry/types.ts";
import type { ApiObject, ObjectReader } from "#values/object.ts";
import { type FieldError, StatusError } from "#status.ts";

/** For tests: objects of one kind in memory, written through the hooks of its strategy in the order of a real write. */
export class FakeKind {
  readonly #strategy: Strategy;
  readonly #objects = new Map<string, ApiObject>();
  readonly #readable = new Map<string, ApiObject>();
  readonly context: WriteContext;
  readonly warnings: string[] = [];

  constructor(definition: Pick<ResourceDefinition, "strategy">, context: Partial<WriteContext> = {}) {
    this.#strategy = definition.strategy;
    this.context = {
      user: { name: "tester", groups: ["system:authenticated"] },
      dryRun: false,
      subresource: "",
      reader: this.#reader(),
      nowMs: 1_700_000_000_000,
      warn: (message) => void this.warnings.push(message),
      ...context,
    };
  }

  /** Something that strategies find when they look for it. */
  provide(plural: string, object: ApiObject): this {
    this.#readable.set(`${plural}/${keyOf(object)}`, object);
    return this;
  }

  get(key: string): ApiObject | undefined {
    return this.#objects.get(key);
  }

  all(): readonly ApiObject[] {
    return [...this.#objects.values()];
  }

  /** Creates or replaces. An object with errors is not stored. */
  write(input: ApiObject): { readonly object: ApiObject; readonly errors: readonly FieldError[] } {
    const object = cloneJson(input);
    const old = this.#objects.get(keyOf(object));
    const strategy = this.#strategy;
    strategy.applyDefaults?.(object);
    const errors = this.#check(object, old);
    if (errors.length > 0) return { object, errors };
    this.#objects.set(keyOf(object), object);
    strategy.onStored?.(object, old);
    return { object, errors: [] };
  }

  /** A strategy may refuse an object while it prepares it. */
  #check(object: ApiObject, old: ApiObject | undefined): readonly FieldError[] {
    try {
      return this.#prepareAndValidate(object, old);
    } catch (error) {
      if (!(error instanceof StatusError) || error.status.reason !== "Invalid") throw error;
      const { causes = [] } = error.status.details ?? {};
      return causes.map(({ reason, field = "", message = "" }) => ({
        type: reason as FieldError["type"],
        field,
        message,
      }));
    }
  }

  #prepareAndValidate(object: ApiObject, old: ApiObject | undefined): readonly FieldError[] {
    const strategy = this.#strategy;
    if (old === undefined) {
      strategy.prepareForCreate?.(object, this.context);
      return strategy.validateCreate?.(object, this.context) ?? [];
    }
    strategy.prepareForUpdate?.(object, cloneJson(old), this.context);
    return strategy.validateUpdate?.(object, old, this.context) ?? [];
  }

  /** What is wrong with an object, each as `field: message`. */
  errorsOf(input: ApiObject): readonly string[] {
    return this.write(input).errors.map((it) => `${it.field}: ${it.message}`);
  }

  remove(key: string): void {
    const old = this.#objects.get(key);
    if (old === undefined) return;
    this.#objects.delete(key);
    this.#strategy.onStored?.(undefined, old);
  }

  #reader(): ObjectReader {
    const readable = this.#readable;
    return {
      get: (_group, plural, namespace, name) =>
        readable.get(namespace === undefined ? `${plural}/${name}` : `${plural}/${namespace}/${name}`),
      *list(_group, plural) {
        for (const [key, object] of readable) if (key.startsWith(`${plural}/`)) yield object;
      },
    };
  }
}
