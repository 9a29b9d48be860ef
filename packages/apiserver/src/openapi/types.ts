import type { AbsentFields } from "#schema/releases.ts";
import type { Schema } from "#schema/types.ts";

/** The properties of a resource that a document needs. A `ResourceDefinition` has them. */
export interface DocumentedResource {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly listKind: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
  readonly schema: Schema;
  readonly absent?: AbsentFields | undefined;
  readonly hasStatus: boolean;
  readonly scale?: object;
  readonly isCustom: boolean;
  readonly strategy?: { readonly fieldSelectors?: object };
}

/** A resource that only answers POST. A `ReviewDefinition` is one. */
export interface DocumentedReview extends GroupVersion {
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  readonly parent?: string;
  readonly kindApiVersion?: string;
  readonly schema: Schema;
}

export interface GroupVersion {
  readonly group: string;
  readonly version: string;
}

/** "api/v1", "apis/apps/v1": the key of a document in the index, and what follows `/openapi/v3/`. */
export function openapiPath({ group, version }: GroupVersion): string {
  return group === "" ? `api/${version}` : `apis/${group}/${version}`;
}
