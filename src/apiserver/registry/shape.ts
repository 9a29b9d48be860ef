import { cloneJson, sameJson } from "#base/json.ts";
import { apply } from "../patch/apply.ts";
import { trackUpdate } from "../patch/track-update.ts";
import { resolveDefinition } from "../schema/definitions.ts";
import type { Schema } from "../schema/types.ts";
import type { FieldError } from "../status.ts";
import type { ApiObject, ResourceDefinition } from "./types.ts";
import { timestamp } from "./metadata.ts";
import { apiVersionOf, type WriteRequest } from "./write.ts";

/** What schemas and field managers have to say about an object. */

export type FieldValidation = "Strict" | "Warn" | "Ignore";

export interface FieldCheck {
  readonly definition: { readonly schema: Schema; readonly kind: string };
  readonly object: ApiObject;
  readonly duplicates: readonly string[];
  readonly validation: FieldValidation;
  readonly warn: (message: string) => void;
}

export function checkFields(_check: FieldCheck): void {}

export function applySchemaDefaults(_definition: ResourceDefinition, _object: ApiObject): void {}

export function validateSchema(
  _definition: ResourceDefinition,
  _object: ApiObject,
  _old: ApiObject | undefined,
): readonly FieldError[] {
  return [];
}

/** The object with what it changes given to the one who changes it. */
export function trackChange(
  { definition, fieldManager, subresource }: WriteRequest,
  after: ApiObject,
  before: ApiObject | undefined,
  nowMs: number,
): ApiObject {
  const origin = originOf({ definition, manager: fieldManager, subresource, nowMs });
  return trackUpdate({ ...origin, before, after });
}

export interface Application {
  readonly definition: ResourceDefinition;
  readonly live: ApiObject | undefined;
  readonly config: ApiObject;
  readonly manager: string;
  readonly force: boolean;
  readonly subresource: string;
  readonly nowMs: number;
}

/** Server-side apply: the live object with `config` merged into it. */
export function applyConfiguration({ live, config, force, ...of }: Application): ApiObject {
  return apply({ ...originOf(of), live, applied: config, force });
}

function originOf({
  definition,
  manager,
  subresource,
  nowMs,
}: Pick<Application, "definition" | "manager" | "subresource" | "nowMs">): Omit<
  Parameters<typeof trackUpdate>[0],
  "before" | "after"
> {
  const { schema, hasStatus } = definition;
  const apiVersion = apiVersionOf(definition);
  return {
    manager,
    apiVersion,
    subresource,
    hasStatus,
    now: timestamp(nowMs),
    schema,
    resolve: resolveDefinition,
  };
}

/** A custom object as it reads under `schema`; the object itself where that changes nothing. */
export function shapeCustom(schema: Schema, object: ApiObject): ApiObject {
  const copy = cloneJson(object);
  return sameJson(copy, object) ? object : copy;
}

export function validateStructural(_schema: Schema, _field: string): readonly FieldError[] {
  return [];
}
