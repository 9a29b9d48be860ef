import { isObject } from "@fairlead/base/json.ts";
import type { Schema } from "./types.ts";

/**
 * How many checks of `schema` apply to `value`, counted as upstream does to choose which alternative of an `anyOf` or `oneOf` to report:
 * the first with the highest count. Source: kube-openapi, pkg/validation/validate, `MatchCount`.
 */
export function countChecks(
  value: unknown,
  schema: Schema,
  isValid: (value: unknown, schema: Schema) => boolean,
): number {
  const count = (of: unknown, by: Schema): number => countChecks(of, by, isValid);
  const sum = (counts: readonly number[]): number => counts.reduce((a, b) => a + b, 0);
  const { anyOf = [], oneOf = [], allOf = [] } = schema;
  const ofAlternatives = (alternatives: readonly Schema[]): number => {
    const valid = alternatives.find((it) => isValid(value, it));
    if (valid !== undefined) return count(value, valid);
    return Math.max(0, ...alternatives.map((it) => count(value, it)));
  };
  // The combinations and the common checks apply to every value, and the schema counts once by itself.
  let checks = 4 + ofAlternatives(anyOf) + ofAlternatives(oneOf) + sum(allOf.map((it) => count(value, it)));
  if (schema.type !== undefined) checks += 2;
  if (typeof value === "string") checks += schema.format === undefined ? 1 : 2;
  if (typeof value === "number") checks += 2;
  if (Array.isArray(value)) {
    const { items } = schema;
    return checks + 2 + (items === undefined ? 0 : sum(value.map((it) => count(it, items))));
  }
  if (!isObject(value)) return checks;
  const { properties = {}, additionalProperties: additional } = schema;
  const below = Object.entries(value).map(([key, it]) => {
    const known = Object.hasOwn(properties, key) ? properties[key] : undefined;
    const by = known ?? (typeof additional === "object" ? additional : undefined);
    return by === undefined ? 0 : count(it, by);
  });
  return checks + 1 + sum(below);
}
