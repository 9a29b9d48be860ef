import { isObject } from "@fairlead/base/json.ts";
import { BUILTIN_SPECIALS } from "#schema/builtin-specials.ts";
import { REF_PREFIX } from "#schema/definitions.ts";
import { GO_TYPES, type GoType, keepsEmpty } from "#schema/go-types.ts";
import { ALWAYS, MAP, POINTER, REPEATED } from "#schema/protobuf-messages.ts";
import { roundedQuantity } from "@fairlead/kube/api/meta/canonical-quantity.ts";
import type { Schema } from "#schema/types.ts";
import type { Fields } from "@fairlead/base/fields.ts";

/**
 * Unset fields that Go writes: fields without `omitempty`, and structs that are held by value (`status: {}`). Clients in
 * other languages rely on values such as `replicas: 0`.
 *
 * Empty lists and maps are left out like absent ones. Those without `omitempty` stay until the object is stored: as
 * protobuf, which has no empty list, so that they are read back as null.
 */
interface Plan {
  /** Values of fields that are absent. */
  readonly zeroes: readonly (readonly [field: string, zero: () => unknown])[];
  /** Lists and maps that are left out when they are empty. */
  readonly omitted: readonly string[];
  /** Those that are null after they were stored empty. */
  readonly nulled: readonly string[];
  /** Maps from resource to quantity, which are not finer than a thousandth. */
  readonly amounts: readonly string[];
  /** Fields whose values have such fields themselves. */
  readonly deeper: readonly (readonly [field: string, ref: string])[];
}

/** Sets in place what is absent. */
export function fillZeroes(object: Fields, schema: Schema): void {
  complete(object, schema, false);
}

/** As `fillZeroes`, for an object that is about to be stored. */
export function fillStored(object: Fields, schema: Schema): void {
  complete(object, schema, true);
}

function complete(object: Fields, { $ref = "" }: Schema, isStored: boolean): void {
  const plan = PLANS.get($ref);
  if (plan === undefined) return;
  dropEmpty(object, plan.omitted);
  // What is null by its zero below.
  if (isStored) dropEmpty(object, plan.nulled);
  for (const field of plan.amounts) roundAmounts(object[field]);
  for (const [field, zero] of plan.zeroes) object[field] ??= zero();
  for (const [field, ref] of plan.deeper) {
    const value = object[field];
    for (const it of Array.isArray(value) ? value : [value])
      if (isObject(it)) complete(it, { $ref: ref }, isStored);
  }
}

/** Source: k8s.io/kubernetes, pkg/apis/core/v1, `SetDefaults_ResourceList`. */
function roundAmounts(list: unknown): void {
  if (!isObject(list)) return;
  for (const [name, value] of Object.entries(list)) list[name] = roundedQuantity(value) ?? value;
}

function dropEmpty(object: Fields, fields: readonly string[]): void {
  for (const field of fields) if (isEmpty(object[field])) delete object[field];
}

function plans(): ReadonlyMap<string, Plan> {
  const made = new Map<string, Plan>();
  const planOf = (ref: string): Plan | undefined => {
    const known = made.get(ref);
    const type = GO_TYPES.get(ref);
    if (known !== undefined || type?.bits === undefined || type.special !== undefined) return known;
    const fields = Object.entries(type.schema.properties ?? {});
    const collections = fields.map(([field]) => field).filter((it) => isCollection(type, it));
    const zeroes = fields.flatMap(([field, schema]) => {
      const zero = zeroOf(type, field, schema);
      return zero === undefined ? [] : [[field, zero] as const];
    });
    const nulled = collections.filter((it) => zeroes.some(([field]) => field === it));
    const omitted = collections.filter((it) => !nulled.includes(it));
    const amounts = fields.flatMap(([field, { additionalProperties: of }]) =>
      isObject(of) && of["$ref"] === QUANTITY ? [field] : [],
    );
    const deeper: (readonly [string, string])[] = [];
    const plan = { zeroes, omitted, nulled, amounts, deeper };
    // A type may hold itself: it is known before its fields are looked at.
    made.set(ref, plan);
    for (const [field, schema] of fields) {
      const inner = schema.$ref ?? schema.items?.$ref;
      if (inner !== undefined && !isEmptyPlan(planOf(inner))) deeper.push([field, inner]);
    }
    return plan;
  };
  for (const ref of GO_TYPES.keys()) planOf(ref);
  return made;
}

function isEmptyPlan(plan: Plan | undefined): boolean {
  if (plan === undefined) return true;
  return [plan.zeroes, plan.omitted, plan.nulled, plan.amounts, plan.deeper].every((it) => it.length === 0);
}

const QUANTITY = `${REF_PREFIX}io.k8s.apimachinery.pkg.api.resource.Quantity`;

/** Kinds of API servers that store JSON: their empty lists stay. */
const STORED_AS_JSON = /^io\.k8s\.(apiextensions-apiserver|kube-aggregator)\./;

/** Whether the field is a list or map that is lost when it is empty. */
function isCollection({ name, bits }: GoType, field: string): boolean {
  const of = bits?.get(field) ?? 0;
  if ((of & (REPEATED | MAP)) === 0 || keepsEmpty(name, field)) return false;
  return !((of & ALWAYS) !== 0 && STORED_AS_JSON.test(name));
}

function isEmpty(value: unknown): boolean {
  return Array.isArray(value) ? value.length === 0 : isObject(value) && isEmptyObject(value);
}

function isEmptyObject(value: object): boolean {
  for (const _key in value) return false;
  return true;
}

/** Fields that their owner leaves out where nothing is set, although they are structs by value (`omitzero`). */
const LEFT_OUT = new Set(["creationTimestamp"]);
const NULLS = new Set(["Time", "MicroTime", "RawExtension"]);

function zeroOf({ bits }: GoType, field: string, schema: Schema): (() => unknown) | undefined {
  const of = bits?.get(field);
  if (of === undefined || LEFT_OUT.has(field)) return undefined;
  const isWritten = (of & ALWAYS) !== 0;
  if ((of & (REPEATED | MAP | POINTER)) !== 0) return isWritten ? () => null : undefined;
  if (schema.$ref === undefined) return isWritten ? () => scalarZero(schema) : undefined;
  const name = schema.$ref.slice(REF_PREFIX.length);
  if (BUILTIN_SPECIALS.has(name)) return specialZero(name);
  return GO_TYPES.get(schema.$ref)?.schema.properties === undefined ? undefined : () => ({});
}

function specialZero(name: string): (() => unknown) | undefined {
  const struct = name.slice(name.lastIndexOf(".") + 1);
  if (NULLS.has(struct)) return () => null;
  if (struct === "Quantity") return () => "0";
  return struct === "IntOrString" ? () => 0 : undefined;
}

function scalarZero({ type }: Schema): unknown {
  if (type === "string") return "";
  return type === "boolean" ? false : 0;
}

/** By the `$ref` of a type; only of those in which something is to be filled. */
const PLANS: ReadonlyMap<string, Plan> = plans();
