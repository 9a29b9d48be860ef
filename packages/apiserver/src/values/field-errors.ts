import type { FieldError } from "#status.ts";

/** Causes with upstream's texts. Source: k8s.io/apimachinery, pkg/util/validation/field. */

export function required(field: string, detail = ""): FieldError {
  return { type: "FieldValueRequired", field, message: join("Required value", detail) };
}

export function invalid(field: string, value: unknown, detail: string): FieldError {
  return { type: "FieldValueInvalid", field, message: join(`Invalid value: ${show(value)}`, detail) };
}

export function notSupported(field: string, value: unknown, supported: readonly string[]): FieldError {
  const list = supported.map(show).join(", ");
  return {
    type: "FieldValueNotSupported",
    field,
    message: `Unsupported value: ${show(value)}: supported values: ${list}`,
  };
}

export function notAllowed(field: string, detail: string): FieldError {
  return { type: "FieldValueForbidden", field, message: join("Forbidden", detail) };
}

export function duplicate(field: string, value: unknown): FieldError {
  return { type: "FieldValueDuplicate", field, message: `Duplicate value: ${show(value)}` };
}

export function absent(field: string, value: unknown, detail = ""): FieldError {
  return { type: "FieldValueNotFound", field, message: join(`Not found: ${show(value)}`, detail) };
}

/** @param limit - Unit: bytes. */
export function tooLong(field: string, limit: number): FieldError {
  return { type: "FieldValueTooLong", field, message: `Too long: may not be more than ${limit} bytes` };
}

export function tooMany(field: string, count: number, limit: number): FieldError {
  const noun = limit === 1 ? "item" : "items";
  return {
    type: "FieldValueTooMany",
    field,
    message: `Too many: ${count}: must have at most ${limit} ${noun}`,
  };
}

export const IMMUTABLE = "field is immutable";

/** An error when `value` is not one of `supported`; `undefined` is left to others. */
export function unlessOneOf(field: string, value: unknown, supported: readonly string[]): FieldError[] {
  if (value === undefined || supported.some((it) => it === value)) return [];
  return [notSupported(field, value, supported)];
}

/** An error when a number is outside `[min, max]`; `undefined` is left to others. */
export function unlessInRange(field: string, value: unknown, min: number, max: number): FieldError[] {
  if (value === undefined) return [];
  if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return [];
  return [invalid(field, value, `must be between ${min} and ${max}, inclusive`)];
}

function show(value: unknown): string {
  return value === undefined ? "null" : JSON.stringify(value);
}

function join(head: string, detail: string): string {
  return detail === "" ? head : `${head}: ${detail}`;
}
