import { isObject, own } from "@fairlead/base/json.ts";
import { goText } from "#patch/go-text.ts";
import { invalid } from "#values/field-errors.ts";
import type { FieldError } from "#status.ts";
import type { ApiObject } from "#values/object.ts";
import type { ResourceDefinition } from "./types.ts";

const MAX_REPLICAS = 2 ** 31 - 1;

/**
 * Checks the fields that `scale` of a custom resource reads: replicas are numbers, a selector is a text.
 * Source: apiextensions-apiserver, pkg/registry/customresource, `ValidateScaleSpec`.
 */
export function validateScale(
  object: ApiObject,
  { specReplicasPath, statusReplicasPath, labelSelectorPath }: NonNullable<ResourceDefinition["scale"]>,
  subresource: string,
): readonly FieldError[] {
  return [
    ...(subresource === "status" ? [] : validateReplicas(object, specReplicasPath)),
    ...validateReplicas(object, statusReplicasPath),
    ...(labelSelectorPath === undefined ? [] : validateSelector(object, labelSelectorPath)),
  ];
}

function validateReplicas(object: ApiObject, path: string): readonly FieldError[] {
  const { value, problem } = read(object, path);
  if (problem !== undefined) return [invalid(path, 0, problem)];
  if (value === undefined) return [];
  if (!Number.isInteger(value) && typeof value !== "bigint")
    return [invalid(path, 0, wrongType(path, value, "int64"))];
  const replicas = Number(value);
  if (replicas < 0) return [invalid(path, value, "should be a non-negative integer")];
  return replicas > MAX_REPLICAS
    ? [invalid(path, value, `should be less than or equal to ${MAX_REPLICAS}`)]
    : [];
}

function validateSelector(object: ApiObject, path: string): readonly FieldError[] {
  const { value, problem } = read(object, path);
  if (problem !== undefined) return [invalid(path, "", problem)];
  return value === undefined || typeof value === "string"
    ? []
    : [invalid(path, "", wrongType(path, value, "string"))];
}

/** The value at a path of names; undefined if it is absent. */
function read(object: ApiObject, path: string): { readonly value?: unknown; readonly problem?: string } {
  const names = path.replace(/^\./, "").split(".");
  let value: unknown = object;
  for (const [at, name] of names.entries()) {
    if (value === null) return {};
    if (!isObject(value))
      return { problem: wrongType(`.${names.slice(0, at + 1).join(".")}`, value, "map[string]interface{}") };
    value = own(value, name);
    if (value === undefined) return {};
  }
  return { value };
}

function wrongType(path: string, value: unknown, expected: string): string {
  return `${path} accessor error: ${goText(value)} is of the type ${goType(value)}, expected ${expected}`;
}

/** The type of a value as Go's `%T` prints it. */
function goType(value: unknown): string {
  if (value === null) return "<nil>";
  if (Array.isArray(value)) return "[]interface {}";
  if (typeof value === "object") return "map[string]interface {}";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "string") return "string";
  return typeof value === "bigint" || Number.isInteger(value) ? "int64" : "float64";
}
