import type { Schema } from "../schema/types.ts";
import type { FieldError } from "../status.ts";
import type { ApiObject, ResourceDefinition } from "./types.ts";
import type { WriteRequest } from "./write.ts";

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

export function trackChange(
  _request: WriteRequest,
  _object: ApiObject,
  _old: ApiObject | undefined,
  _nowMs: number,
): void {}

export interface Application {
  readonly definition: ResourceDefinition;
  readonly live: ApiObject | undefined;
  readonly config: ApiObject;
  readonly manager: string;
  readonly force: boolean;
  readonly subresource: string;
  readonly nowMs: number;
}

export function applyConfiguration({ config }: Application): ApiObject {
  return config;
}
