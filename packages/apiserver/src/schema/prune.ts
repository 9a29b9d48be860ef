import { isObject } from "@fairlead/base/json.ts";
import { fieldPath, FoundPaths } from "@fairlead/base/found-paths.ts";
import { deref, objectSchema, withObjectFields } from "./definitions.ts";
import type { Schema, SchemaResolver } from "./types.ts";

export interface Pruned<T> {
  /** The value without unknown fields; the same value if it has none. */
  readonly value: T;
  /** The paths of those fields: "spec.ports[0].nmae". */
  readonly unknown: readonly string[];
}

/**
 * Drops what the schema of a custom resource does not know, as the API server does on every write and read.
 * `x-kubernetes-preserve-unknown-fields` keeps the unknown fields of its node; known fields below it are still pruned.
 * Source: apiextensions-apiserver, pkg/apiserver/schema/pruning.
 */
export function pruneObject<T>(object: T, schema: Schema, resolve: SchemaResolver): Pruned<T> {
  return pruneValue(object, objectSchema(schema), resolve);
}

/** As `pruneObject`, for a value inside an object. */
export function pruneValue<T>(value: T, schema: Schema, resolve: SchemaResolver): Pruned<T> {
  const pruner = new Pruner(resolve);
  const pruned = pruner.prune(value, schema, "") as T;
  return { value: pruned, unknown: pruner.unknown };
}

class Pruner {
  /** In the metadata of the object itself, elsewhere, and in the metadata of objects inside of it. */
  readonly #unknown = {
    metadata: new FoundPaths(),
    fields: new FoundPaths(),
    embedded: new FoundPaths(),
  };
  #found = this.#unknown.fields;
  readonly #resolve: SchemaResolver;

  constructor(resolve: SchemaResolver) {
    this.#resolve = resolve;
  }

  /** In the order in which upstream finds them. */
  get unknown(): readonly string[] {
    const { metadata, fields, embedded } = this.#unknown;
    return [metadata, fields, embedded].flatMap((it) => it.all.toSorted());
  }

  prune(value: unknown, schema: Schema, path: string): unknown {
    if (typeof value !== "object" || value === null) return value;
    const target = deref(schema, this.#resolve);
    if (Array.isArray(value)) return this.#list(value, target, path);
    return isObject(value) ? this.#map(value, target, path) : value;
  }

  #list(list: readonly unknown[], schema: Schema, path: string): unknown {
    const { items } = schema;
    if (items === undefined) return list;
    const pruned = list.map((item, at) => this.prune(item, items, `${path}[${at}]`));
    return pruned.every((item, at) => item === list[at]) ? list : pruned;
  }

  #map(value: Record<string, unknown>, schema: Schema, path: string): unknown {
    const isEmbedded = schema["x-kubernetes-embedded-resource"] === true;
    const { properties = {}, ...rest } = isEmbedded ? withObjectFields(schema) : schema;
    const additional = rest.additionalProperties;
    const keepsUnknown = rest["x-kubernetes-preserve-unknown-fields"] === true || additional === true;
    const isWhole = isEmbedded || path === "";
    const names = Object.keys(value);
    const kept = names.map((name) => {
      const below = Object.hasOwn(properties, name) ? properties[name] : additional;
      if (typeof below === "object") return this.#field(value[name], below, { name, path, isWhole });
      if (!keepsUnknown) this.#found.add(() => fieldPath(path, name));
      return keepsUnknown ? value[name] : DROPPED;
    });
    if (names.every((name, at) => kept[at] === value[name])) return value;
    const pruned: Record<string, unknown> = {};
    for (const [at, name] of names.entries()) if (kept[at] !== DROPPED) pruned[name] = kept[at];
    return pruned;
  }

  #field(
    value: unknown,
    schema: Schema,
    { name, path, isWhole }: { name: string; path: string; isWhole: boolean },
  ): unknown {
    if (typeof value !== "object" || value === null) return value;
    const at = fieldPath(path, name);
    if (!isWhole || (at !== "metadata" && !at.endsWith(".metadata"))) return this.prune(value, schema, at);
    const found = this.#found;
    this.#found = at === "metadata" ? this.#unknown.metadata : this.#unknown.embedded;
    const pruned = this.prune(value, schema, at);
    this.#found = found;
    return pruned;
  }
}

const DROPPED = Symbol("not part of the schema");

const MAX_PROBLEMS = 100;

/** The text of a refusal or of warnings: `unknown field "spec.foo"`, `duplicate field "spec.bar"`. */
export function fieldProblems(
  unknown: readonly string[],
  duplicates: readonly string[],
  duplicatesIn: "" | "json patch " = "",
): string[] {
  return [
    ...duplicates.map((path) => `${duplicatesIn}duplicate field ${JSON.stringify(path)}`),
    ...unknown.map((path) => `unknown field ${JSON.stringify(path)}`),
  ].slice(0, MAX_PROBLEMS);
}
