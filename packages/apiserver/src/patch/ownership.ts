import type { ApiObject } from "#values/object.ts";
import { objectSchema } from "#schema/definitions.ts";
import type { Schema, SchemaResolver } from "#schema/types.ts";
import { difference, filterTopLevel, type FieldSet } from "./field-set.ts";
import type { Manager } from "./managers.ts";
import { checkTyped } from "./typed-check.ts";
import { compareTyped, type Comparison } from "./typed-compare.ts";
import { TypedSets } from "./typed-sets.ts";

/** One write: who makes it, to what part of the object, when. */
export interface WriteOrigin {
  /** The `fieldManager` of the request, or the user agent up to its first slash. */
  readonly manager: string;
  /** The version in which the object is written. */
  readonly apiVersion: string;
  /** Empty for the object itself. */
  readonly subresource: string;
  /** Whether the kind has a status subresource: then writes to the object itself do not own its status. */
  readonly hasStatus: boolean;
  /** Through `status`, custom resources take the status alone; of built-in ones everything counts but the spec. */
  readonly isCustom?: boolean;
  /** RFC 3339, whole seconds. */
  readonly now: string;
  readonly schema: Schema;
  /** The schemas of other versions of a custom kind, whose objects differ in nothing but the apiVersion. */
  readonly schemaOf?: ((apiVersion: string) => Schema | undefined) | undefined;
  readonly resolve: SchemaResolver;
}

const LEAF: FieldSet = {};

/** Set by the server for every object, and never owned. Source: apimachinery, managedfields/stripmeta.go. */
const NEVER_OWNED: FieldSet = {
  "f:apiVersion": LEAF,
  "f:kind": LEAF,
  "f:metadata": {
    ".": LEAF,
    "f:name": LEAF,
    "f:namespace": LEAF,
    "f:creationTimestamp": LEAF,
    "f:selfLink": LEAF,
    "f:uid": LEAF,
    "f:clusterName": LEAF,
    "f:generation": LEAF,
    "f:managedFields": LEAF,
    "f:resourceVersion": LEAF,
  },
};

/** The fields in a set that a manager may own. */
export function ownable(set: FieldSet): FieldSet {
  return difference(set, NEVER_OWNED);
}

/** The object without `managedFields`, for comparing fields. */
export function withoutManagers(object: ApiObject): ApiObject {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}

/** The typed view of one write: its schema, and the fields that the write can have an effect on. */
export class Typed {
  readonly schema: Schema;
  readonly resolve: SchemaResolver;
  readonly sets: TypedSets;
  readonly #takes: (field: string) => boolean;
  readonly #origin: WriteOrigin;
  readonly #schemas = new Map<string, Schema>();

  constructor(origin: WriteOrigin) {
    this.schema = objectSchema(origin.schema);
    this.resolve = origin.resolve;
    this.sets = new TypedSets(origin.resolve);
    this.#takes = takenFields(origin);
    this.#origin = origin;
  }

  /** The schema by which managers of a version own fields: that of the write, where the version has none of its own. */
  schemaOf(apiVersion: string): Schema {
    const { apiVersion: own, schema, schemaOf } = this.#origin;
    if (schemaOf === undefined || apiVersion === own) return this.schema;
    const known = this.#schemas.get(apiVersion);
    if (known !== undefined) return known;
    const other = schemaOf(apiVersion);
    const found = other === undefined || other === schema ? this.schema : objectSchema(other);
    this.#schemas.set(apiVersion, found);
    return found;
  }

  /** Whether a version has a schema of its own. */
  isOther(apiVersion: string): boolean {
    return this.schemaOf(apiVersion) !== this.schema;
  }

  /** Reasons why a stored object is not one of the version of the write. */
  ownProblems(object: unknown): readonly string[] {
    return checkTyped(object, this.schema, this.resolve, { allowsDuplicates: true });
  }

  /** Reasons why an object of the write is not one of another version. */
  problemsIn(object: unknown, apiVersion: string): readonly string[] {
    return checkTyped(object, this.schemaOf(apiVersion), this.resolve);
  }

  /** The fields of a set that are not reset by the part of the object that is written. */
  effective(set: FieldSet): FieldSet {
    return filterTopLevel(set, this.#takes);
  }

  compare(before: unknown, after: unknown): Comparison {
    return this.#taken(compareTyped(before, after, this.schema, this.resolve));
  }

  #taken({ added, modified, removed }: Comparison): Comparison {
    return {
      added: this.effective(added),
      modified: this.effective(modified),
      removed: this.effective(removed),
    };
  }

  /** The change as managers of another version see it. Only writes of the status reset fields of all versions. */
  compareIn(apiVersion: string, before: unknown, after: unknown): Comparison {
    const all = compareTyped(before, after, this.schemaOf(apiVersion), this.resolve);
    return this.#origin.subresource === "status" ? this.#taken(all) : all;
  }

  /** Brings sets that were written under an older schema in line with the present one. */
  reconcile(managers: Map<string, Manager>): void {
    for (const [identity, manager] of managers) {
      const set = this.sets.reconcile(manager.set, this.schemaOf(manager.apiVersion));
      if (set !== manager.set) managers.set(identity, { ...manager, set });
    }
  }
}

function takenFields({ subresource, hasStatus, isCustom }: WriteOrigin): (field: string) => boolean {
  if (subresource === "status" && isCustom === true) return (field) => field === "status";
  if (subresource === "status") return (field) => field !== "spec";
  if (subresource === "" && hasStatus) return (field) => field !== "status";
  return () => true;
}
