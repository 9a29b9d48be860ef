import type { ApiObject, ResourceDefinition, Strategy, TableColumn, Verb } from "../registry/types.ts";
import { builtinSchema, splitApiVersion } from "../schema/definitions.ts";
import type { Schema } from "../schema/types.ts";
import { fallbackColumns } from "./columns/common.ts";

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

/** What a built-in kind says of itself; everything else follows from the usual rules. */
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
  readonly hasStatus?: boolean;
  /** Whether `spec.replicas` can be set through `scale`. */
  readonly hasScale?: boolean;
  readonly strategy?: Partial<Strategy>;
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
  const { storedAs, fromStored, toStored } = definition;
  return {
    group,
    version,
    kind,
    listKind: `${kind}List`,
    plural: definition.plural,
    singular: definition.singular ?? kind.toLowerCase(),
    namespaced: definition.clusterScoped !== true,
    shortNames: definition.shortNames ?? [],
    categories: definition.categories ?? [],
    verbs: definition.verbs ?? ALL_VERBS,
    schema: schemaOf(apiVersion, kind),
    columns: definition.columns ?? fallbackColumns,
    hasStatus: definition.hasStatus ?? false,
    ...(definition.hasScale === true ? { scale: SCALE } : {}),
    isCustom: false,
    strategy: {
      generation: "spec",
      allowUnconditionalUpdate: true,
      allowCreateOnUpdate: false,
      ...definition.strategy,
    },
    ...(storedAs === undefined ? {} : { storedAs }),
    ...(fromStored === undefined ? {} : { fromStored }),
    ...(toStored === undefined ? {} : { toStored }),
  };
}

/** @throws {Error} when the generated definitions lack the kind: the tables of this folder do not fit them. */
export function schemaOf(apiVersion: string, kind: string): Schema {
  const { group, version } = splitApiVersion(apiVersion);
  const schema = builtinSchema(group, version, kind);
  if (schema === undefined) throw new Error(`no schema of ${apiVersion} ${kind}`);
  return schema;
}
