import { isObject } from "#base/json.ts";
import { BUILTIN_SPECIALS } from "../schema/builtin-specials.ts";
import { REF_PREFIX } from "../schema/definitions.ts";
import { GO_TYPES, type GoType } from "../schema/go-types.ts";
import { ALWAYS, MAP, POINTER, REPEATED } from "../schema/protobuf-messages.ts";
import type { Schema } from "../schema/types.ts";
import type { Fields } from "./fields.ts";

/**
 * What Go writes of a struct although nobody set it: fields without `omitempty`, and structs that are held by value
 * (`status: {}`). Clients in other languages rely on `replicas: 0` and the like.
 */
interface Plan {
  /** Values of fields that are absent. */
  readonly zeroes: readonly (readonly [field: string, zero: () => unknown])[];
  /** Fields whose values have such fields themselves. */
  readonly deeper: readonly (readonly [field: string, ref: string])[];
}

/** Sets in place what is absent. */
export function fillZeroes(object: Fields, { $ref = "" }: Schema): void {
  const plan = PLANS.get($ref);
  if (plan === undefined) return;
  for (const [field, zero] of plan.zeroes) object[field] ??= zero();
  for (const [field, ref] of plan.deeper) {
    const value = object[field];
    for (const it of Array.isArray(value) ? value : [value]) if (isObject(it)) fillZeroes(it, { $ref: ref });
  }
}

function plans(): ReadonlyMap<string, Plan> {
  const made = new Map<string, Plan>();
  const planOf = (ref: string): Plan | undefined => {
    const known = made.get(ref);
    const type = GO_TYPES.get(ref);
    if (known !== undefined || type === undefined || type.bits === undefined || type.special !== undefined) {
      return known;
    }
    const zeroes: (readonly [string, () => unknown])[] = [];
    const deeper: (readonly [string, string])[] = [];
    const plan = { zeroes, deeper };
    // A type may hold itself: it is known before its fields are looked at.
    made.set(ref, plan);
    for (const [field, schema] of Object.entries(type.schema.properties ?? {})) {
      const zero = zeroOf(type, field, schema);
      if (zero !== undefined) zeroes.push([field, zero]);
      const inner = schema.$ref ?? schema.items?.$ref;
      if (inner !== undefined && !isEmptyPlan(planOf(inner))) deeper.push([field, inner]);
    }
    return plan;
  };
  for (const ref of GO_TYPES.keys()) planOf(ref);
  return made;
}

function isEmptyPlan(plan: Plan | undefined): boolean {
  return plan === undefined || plan.zeroes.length + plan.deeper.length === 0;
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
