import { isObject } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import { StatusError } from "#status.ts";

/** A value as Go's `%v` prints it, which messages of kube-apiserver hold: "map[a:1 b:[x y]]". */
export function goText(value: unknown): string {
  if (value === null || value === undefined) return "<nil>";
  if (Array.isArray(value)) return `[${value.map(goText).join(" ")}]`;
  if (!isObject(value)) return typeof value === "string" ? value : scalarText(value);
  const fields = Object.entries(value).toSorted(([a], [b]) => byText(a, b));
  return `map[${fields.map(([name, it]) => `${name}:${goText(it)}`).join(" ")}]`;
}

/** A value as Go's `%#v` prints it: `map[string]interface {}{"a":1}`. */
export function goSyntax(value: unknown): string {
  if (value === null || value === undefined) return "interface {}(nil)";
  if (Array.isArray(value)) return `[]interface {}{${value.map(goSyntax).join(", ")}}`;
  if (!isObject(value)) return scalarText(value);
  const fields = Object.entries(value).toSorted(([a], [b]) => byText(a, b));
  return `map[string]interface {}{${fields.map(([name, it]) => `${JSON.stringify(name)}:${goSyntax(it)}`).join(", ")}}`;
}

function scalarText(value: unknown): string {
  return typeof value === "bigint" ? value.toString() : JSON.stringify(value);
}

/** A value that cannot be merged. kube-apiserver reports it as an internal error without a reason. */
export function mergeFailure(message: string): StatusError {
  return new StatusError({ code: 500, message });
}

/** The name of a value's type, as Go's JSON decoder calls it. */
export function goTypeName(value: unknown): string {
  if (Array.isArray(value)) return "array";
  if (typeof value === "boolean") return "bool";
  return value === null ? "null" : typeof value;
}
