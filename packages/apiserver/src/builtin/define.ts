import type { ResourceDefinition, Strategy, TableColumn, Verb, WriteContext } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { validateMetadata } from "#registry/metadata.ts";
import { builtinSchema, splitApiVersion } from "#schema/definitions.ts";
import type { Schema } from "#schema/types.ts";
import type { FieldError } from "#status.ts";
import { fallbackColumns } from "./columns/common.ts";
import { described } from "./columns/descriptions.ts";
import { fillStored, fillZeroes } from "./zeroes.ts";

const ALL_VERBS: readonly Verb[] = [
  "create",
  "delete",
  "deletecollection",
  "get",
  "list",
  "patch",
  "update",
  "watch",
];

/** The properties of a built-in kind; everything else follows from the common rules. */
export interface Definition {
  readonly plural: string;
  /** Default: the kind in lower case. */
  readonly singular?: string;
  /** Default: false, namespaced. */
  readonly clusterScoped?: boolean;
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
  readonly verbs?: readonly Verb[];
  /** Default: Name and Created At. */
  readonly columns?: readonly TableColumn[];
  readonly rowConditions?: NonNullable<ResourceDefinition["rowConditions"]>;
  readonly hasStatus?: boolean;
  /** Whether `spec.replicas` can be set through `scale`. */
  readonly hasScale?: boolean;
  readonly strategy?: Partial<Strategy>;
  /** Warnings about valid but discouraged objects: sent as `Warning` headers. `old` is absent at creation. */
  readonly warnings?: (object: ApiObject, old: ApiObject | undefined) => readonly string[];
  /** Sent as a `Warning` header with every answer. */
  readonly deprecationWarning?: string;
  readonly storedAs?: { readonly group: string; readonly plural: string };
  readonly fromStored?: (object: ApiObject) => ApiObject;
  readonly toStored?: (object: ApiObject) => ApiObject;
}

const SCALE = {
  specReplicasPath: ".spec.replicas",
  statusReplicasPath: ".status.replicas",
  labelSelectorPath: ".spec.selector",
};

/**
 * A built-in kind. Unless it says otherwise it has a `generation` that counts changes of its spec, takes updates without
 * resourceVersion and is not created by PUT, as most kinds.
 */
export function define(apiVersion: string, kind: string, definition: Definition): ResourceDefinition {
  const { group, version } = splitApiVersion(apiVersion);
  const { singular, clusterScoped, columns, hasScale, strategy: _, warnings: __, ...rest } = definition;
  return {
    shortNames: [],
    categories: [],
    verbs: ALL_VERBS,
    hasStatus: false,
    ...rest,
    group,
    version,
    kind,
    listKind: `${kind}List`,
    singular: singular ?? kind.toLowerCase(),
    namespaced: clusterScoped !== true,
    schema: schemaOf(apiVersion, kind),
    columns: described(columns ?? fallbackColumns, group, definition.plural),
    ...(hasScale === true ? { scale: SCALE } : {}),
    isCustom: false,
    strategy: completed(schemaOf(apiVersion, kind), group, definition),
  };
}

/**
 * The strategy with what all built-in kinds share: objects are written with the zero values that Go writes, and an object
 * that is right may still be warned of.
 */
function completed(schema: Schema, group: string, { strategy = {}, warnings }: Definition): Strategy {
  const { prepareForCreate, prepareForUpdate, validateCreate, validateUpdate } = strategy;
  const named = { group, strategy, isCustom: false };
  const empty = {};
  fillZeroes(empty, schema);
  const checked = (
    errors: readonly FieldError[],
    { object, old, context }: { object: ApiObject; old?: ApiObject; context: WriteContext },
  ): readonly FieldError[] => {
    // Warnings about the spec do not concern writers of the status.
    if (warnings === undefined || context.subresource === "status") return errors;
    const isRight = errors.length === 0 && validateMetadata(object, named).length === 0;
    if (isRight) for (const text of warnings(object, old)) context.warn(text);
    return errors;
  };
  return {
    generation: "spec",
    allowUnconditionalUpdate: true,
    allowCreateOnUpdate: false,
    ...strategy,
    empty,
    applyDefaults: (object) => {
      fillZeroes(object, schema);
      strategy.applyDefaults?.(object);
    },
    prepareForCreate: (object, context) => {
      prepareForCreate?.(object, context);
      fillStored(object, schema);
    },
    prepareForUpdate: (object, old, context) => {
      prepareForUpdate?.(object, old, context);
      fillStored(object, schema);
    },
    validateCreate: (object, context) =>
      checked(validateCreate?.(object, context) ?? [], { object, context }),
    validateUpdate: (object, old, context) =>
      checked(validateUpdate?.(object, old, context) ?? [], { object, old, context }),
  };
}

/** @throws {Error} when the generated definitions lack the kind: the tables of this folder do not fit them. */
export function schemaOf(apiVersion: string, kind: string): Schema {
  const { group, version } = splitApiVersion(apiVersion);
  const schema = builtinSchema(group, version, kind);
  if (schema === undefined) throw new Error(`no schema of ${apiVersion} ${kind}`);
  return schema;
}
