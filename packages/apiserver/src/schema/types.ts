/**
 * A schema as OpenAPI v3 and CustomResourceDefinitions write it, Kubernetes' markers included. Built-in kinds come
 * from generated tables in which `$ref` names another definition; a CRD's schema has no `$ref`.
 */
export interface Schema {
  readonly $ref?: string;
  readonly type?: "object" | "array" | "string" | "integer" | "number" | "boolean";
  readonly format?: string;
  readonly title?: string;
  readonly description?: string;
  readonly nullable?: boolean;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: boolean;
  readonly exclusiveMaximum?: boolean;
  readonly multipleOf?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly allOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly not?: Schema;
  readonly "x-kubernetes-list-type"?: "atomic" | "set" | "map";
  readonly "x-kubernetes-list-map-keys"?: readonly string[];
  readonly "x-kubernetes-map-type"?: "granular" | "atomic";
  readonly "x-kubernetes-patch-strategy"?: string;
  readonly "x-kubernetes-patch-merge-key"?: string;
  readonly "x-kubernetes-int-or-string"?: boolean;
  readonly "x-kubernetes-preserve-unknown-fields"?: boolean;
  readonly "x-kubernetes-embedded-resource"?: boolean;
  readonly "x-kubernetes-validations"?: readonly ValidationRule[];
  readonly "x-kubernetes-group-version-kind"?: readonly { group: string; version: string; kind: string }[];
}

/** A CEL rule. */
export interface ValidationRule {
  readonly rule: string;
  readonly message?: string;
  readonly messageExpression?: string;
  readonly reason?: string;
  readonly fieldPath?: string;
  readonly optionalOldSelf?: boolean;
}

/** Finds what a `$ref` names; for a CRD's schema it is never asked. */
export type SchemaResolver = (ref: string) => Schema | undefined;
