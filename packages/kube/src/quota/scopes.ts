import { type Fields, fieldsAt, itemsAt, stringsAt, textAt } from "@fairlead/base/fields.ts";

/** Which objects a quota is for. */
export interface Scope {
  readonly name: string;
  readonly operator: string;
  readonly values: readonly string[];
}

/** Of a quota's spec: all of them have to hold. */
export function scopesOf(spec: Fields | undefined): readonly Scope[] {
  return [
    ...stringsAt(spec, "scopes").map((name) => ({ name, operator: "Exists", values: [] })),
    ...itemsAt(fieldsAt(spec, "scopeSelector"), "matchExpressions").map((it) => ({
      name: textAt(it, "scopeName"),
      operator: textAt(it, "operator"),
      values: stringsAt(it, "values"),
    })),
  ];
}

/** Whether an object with the class `value` is meant; it has none where that is empty. */
export function selects({ operator, values }: Scope, value: string): boolean {
  switch (operator) {
    case "In":
      return value !== "" && values.includes(value);
    case "NotIn":
      return value === "" || !values.includes(value);
    case "DoesNotExist":
      return value === "";
    default:
      return value !== "";
  }
}
