import type { Schema } from "#schema/types.ts";
import {
  BOOL,
  BYTES,
  type CelType,
  DOUBLE,
  DURATION,
  DYN,
  INT,
  listOf,
  mapOf,
  STRING,
  structOf,
  TIMESTAMP,
} from "../type.ts";
import { escapeField } from "./escape.ts";

/** The type and maximum size of a value, derived from its schema for rules. Source: k8s.io/apiserver, pkg/cel/common. */
export interface DeclaredType {
  readonly type: CelType;
  /** Most items, entries, or characters; 0 where a value has no size. */
  readonly maxElements: number;
  /** Least that a value takes as JSON. Unit: bytes. */
  readonly minSize: number;
  readonly fields?: ReadonlyMap<string, DeclaredType>;
  /** Of a list its items, of a map its values. */
  readonly element?: DeclaredType;
  readonly key?: DeclaredType;
}

/** Largest request. Unit: bytes. */
export const MAX_REQUEST = 3 * 1024 * 1024;
const MAX_TEXT = MAX_REQUEST - 2;
/** A character takes up to four bytes. */
const BYTES_OF_CHARACTER = 4;

const TEXT: Schema = { type: "string" };

/** The schema as rules at the root of an object see it: of the metadata, only the names. */
export function rootSchema(schema: Schema): Schema {
  const metadata: Schema = { type: "object", properties: { name: TEXT, generateName: TEXT } };
  return { ...schema, properties: { ...schema.properties, apiVersion: TEXT, kind: TEXT, metadata } };
}

/** Undefined where a schema says too little of its values for rules to look at them. */
export function declaredType(schema: Schema, isRoot = false): DeclaredType | undefined {
  if (schema["x-kubernetes-int-or-string"] === true) {
    return { type: DYN, maxElements: maxOf(schema) ?? MAX_TEXT, minSize: 1 };
  }
  switch (schema.type) {
    case "array":
      return listType(schema);
    case "object":
      return objectType(isRoot ? rootSchema(schema) : schema);
    case "string":
      return stringType(schema);
    case "boolean":
      return { type: BOOL, maxElements: 0, minSize: 4 };
    case "number":
      return { type: DOUBLE, maxElements: 0, minSize: 1 };
    case "integer":
      return { type: INT, maxElements: 0, minSize: 1 };
    default:
      return undefined;
  }
}

function nested(schema: Schema): DeclaredType | undefined {
  return declaredType(schema, schema["x-kubernetes-embedded-resource"] === true);
}

function listType({ items, maxItems }: Schema): DeclaredType | undefined {
  const element = items === undefined ? undefined : nested(items);
  if (element === undefined) return undefined;
  const maxElements =
    maxItems === undefined ? Math.floor(MAX_TEXT / (element.minSize + 1)) : Math.max(0, maxItems);
  return { type: listOf(element.type), maxElements, minSize: 2, element };
}

const KEY: DeclaredType = { type: STRING, maxElements: 0, minSize: 2 };

function objectType(schema: Schema): DeclaredType | undefined {
  const { additionalProperties: additional, maxProperties } = schema;
  if (typeof additional !== "object") return structType(schema);
  const element = nested(additional);
  if (element === undefined) return undefined;
  const maxElements =
    maxProperties === undefined ? Math.floor(MAX_TEXT / (element.minSize + 6)) : Math.max(0, maxProperties);
  return { type: mapOf(STRING, element.type), maxElements, minSize: 2, element, key: KEY };
}

function structType({ properties = {}, required = [] }: Schema): DeclaredType {
  const fields = new Map<string, DeclaredType>();
  let minSize = 2;
  for (const [name, schema] of Object.entries(properties)) {
    const type = nested(schema);
    if (type === undefined) continue;
    const escaped = escapeField(name);
    if (escaped !== undefined) fields.set(escaped, type);
    if (required.includes(name) && schema.default === undefined) minSize += name.length + type.minSize + 4;
  }
  const types = new Map([...fields].map(([name, { type }]) => [name, type]));
  return { type: structOf("object", types), maxElements: 0, minSize, fields };
}

function maxOf({ maxLength }: Schema): number | undefined {
  return maxLength === undefined ? undefined : Math.max(0, maxLength) * BYTES_OF_CHARACTER;
}

function stringType(schema: Schema): DeclaredType {
  switch (schema.format) {
    case "byte":
      return { type: BYTES, maxElements: schema.maxLength ?? MAX_TEXT, minSize: 2 };
    case "duration":
      return { type: DURATION, maxElements: 32, minSize: 3 };
    case "date":
      return { type: TIMESTAMP, maxElements: 12, minSize: 12 };
    case "date-time":
      return { type: TIMESTAMP, maxElements: 32, minSize: 21 };
    default:
      return { type: STRING, maxElements: maxOf(schema) ?? longestOf(schema) ?? MAX_TEXT, minSize: 2 };
  }
}

/** Unit: bytes. */
function longestOf({ enum: values = [] }: Schema): number | undefined {
  if (values.length === 0) return undefined;
  return Math.max(...values.map((it) => (typeof it === "string" ? Buffer.byteLength(it) : 0)));
}
