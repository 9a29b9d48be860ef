import { isObject } from "@fairlead/base/json.ts";

/** How Go reports a value that its type cannot have: its JSON decoder, and the converter of maps that patches and applies go through. */

/** The decoder. `where` is a struct's field, or "Go value". */
export function decoderText(value: unknown, wanted: string, where: string): string {
  return `json: cannot unmarshal ${jsonType(value, wanted)} into ${where} of type ${wanted}`;
}

/** Types that hold numbers: of what does not fit them the decoder shows the value. */
const NUMBERS = new Set(["int32", "int64", "float64", "uint8"]);

function jsonType(value: unknown, wanted: string): string {
  if (Array.isArray(value)) return "array";
  if (typeof value === "boolean") return "bool";
  if (typeof value !== "number" && typeof value !== "bigint") return value === null ? "null" : typeof value;
  return NUMBERS.has(wanted) ? `number ${value}` : "number";
}

/** What a type is made of, whatever it is called. */
export type GoKind = "string" | "bool" | "int32" | "int64" | "float64" | "map" | "slice" | "struct";

/** The converter. Source: apimachinery, pkg/runtime/converter.go. */
export function converterText(value: unknown, wanted: string, kind: GoKind): string {
  const given = kindOf(value);
  if (kind === "struct") return `cannot restore struct from: ${given}`;
  if (kind === "map" || kind === "slice") return `cannot restore ${kind} from ${given}`;
  const isConvertible = given === "int64" ? kind !== "bool" : given === "float64" && NUMBERS.has(kind);
  return isConvertible ? `cannot convert ${given} to ${wanted}` : `unrecognized type: ${kind}`;
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return "slice";
  if (isObject(value)) return "map";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "string") return "string";
  return typeof value === "number" && !Number.isInteger(value) ? "float64" : "int64";
}
