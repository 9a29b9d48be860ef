import { BUILTIN_SPECIALS } from "./builtin-specials.ts";
import { DEFINITIONS, REF_PREFIX } from "./definitions.ts";
import { ALWAYS, MAP, MESSAGES, POINTER, REPEATED } from "./protobuf-messages.ts";
import goNames from "./go-names.json" with { type: "json" };
import type { Schema } from "./types.ts";

const NAMES: Readonly<Record<string, Readonly<Record<string, string>>>> = goNames;

/** Properties of the Go types behind the built-in kinds. */

/** A type that a `$ref` names. */
export interface GoType {
  readonly name: string;
  /** Without its package: "Container". */
  readonly struct: string;
  readonly schema: Schema;
  readonly special: ((value: unknown) => unknown) | undefined;
  readonly isSchemaOr: boolean;
  /** Bits of fields by their JSON names; undefined where nothing is known of them. */
  readonly bits: ReadonlyMap<string, number> | undefined;
  /** By field, the embedded type that it is of, with a dot behind it. */
  readonly embedded: ReadonlyMap<string, string>;
  /** By field, the type where it has a name of its own: "v1.Protocol". The OpenAPI documents do not have them. */
  readonly names: Readonly<Record<string, string>>;
  /**
   * Fields that are there before anything is set in them: structs by value, and, as null, lists that are always
   * written. Setting something in these does not create them.
   */
  readonly implied: ReadonlyMap<string, Implied>;
}

type Implied = Readonly<Record<string, unknown>> | null;

const APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";
const SCHEMA_OR = new Set(
  ["JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrStringArray"].map(
    (it) => `${APIEXTENSIONS}.${it}`,
  ),
);

/** By the `$ref` that names them. */
export const GO_TYPES: ReadonlyMap<string, GoType> = new Map(
  [...DEFINITIONS].map(([name, schema]) => [
    REF_PREFIX + name,
    {
      name,
      struct: name.slice(name.lastIndexOf(".") + 1),
      schema,
      special: BUILTIN_SPECIALS.get(name),
      isSchemaOr: SCHEMA_OR.has(name),
      bits: MESSAGES.has(name) ? new Map(rowsOf(name)) : undefined,
      embedded: new Map(embeddedIn(name)),
      names: NAMES[name] ?? {},
      implied: new Map(
        rowsOf(name).flatMap(([field, bits]) => impliedBy(schema.properties?.[field], field, bits)),
      ),
    },
  ]),
);

function embeddedIn(name: string, path = ""): [string, string][] {
  return [...(MESSAGES.get(name)?.values() ?? [])].flatMap((field): [string, string][] => {
    if (field.json !== "") return path === "" ? [] : [[field.json, path]];
    return embeddedIn(field.type, `${path}${field.type.slice(field.type.lastIndexOf(".") + 1)}.`);
  });
}

/** Fields of embedded types are those of the type around them. */
function rowsOf(name: string): [string, number][] {
  return [...(MESSAGES.get(name)?.values() ?? [])].flatMap((field) =>
    field.json === "" ? rowsOf(field.type) : [[field.json, field.bits] as [string, number]],
  );
}

function impliedBy(schema: Schema | undefined, field: string, bits: number): [string, Implied][] {
  if ((bits & (REPEATED | MAP)) !== 0) return (bits & ALWAYS) === 0 ? [] : [[field, null]];
  if ((bits & POINTER) !== 0 || schema?.$ref === undefined) return [];
  const target = DEFINITIONS.get(schema.$ref.slice(REF_PREFIX.length));
  return target?.properties === undefined ? [] : [[field, {}]];
}

const KEPT_EMPTY = new Set(["io.k8s.api.autoscaling.v2.HPAScalingRules.policies"]);

/** Whether a list gets a default where it is absent, and is refused where it is empty. */
export function keepsEmpty(name: string, field: string): boolean {
  return KEPT_EMPTY.has(`${name}.${field}`);
}

/** Whether Go leaves a zero value of the field out of JSON. What is unknown is kept. */
export function omitsZero({ name, bits }: GoType, field: string): boolean {
  return !keepsEmpty(name, field) && ((bits?.get(field) ?? POINTER) & (POINTER | ALWAYS)) === 0;
}

/** The zero value of a field of the type; undefined if it is omitted. */
export function impliedValue(ref: string, field: string): Implied | undefined {
  return GO_TYPES.get(ref)?.implied.get(field);
}
