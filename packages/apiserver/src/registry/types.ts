import type { ApiObject, ObjectReader, UserInfo } from "#values/object.ts";
import type { AbsentFields } from "#schema/releases.ts";
import type { Schema } from "#schema/types.ts";
import type { FieldError } from "#status.ts";

/** One write, as strategies see it. */
export interface WriteContext {
  readonly user: UserInfo;
  readonly dryRun: boolean;
  /** Empty for the main resource. */
  readonly subresource: string;
  readonly reader: ObjectReader;
  /** Unit: milliseconds since the epoch. */
  readonly nowMs: number;
  /** Adds a `Warning` header to the answer. */
  warn(message: string): void;
}

/**
 * What a kind does beyond the common rules of metadata. All are called in the turn in which the write commits, so that
 * nothing else happens between them; none may wait. Objects may be changed in place by `applyDefaults` and `prepare*`.
 */
export interface Strategy {
  /** The fields that the server writes of an empty object; they have no owner until they are set. Default: none. */
  readonly empty?: Readonly<Record<string, unknown>>;
  /** Idempotent; runs on every write, before validation. */
  readonly applyDefaults?: (object: ApiObject) => void;
  /** Whether something that the cluster makes by itself is not there yet: a new object waits for it a moment. */
  readonly lacksPrerequisite?: (
    object: ApiObject,
    namespace: string | undefined,
    reader: ObjectReader,
  ) => boolean;
  /** Resets what clients may not set, allocates what the server gives. */
  readonly prepareForCreate?: (object: ApiObject, context: WriteContext) => void;
  readonly prepareForUpdate?: (object: ApiObject, old: ApiObject, context: WriteContext) => void;
  readonly validateCreate?: (object: ApiObject, context: WriteContext) => readonly FieldError[];
  readonly validateUpdate?: (
    object: ApiObject,
    old: ApiObject,
    context: WriteContext,
  ) => readonly FieldError[];
  /** The metadata that an update of the status keeps. Default: nothing. */
  readonly keptByStatus?: readonly ("labels" | "ownerReferences")[];
  /** After a change is in the store, and once for each object at start-up; `undefined` means absent. */
  readonly onStored?: (after: ApiObject | undefined, before: ApiObject | undefined) => void;
  /** Which changes raise `metadata.generation`. "spec": anything but metadata and status; "none": the kind has none;
   * "first": it stays 1. */
  readonly generation: "spec" | "spec-and-labels" | "spec-and-annotations" | "first" | "none";
  /** Whether PUT without a resourceVersion is taken. */
  readonly allowUnconditionalUpdate: boolean;
  /** Whether a status given at creation is kept although there is a status subresource (Node). Default: false. */
  readonly keepsStatusOnCreate?: boolean;
  /** Whether PUT of an absent object creates it. */
  readonly allowCreateOnUpdate: boolean;
  /** Unit: seconds; for kinds that are deleted gracefully (Pod). Absent or 0: at once. */
  readonly gracePeriodSeconds?: (object: ApiObject, requested: number | undefined) => number;
  /** For kinds that end in a way of their own (Namespace): the first DELETE sets deletionTimestamp, does this and no more. */
  readonly beginDeletion?: (object: ApiObject, nowMs: number) => void;
  /** The propagation policy if the client does not set one; deletions of some kinds do not support any. Default: "Background". */
  readonly defaultPropagation?: "Background" | "Orphan" | "Unsupported";
  /** The warning to a client that does not set a propagation policy. */
  readonly propagationWarning?: string;
  /** Field selectors beyond metadata.name and metadata.namespace: path to value. */
  readonly fieldSelectors?: Readonly<Record<string, (object: ApiObject) => string>>;
  /** Extra check of the object's name. Default: DNS-1123 subdomain. Returns what is wrong, if anything. */
  readonly checkName?: (name: string) => string | readonly string[] | undefined;
}

export interface TableColumn {
  readonly name: string;
  readonly type: "string" | "integer" | "number" | "boolean" | "date";
  readonly format?: string;
  readonly description?: string;
  /** 0 is always shown, more only with `-o wide`. */
  readonly priority?: number;
  readonly cell: (object: ApiObject, nowMs: number) => string | number | boolean | null;
}

export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete" | "deletecollection";

/** A served resource: one group, version and plural. Built-in ones are a table, custom ones are made from CRDs. */
export interface ResourceDefinition {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly singular: string;
  readonly kind: string;
  readonly listKind: string;
  readonly namespaced: boolean;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly verbs: readonly Verb[];
  /** The schema of the whole object; `$ref`s are found in the generated definitions. */
  readonly schema: Schema;
  /** The schemas of all versions of a custom kind of which the objects differ in nothing but the apiVersion. */
  readonly schemaOf?: ((apiVersion: string) => Schema | undefined) | undefined;
  /** Fields of these definitions that the served release does not have. Default: it has all. */
  readonly absent?: AbsentFields | undefined;
  readonly strategy: Strategy;
  readonly columns: readonly TableColumn[];
  /** The conditions of a Table row, for example that a Pod has finished. */
  readonly rowConditions?: (object: ApiObject) => readonly object[] | undefined;
  readonly hasStatus: boolean;
  /** Where `scale` reads and writes; JSON paths as CRDs write them. */
  readonly scale?: {
    readonly specReplicasPath: string;
    readonly statusReplicasPath: string;
    readonly labelSelectorPath?: string;
  };
  readonly isCustom: boolean;
  /** Sent as a `Warning` header with every answer. */
  readonly deprecationWarning?: string;
  /** Kinds served in several groups or versions share the store of this one. Default: itself. */
  readonly storedAs?: { readonly group: string; readonly plural: string };
  /** Whether a webhook converts between versions, so that `fromStored` and `toStored` may throw `Pending`. */
  readonly isConverted?: boolean;
  /** The apiVersion of what is stored, where it may be that of another version. */
  readonly storedVersion?: string;
  /** Whether reading adds nothing to a stored object: defaults that it lacks are stored by the next update, even one that changes nothing. */
  readonly isWhole?: (stored: ApiObject) => boolean;
  /** Has all of `objects` converted at once, where a webhook does it. Throws `Pending` when it has to be asked. */
  readonly prepareStored?: (objects: Iterable<ApiObject>) => void;
  /** From the stored form to this version, and back; copies, never changes in place. Default: only apiVersion is set. */
  readonly fromStored?: (object: ApiObject) => ApiObject;
  readonly toStored?: (object: ApiObject) => ApiObject;
}

/** A resource that only answers POST and stores nothing: reviews. */
export interface ReviewDefinition {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** The parent's plural, for subresources: "serviceaccounts" for serviceaccounts/token, whose `plural` is "token". */
  readonly parent?: string;
  /** apiVersion of the kind, where it is not that of the path: "authentication.k8s.io/v1" for TokenRequest under /api/v1. */
  readonly kindApiVersion?: string;
  readonly schema: Schema;
  /** The defaults of the request. */
  readonly applyDefaults?: (object: ApiObject) => void;
  readonly review: (request: ReviewRequest) => Promise<ApiObject> | ApiObject;
}

export interface ReviewRequest {
  readonly object: ApiObject;
  readonly user: UserInfo;
  readonly namespace: string | undefined;
  /** The parent's name, for subresources. */
  readonly name: string | undefined;
  readonly reader: ObjectReader;
  readonly nowMs: number;
}
